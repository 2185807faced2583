package produce

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// answerWith answers every partition of a produce with a code and a base offset.
func answerWith(code int16, base int64) func(*kmsg.ProduceRequest) *kmsg.ProduceResponse {
	return func(request *kmsg.ProduceRequest) *kmsg.ProduceResponse {
		answer := request.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range request.Topics {
			at := kmsg.NewProduceResponseTopic()
			at.Topic, at.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				ap := kmsg.NewProduceResponseTopicPartition()
				ap.Partition, ap.ErrorCode, ap.BaseOffset = p.Partition, code, base
				at.Partitions = append(at.Partitions, ap)
			}
			answer.Topics = append(answer.Topics, at)
		}
		return answer
	}
}

// appendedAt answers as a broker does that has given the batch its own time.
func appendedAt(timeMs int64) func(*kmsg.ProduceRequest) *kmsg.ProduceResponse {
	return func(request *kmsg.ProduceRequest) *kmsg.ProduceResponse {
		answer := answerWith(0, 0)(request)
		answer.Topics[0].Partitions[0].LogAppendTime = timeMs
		return answer
	}
}

// What an owner before us has appended already is answered with its last timestamp.
func TestStreamTakesADuplicateForAppended(t *testing.T) {
	r := newRig(t)
	r.answer = appendedAt(1000)
	s := r.open(1000)
	s.Push(r.next(0, 5))
	if fault := r.await(s, 5); fault != nil {
		t.Error(fault)
	}
}

func TestStreamAppendsInOrder(t *testing.T) {
	r := newRig(t)
	s := r.open(1000)
	var released atomic.Int64
	for i := range int64(20) {
		b := r.next(i*5, 5)
		b.Release = func() { released.Add(1) }
		s.Push(b)
	}
	if fault := r.await(s, 100); fault != nil {
		t.Fatal(fault)
	}
	if r.end() != 100 || released.Load() != 20 || s.QueuedBytes() != 0 {
		t.Errorf("log end %d, %d released, %d bytes queued", r.end(), released.Load(), s.QueuedBytes())
	}
}

// Every answer that is not a plain success ends the stream; nothing more is sent.
func TestStreamEndsWithWhatTheBrokerAnswers(t *testing.T) {
	for _, test := range []struct {
		name    string
		answer  func(*kmsg.ProduceRequest) *kmsg.ProduceResponse
		verdict Verdict
		text    string
	}{
		{"base offset mismatch", answerWith(0, 3), Quarantined, "source offsets 0 to 4 was appended at offset 3"},
		{"log append time, or the filler of another owner", appendedAt(5000), Retry, "t-1: the batch of offsets 0 to 4 stands there with other timestamps"},
		{"out of sequence", answerWith(kerr.OutOfOrderSequenceNumber.Code, -1), Retry, "not in sequence"},
		{"old epoch", answerWith(kerr.InvalidProducerEpoch.Code, -1), Retry, "not in sequence"},
		{"leader moved", answerWith(kerr.NotLeaderForPartition.Code, -1), Retry, "t-1"},
		{"unknown topic id", answerWith(kerr.UnknownTopicID.Code, -1), Retry, "t-1"},
		{"not enough replicas after append", answerWith(kerr.NotEnoughReplicasAfterAppend.Code, 0), Retry, "t-1"},
		{"timed out", answerWith(kerr.RequestTimedOut.Code, 0), Retry, "t-1"},
		{"too large", answerWith(kerr.MessageTooLarge.Code, -1), Refused, "more than the topic's max.message.bytes"},
		{"larger than a segment", answerWith(kerr.RecordListTooLarge.Code, -1), Refused, "more than the topic's segment.bytes"},
		{"forbidden", answerWith(kerr.TopicAuthorizationFailed.Code, -1), Refused, "TOPIC_AUTHORIZATION_FAILED"},
		{"invalid record", answerWith(kerr.InvalidRecord.Code, -1), Refused, "offsets 0 to 4"},
		{"left out", func(r *kmsg.ProduceRequest) *kmsg.ProduceResponse { return r.ResponseKind().(*kmsg.ProduceResponse) }, Ambiguous, "offset 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t)
			r.answer = test.answer
			s := r.open(1000)
			for i := range int64(3) {
				s.Push(r.next(i*5, 5))
			}
			fault := r.await(s, 1)
			<-s.Idle()
			if fault == nil || fault.Verdict != test.verdict || !strings.Contains(fault.Error(), test.text) {
				t.Fatalf("fault %v, want %v: %q", fault, test.verdict, test.text)
			}
			if r.sent.Load() != 1 {
				t.Errorf("%d requests were sent, want 1", r.sent.Load())
			}
		})
	}
}

// cutAfterWrite lets a produce reach the broker and loses the answer.
type cutAfterWrite struct {
	net.Conn
	produces int // writes so far
}

func (c *cutAfterWrite) Write(b []byte) (int, error) { c.produces++; return c.Conn.Write(b) }
func (c *cutAfterWrite) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.produces > 1 { // the first is ApiVersions
		c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// The batch was appended and nobody heard: the stream must not know better, and the log end says so.
func TestStreamLosesAnAnswer(t *testing.T) {
	r := newRig(t)
	r.wrap = func(c net.Conn) net.Conn { return &cutAfterWrite{Conn: c} }
	s := r.open(1000)
	s.Push(r.next(0, 5))
	s.Push(r.next(5, 5))
	fault := r.await(s, 1)
	if fault == nil || fault.Verdict != Ambiguous || fault.BeginOffset != 0 {
		t.Fatalf("fault %+v", fault)
	}
	if r.end() != 5 {
		t.Errorf("log end %d, want 5", r.end())
	}
	r.wrap = nil
	if s = r.open(1000); s.cfg.StartOffset != 5 {
		t.Fatalf("aligned at %d, want 5", s.cfg.StartOffset)
	}
	s.Push(r.next(5, 5))
	if fault := r.await(s, 10); fault != nil || r.end() != 10 {
		t.Errorf("fault %v, log end %d", fault, r.end())
	}
}

// A stream that has ended with another fault while a batch was in flight still tells that the
// answer for that never came.
func TestStreamLosesAnAnswerAfterAnotherFault(t *testing.T) {
	r := newRig(t)
	arrived, faulted := make(chan struct{}), make(chan struct{})
	r.answer = func(request *kmsg.ProduceRequest) *kmsg.ProduceResponse {
		close(arrived)
		<-faulted
		return request.ResponseKind().(*kmsg.ProduceResponse) // which leaves the batch out
	}
	s := r.open(1000)
	s.Push(r.next(0, 5))
	<-arrived
	s.Push(r.next(7, 5)) // out of place
	close(faulted)
	<-s.Idle()
	if _, _, _, fault := s.Status(); fault == nil || fault.Verdict != Quarantined || s.Unanswered() != 0 {
		t.Errorf("fault %v, unanswered %d", fault, s.Unanswered())
	}
}

func TestStreamSendsNothingWithoutTheLease(t *testing.T) {
	r := newRig(t)
	s := r.open(1000)
	s.Push(r.next(0, 5))
	if fault := r.await(s, 5); fault != nil {
		t.Fatal(fault)
	}
	r.lease.Store(false)
	for i := int64(1); i < 10; i++ {
		s.Push(r.next(i*5, 5))
	}
	if fault := r.await(s, 50); fault == nil || fault.Verdict != LostLease {
		t.Fatalf("fault %v", fault)
	}
	if r.sent.Load() != 1 || r.end() != 5 {
		t.Errorf("%d requests, log end %d", r.sent.Load(), r.end())
	}
}

func TestStreamStopsAtTheReservation(t *testing.T) {
	r := newRig(t)
	s := r.open(10)
	for i := range int64(4) {
		s.Push(r.next(i*8, 8))
	}
	if fault := r.await(s, 16); fault != nil { // the batch at 8 begins below 10
		t.Fatal(fault)
	}
	for {
		if _, _, waiting, _ := s.Status(); waiting {
			break
		}
		<-s.Events()
	}
	if r.end() != 16 {
		t.Errorf("log end %d, want 16", r.end())
	}
	s.Reserve(100)
	if fault := r.await(s, 32); fault != nil {
		t.Fatal(fault)
	}
}

func TestStreamDoesNotTrustAnOldCheck(t *testing.T) {
	r := newRig(t)
	s := r.open(1000)
	s.Push(r.next(0, 5))
	if fault := r.await(s, 5); fault != nil {
		t.Fatal(fault)
	}
	r.ahead.Store(int64(31 * time.Second))
	s.Push(r.next(5, 5))
	if fault := r.await(s, 10); fault == nil || fault.Verdict != Stale {
		t.Fatalf("fault %v", fault)
	}
	if r.sent.Load() != 1 {
		t.Errorf("%d requests were sent, want 1", r.sent.Load())
	}
}

// The check may have been made long before the connection was there.
func TestStreamDoesNotTrustACheckOfBeforeConnecting(t *testing.T) {
	r := newRig(t)
	r.wrap = func(conn net.Conn) net.Conn {
		r.ahead.Store(int64(45 * time.Second))
		return conn
	}
	s := r.open(1000)
	s.Push(r.next(0, 5))
	if fault := r.await(s, 5); fault == nil || fault.Verdict != Stale {
		t.Fatalf("fault %v", fault)
	}
	if r.sent.Load() != 0 {
		t.Errorf("%d requests were sent, want none", r.sent.Load())
	}
}

// A batch that does not follow is a mistake of ours that must not reach the log.
func TestStreamRefusesABatchOutOfPlace(t *testing.T) {
	r := newRig(t)
	s := r.open(1000)
	released := false
	b := r.next(6, 5)
	b.Release = func() { released = true }
	s.Push(b)
	if fault := r.await(s, 1); fault == nil || fault.Verdict != Quarantined || !released || r.sent.Load() != 0 {
		t.Errorf("fault %v, released %t, %d sent", fault, released, r.sent.Load())
	}
}

func TestStreamCloseReleasesWhatIsNotSent(t *testing.T) {
	r := newRig(t)
	s := r.open(0) // nothing reserved: nothing is sent
	released := 0
	for i := range int64(3) {
		b := r.next(i*5, 5)
		b.Release = func() { released++ }
		s.Push(b)
	}
	s.Close()
	<-s.Idle()
	s.Push(Batch{BaseOffset: 15, Count: 1, Release: func() { released++ }})
	if released != 4 || r.sent.Load() != 0 {
		t.Errorf("%d released, %d sent", released, r.sent.Load())
	}
}
