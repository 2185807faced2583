package replicate

import (
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// session carries one partition from fetcher to stream, through its translator. deliver is called by one fetcher goroutine; the runner
// watches failed. It is used once.
type session struct {
	target     produce.Target
	translator translator // of the fetcher's goroutine
	stream     *produce.Stream
	live       *state.LivePartition
	queueBytes int
	nowMs      func() int64
	failed     chan struct{} // closed with the first fault
	trim       *trimming
	fresh      freshness
	delivery   delivery // of the answer at hand

	mu     sync.Mutex
	next   int64            // source offset of the next record
	epochs []state.EpochRun // source leader epochs of the records before it
	// obstacle is what the source has at next that cannot be mirrored; nothing more is fetched.
	obstacle *produce.Fault
	fault    *produce.Fault
}

func (s *session) wants() (offset int64, epoch int32, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next, lastEpoch(s.epochs), s.fault == nil && s.obstacle == nil && s.stream.QueuedBytes() < s.queueBytes
}

func (s *session) broken(fault *produce.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		s.fault = fault
		close(s.failed)
	}
}

func (s *session) Fault() *produce.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// epochsBelow are the source leader epochs of the records below an offset.
func (s *session) epochsBelow(end int64) []state.EpochRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	return epochsBelow(s.epochs, end)
}

func (s *session) deliver(answer *kmsg.FetchResponseTopicPartition, held *holding, coder *batch.Coder) {
	if s.Fault() != nil {
		return
	}
	s.note(answer)
	s.delivery = delivery{session: s, held: held}
	err := s.translator.translate(answer.RecordBatches, answer.HighWatermark, newAborted(answer.AbortedTransactions), s.stream.QueuedBytes() > 0, coder, &s.delivery)
	if err != nil && !errors.Is(err, errNoRoom) {
		s.stuck(s.faultOf(err))
	}
}

// stuck ends the session once what was pushed before the trouble is written.
func (s *session) stuck(fault *produce.Fault) {
	s.mu.Lock()
	s.obstacle = fault
	s.mu.Unlock()
	end, _, _, _ := s.stream.Status()
	s.wrote(end)
}

// wrote notes where the destination's log ends.
func (s *session) wrote(end int64) {
	s.mu.Lock()
	fault := s.obstacle
	if end < s.next {
		fault = nil
	}
	s.mu.Unlock()
	if fault != nil {
		s.broken(fault)
	}
}

func (s *session) faultOf(err error) *produce.Fault {
	var fault *produce.Fault
	if errors.As(err, &fault) {
		return fault
	}
	return produce.Because(produce.Retry, err, "%s: what the source sent from offset %d on cannot be mirrored", s.target, s.translator.next)
}

// note puts the figures of an answer on the board.
func (s *session) note(answer *kmsg.FetchResponseTopicPartition) {
	s.live.LastFetchMs.Store(s.nowMs())
	s.fresh.look(s.nowMs(), s.next, s.live.DestinationOffset.Load())
	s.live.SourceOffset.Store(answer.HighWatermark)
	s.trim.begins(answer.LogStartOffset, s.nowMs())
	end := s.live.DestinationOffset.Load()
	if end >= answer.HighWatermark {
		s.live.LaggingSinceMs.Store(0)
	} else if s.live.LaggingSinceMs.Load() == 0 {
		s.live.LaggingSinceMs.Store(s.nowMs())
	}
	waitsFor := int64(-1)
	if stable := answer.LastStableOffset; stable >= 0 && stable < answer.HighWatermark && end >= stable {
		waitsFor = stable
	}
	s.live.OpenTransactionOffset.Store(waitsFor)
}

// delivery is the outlet of one answer.
type delivery struct {
	session *session
	held    *holding
}

func (d *delivery) room() bool { return d.session.stream.QueuedBytes() < d.session.queueBytes }

func (d *delivery) push(bytes []byte, base int64, count int32, epoch int32, owned bool) {
	held := d.held
	if owned {
		held = d.held.budget.hold(int64(len(bytes)))
		held.budget.Adjust(held.bytes)
	} else {
		held.use()
	}
	d.session.advance(base, base+int64(count), epoch)
	d.session.stream.Push(produce.Batch{Bytes: bytes, BaseOffset: base, Count: count, Release: held.releaser})
}

// advance notes what was pushed. epoch is the source's leader epoch of the records from base on, -1 in old formats.
func (s *session) advance(base, next int64, epoch int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epochs = appendEpoch(s.epochs, base, epoch)
	s.next = next
}
