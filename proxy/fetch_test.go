package proxy

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/state"
)

var (
	otherID  = state.TopicID{5}
	formerID = state.TopicID{6, 6}
)

const mirrorProducer = batch.FirstMirrorProducer + 3

// dataBatch is n plain records of a producer from base on.
func dataBatch(base int64, n int, producerID int64) []byte {
	b := kmsg.RecordBatch{FirstOffset: base, Magic: 2, LastOffsetDelta: int32(n - 1), ProducerID: producerID, NumRecords: int32(n)}
	for i := range n {
		r := kmsg.Record{OffsetDelta: int32(i), Key: fmt.Appendf(nil, "key %d", base+int64(i)), Value: []byte("value")}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// fillerBatch is n records of filler from base on.
func fillerBatch(t testing.TB, base int64, n int) []byte {
	t.Helper()
	maker, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 1})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := maker.Append(nil, int32(n), 9, mirrorProducer, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	batch.SetBaseOffset(raw, base)
	return raw
}

// mixedBatch is a batch of a mirror with data at base and base+3 and filler between.
func mixedBatch(t testing.TB, base int64) []byte {
	t.Helper()
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: batch.MinLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	source := append(dataBatch(base, 1, 5), dataBatch(base+3, 1, 5)...)
	raw, err := coder.Reencode(nil, source, batch.ReencodeOptions{FromOffset: base, PreviousTimestampMs: -1, MaxBatchBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	batch.SetProducer(raw, mirrorProducer, 0, 0)
	batch.SetBaseOffset(raw, base)
	if b := batch.Batch(raw); b.Count() != 4 || b.Codec() != batch.CodecGzip {
		t.Fatalf("%d records, codec %d", b.Count(), b.Codec())
	}
	return raw
}

// visible is what a coder makes of a record set: what TestHider of package batch holds the Hider to.
func visible(t testing.TB, records []byte) []byte {
	t.Helper()
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: batch.MinLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	var out []byte
	rest, err := batch.Each(records, func(b batch.Batch) error {
		instead, hidden, err := coder.AppendVisible(nil, b)
		if !hidden || err != nil {
			instead = b
		}
		out = append(out, instead...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(out, rest...)
}

// someLog is a record set with everything in it, cut at its end.
func someLog(t testing.TB) []byte {
	t.Helper()
	var log []byte
	for _, b := range [][]byte{
		fillerBatch(t, 0, 1000), dataBatch(1000, 3, 5), mixedBatch(t, 1003), dataBatch(1007, 2, mirrorProducer), fillerBatch(t, 1009, 7), fillerBatch(t, 1016, 500)[:90],
	} {
		log = append(log, b...)
	}
	return log
}

// fetchOf is a Fetch request of topics, in a session when epoch says so.
func fetchOf(version int16, epoch int32, parts ...part) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.Version, request.MaxBytes, request.SessionEpoch = version, 50<<20, epoch
	if epoch > 0 {
		request.SessionID = 77
	}
	for _, p := range parts {
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.TopicID = p.topic, p.id
		topic.Partitions = append(topic.Partitions, kmsg.NewFetchRequestTopicPartition())
		request.Topics = append(request.Topics, topic)
	}
	return request
}

// fetchAnswer answers with the same records for every topic.
func fetchAnswer(version int16, records []byte, parts ...part) *kmsg.FetchResponse {
	response := kmsg.NewPtrFetchResponse()
	response.Version, response.SessionID = version, 77
	for _, p := range parts {
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID = p.topic, p.id
		partition := kmsg.NewFetchResponseTopicPartition()
		partition.RecordBatches, partition.HighWatermark = records, 1016
		partition.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 5, FirstOffset: 1000}}
		topic.Partitions = append(topic.Partitions, partition)
		response.Topics = append(response.Topics, topic)
	}
	if version >= 16 {
		response.Brokers = append(response.Brokers, kmsg.FetchResponseBroker{NodeID: 3, Host: "upstream.internal", Port: 9092})
	}
	return response
}

// givenRecords is the records that reached the client by topic, of the one answer there is.
func givenRecords(t testing.TB, version int16, stream []byte) map[part][]byte {
	t.Helper()
	all := frames(t, stream)
	if len(all) != 1 {
		t.Fatalf("%d answers", len(all))
	}
	offset, _, err := protocol.PeekResponseBody(protocol.KeyFetch, version, all[0][sizeBytes:])
	if err != nil {
		t.Fatal(err)
	}
	response := kmsg.NewPtrFetchResponse()
	response.Version = version
	if err := response.ReadFrom(all[0][sizeBytes+offset:]); err != nil {
		t.Fatal(err)
	}
	for _, b := range response.Brokers {
		if b.Host != "proxy" || b.Port != 19096 {
			t.Errorf("endpoint %+v", b)
		}
	}
	records := map[part][]byte{}
	for _, topic := range response.Topics {
		for _, p := range topic.Partitions {
			if p.HighWatermark != 1016 || len(p.AbortedTransactions) != 1 {
				t.Errorf("%+v", p)
			}
			records[part{topic.Topic, topic.TopicID}] = p.RecordBatches
		}
	}
	return records
}

// of is a topic as a version names it.
func (p part) of(version int16) part {
	if version >= 13 {
		return part{id: p.id}
	}
	return part{topic: p.topic}
}

var (
	mirrorTopic = part{"orders", ordersID}
	plainTopic  = part{"other", otherID}
	formerTopic = part{"former", formerID}
)

// withFormer adds a topic whose mirror was deleted.
func withFormer(t testing.TB, store *state.Memory) *state.Memory {
	t.Helper()
	partition := state.PartitionID{Topic: formerID}
	err := store.Do(context.Background(),
		state.CreateMirror{Name: "old"},
		state.AddTopic{Mirror: "old", Name: "former", ID: formerID, Partitions: 1}, state.ConfirmTopic{ID: formerID},
		state.RemoveTopic{Mirror: "old", Name: "former"},
		state.MovePartition{Partition: partition, To: state.Stopping, LastMirroredOffset: -1},
		state.MovePartition{Partition: partition, To: state.Stopped, LastMirroredOffset: 3},
		state.DeleteMirror{Name: "old"})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// TestFillerIsHidden: in every version, in topics that are or were mirrored, and nowhere else; in a session too, whose
// requests name nothing.
func TestFillerIsHidden(t *testing.T) {
	store := withFormer(t, mirroredStore(t))
	log := someLog(t)
	want := visible(t, log)
	for version := int16(4); version <= 18; version++ {
		t.Run(fmt.Sprint("v", version), func(t *testing.T) {
			p := newPump(t, newTestSession(t, store.View), nil, whole)
			topics := []part{plainTopic.of(version), mirrorTopic.of(version), formerTopic.of(version)}
			for i, named := range [][]part{topics, nil, topics[:1]} { // the first of a session, and two more
				p.given = nil
				request := requestFrame(int32(i), fetchOf(version, int32(i), named...))
				p.requests(request)
				if i == 0 && !bytes.HasSuffix(p.passed, request) {
					t.Error("the request was changed")
				}
				p.answers(answerFrame(int32(i), fetchAnswer(version, log, topics...)))
				if p.close.Verb == Close {
					t.Fatalf("closed: %v", p.close.Err)
				}
				if version < 7 && i > 0 {
					continue // no session: what was not named is not fetched
				}
				got := givenRecords(t, version, p.given)
				for topic, records := range map[part][]byte{topics[0]: log, topics[1]: want, topics[2]: want} {
					if !bytes.Equal(got[topic], records) {
						t.Errorf("request %d, topic %v: %d bytes of records, want %d", i, topic, len(got[topic]), len(records))
					}
				}
			}
			if n := p.session.metrics.hiddenBatches.Load(); n == 0 {
				t.Error("no hidden batch is counted")
			}
		})
	}
}

// held says whether an answer must be there whole before any of it passes.
func held(t testing.TB, s *Session, answer []byte) bool {
	t.Helper()
	d := s.OnResponse(answer[:100])
	switch d.Verb {
	case Forward:
		return false
	case NeedMore:
		if d.N != len(answer) {
			t.Fatalf("need %d of %d bytes", d.N, len(answer))
		}
		return true
	}
	t.Fatalf("%+v", d)
	return false
}

// TestOtherAnswersAreNotHeld: a connection that never named a topic that may hold filler keeps the path without copies, also
// where other topics are mirrored.
func TestOtherAnswersAreNotHeld(t *testing.T) {
	store := withFormer(t, mirroredStore(t))
	for version := int16(4); version <= 18; version++ {
		p := newPump(t, newTestSession(t, store.View), nil, whole)
		topic := plainTopic.of(version)
		for i, named := range [][]part{{topic}, nil, {topic}} {
			p.requests(requestFrame(int32(i), fetchOf(version, int32(i), named...)))
			answer := answerFrame(int32(i), fetchAnswer(version, someLog(t), topic))
			if held(t, p.session, answer) {
				t.Fatalf("v%d: held", version)
			}
			p.given = answer[:0:0]
			if version < 16 { // held has forwarded all of it
				p.session.Written()
				continue
			}
			p.answers(answer[sizeBytes+correlationBytes+1:]) // but for the size and the header
		}
	}
}

// addPlain makes the plain topic a mirror's.
func addPlain(t testing.TB, store *state.Memory) {
	t.Helper()
	if err := store.Do(context.Background(), state.AddTopic{Mirror: "dr", Name: "other", ID: otherID, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
}

// TestTopicIsMirroredMeanwhile: a topic that is added to a mirror while a session fetches it, or while a fetch of it waits
// for records, has its filler hidden although no request names it after that.
func TestTopicIsMirroredMeanwhile(t *testing.T) {
	log := someLog(t)
	for version := int16(7); version <= 18; version++ {
		topic := plainTopic.of(version)
		for name, first := range map[string]func(p *pump, add func()){
			"within the session": func(p *pump, add func()) {
				p.requests(requestFrame(1, fetchOf(version, 0, topic)))
				p.answers(answerFrame(1, fetchAnswer(version, nil, topic)))
				add()
				p.requests(requestFrame(2, fetchOf(version, 1)))
			},
			"while it waits": func(p *pump, add func()) {
				p.requests(requestFrame(2, fetchOf(version, 0, topic)))
				add()
			},
			"two sessions on a connection": func(p *pump, add func()) {
				p.requests(requestFrame(1, fetchOf(version, 0, topic)))
				p.answers(answerFrame(1, fetchAnswer(version, nil, topic)))
				add()
				p.requests(requestFrame(3, fetchOf(version, 0, part{"third", state.TopicID{8}}.of(version))))
				p.answers(answerFrame(3, fetchAnswer(version, nil)))
				p.requests(requestFrame(2, fetchOf(version, 1)))
			},
			"a session of another connection": func(p *pump, add func()) {
				add()
				p.requests(requestFrame(2, fetchOf(version, 5)))
			},
		} {
			store := mirroredStore(t)
			p := newPump(t, newTestSession(t, store.View), nil, whole)
			first(p, func() { addPlain(t, store) })
			p.given = nil
			p.answers(answerFrame(2, fetchAnswer(version, log, topic)))
			if got := givenRecords(t, version, p.given)[topic]; !bytes.Equal(got, visible(t, log)) {
				t.Errorf("v%d, %s: %d bytes of records, want %d", version, name, len(got), len(visible(t, log)))
			}
		}
	}
}

// TestFillerWhileNothingIsKnown: until the view is loaded filler is hidden in whatever topic it is, and no session is granted,
// so that what is fetched after that is known.
func TestFillerWhileNothingIsKnown(t *testing.T) {
	log := someLog(t)
	store := mirroredStore(t)
	for version := int16(4); version <= 18; version++ {
		view := &state.View{}
		p := newPump(t, newTestSession(t, func() *state.View { return view }), nil, whole)
		topic := plainTopic.of(version)
		p.requests(requestFrame(1, fetchOf(version, 0, topic)))
		want := fetchOf(version, 0, topic)
		if version >= 7 {
			want.SessionEpoch = -1
		}
		if !bytes.Equal(p.passed, requestFrame(1, want)) {
			t.Errorf("v%d: not the request without a session", version)
		}
		p.answers(answerFrame(1, fetchAnswer(version, log, topic)))
		if got := givenRecords(t, version, p.given)[topic]; !bytes.Equal(got, visible(t, log)) {
			t.Errorf("v%d: filler is seen before the view is loaded", version)
		}
		view = store.View()
		if d := p.session.OnRequest(requestFrame(2, fetchOf(version, 0, topic))); d.Verb != Forward {
			t.Fatalf("v%d: %+v", version, d)
		}
		if held(t, p.session, answerFrame(2, fetchAnswer(version, log, topic))) {
			t.Errorf("v%d: held although the topic is known to hold none", version)
		}
	}
}

// TestHeldFetchIsLimited: an answer that is held whole must fit the budget.
func TestHeldFetchIsLimited(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		for topic, want := range map[part]int32{mirrorTopic.of(version): 64 << 20, plainTopic.of(version): 1 << 30} {
			p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
			request := fetchOf(version, 0, topic)
			request.MaxBytes = 1 << 30
			p.requests(requestFrame(1, request))
			request.MaxBytes = want
			if !bytes.Equal(p.passed, requestFrame(1, request)) {
				t.Errorf("v%d, topic %v: not the request with at most %d bytes", version, topic, want)
			}
		}
	}
}

// TestNothingToHideGoesOutAsItIs: an answer that is held and holds no filler is passed on, not copied.
func TestNothingToHideGoesOutAsItIs(t *testing.T) {
	session := newTestSession(t, mirroredStore(t).View)
	topic := part{id: ordersID}
	if d := session.OnRequest(requestFrame(1, fetchOf(17, 0, topic))); d.Verb != Forward {
		t.Fatalf("%+v", d)
	}
	answer := answerFrame(1, fetchAnswer(17, append(dataBatch(0, 30, 5), dataBatch(30, 3, mirrorProducer)...), topic))
	d := session.OnResponse(answer)
	if d.Verb != Forward || d.N != len(answer) || d.Data != nil {
		t.Errorf("%v %d %d", d.Verb, d.N, len(d.Data))
	}
	if bytes.Contains(answer, []byte("upstream.internal")) {
		t.Error("the broker's address passes")
	}
}

func TestMalformedFetchAnswerIsRefused(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		topic := mirrorTopic.of(version)
		answer := fetchAnswer(version, someLog(t), topic).AppendTo(nil)
		header := protocol.AppendResponseHeader(nil, protocol.KeyFetch, version, 1)
		for _, bad := range [][]byte{rawFrame(header, answer[:len(answer)-1]), rawFrame(header, answer, []byte{0}), rawFrame(header[:4])} {
			p := newPump(t, newTestSession(t, mirroredStore(t).View), nil, whole)
			p.requests(requestFrame(1, fetchOf(version, 0, topic)))
			p.answers(bad)
			if p.close.Cause != CauseBrokerFrame || len(p.given) > 0 {
				t.Errorf("v%d: %v %v, given %d bytes", version, p.close.Cause, p.close.Err, len(p.given))
			}
		}
	}
}

// TestShareFetchHidesFiller: share consumers are given the same.
func TestShareFetchHidesFiller(t *testing.T) {
	log := someLog(t)
	store := withFormer(t, mirroredStore(t))
	for version := int16(0); version <= 2; version++ {
		request := kmsg.NewPtrShareFetchRequest()
		request.Version = version
		response := kmsg.NewPtrShareFetchResponse()
		response.Version = version
		for _, id := range []state.TopicID{ordersID, otherID, formerID} {
			topic := kmsg.NewShareFetchResponseTopic()
			topic.TopicID = id
			partition := kmsg.NewShareFetchResponseTopicPartition()
			partition.Records = log
			topic.Partitions = append(topic.Partitions, partition)
			response.Topics = append(response.Topics, topic)
		}
		p := newPump(t, newTestSession(t, store.View), nil, whole)
		p.requests(requestFrame(1, request))
		p.answers(answerFrame(1, response))
		response.Topics[0].Partitions[0].Records = visible(t, log)
		response.Topics[2].Partitions[0].Records = visible(t, log)
		if !bytes.Equal(p.given, answerFrame(1, response)) {
			t.Errorf("v%d: %d bytes, want %d; %v", version, len(p.given), len(answerFrame(1, response)), p.close.Err)
		}
	}
}

// TestFetchCutAnywhere: however the streams are cut, the same comes out: all that is not filler to the byte, and filler
// hidden.
func TestFetchCutAnywhere(t *testing.T) {
	store := withFormer(t, mirroredStore(t))
	pieces := [][]byte{
		fillerBatch(t, 10, 40), mixedBatch(t, 50), dataBatch(54, 4, 5), dataBatch(58, 400, mirrorProducer), fillerBatch(t, 458, 3)[:70], {1, 2, 3},
	}
	rapid.Check(t, func(rt *rapid.T) {
		version := rapid.Int16Range(4, 18).Draw(rt, "version")
		var requests, answers []byte
		var want []*kmsg.FetchResponse
		for i := range int32(rapid.IntRange(1, 4).Draw(rt, "requests")) {
			topics := rapid.SliceOfNDistinct(rapid.SampledFrom([]part{mirrorTopic.of(version), plainTopic.of(version), formerTopic.of(version)}),
				0, 3, rapid.ID[part]).Draw(rt, "topics")
			requests = append(requests, requestFrame(i, fetchOf(version, 0, topics...))...)
			response := fetchAnswer(version, nil, topics...)
			seen := fetchAnswer(version, nil, topics...)
			for j := range topics {
				var records []byte
				for range rapid.IntRange(0, 4).Draw(rt, "batches") {
					records = append(records, pieces[rapid.IntRange(0, 3).Draw(rt, "batch")]...)
				}
				if rapid.Bool().Draw(rt, "cut") {
					records = append(records, pieces[rapid.IntRange(4, 5).Draw(rt, "tail")]...)
				}
				if records == nil {
					records = []byte{}
				}
				response.Topics[j].Partitions[0].RecordBatches = records
				seen.Topics[j].Partitions[0].RecordBatches = records
				if topics[j] != plainTopic.of(version) && len(records) > 0 {
					seen.Topics[j].Partitions[0].RecordBatches = visible(t, records)
				}
			}
			answers = append(answers, answerFrame(i, response)...)
			want = append(want, seen)
		}
		plain := newPump(t, newTestSession(t, store.View), nil, whole)
		plain.requests(requests)
		plain.answers(answers)
		cut := newPump(t, newTestSession(t, store.View), nil, func(most int) int {
			return min(most, rapid.SampledFrom([]int{0, 0, 1, 2, 7, 100, 100_000}).Draw(rt, "extra"))
		})
		cut.requests(requests)
		cut.answers(answers)
		if !bytes.Equal(cut.passed, plain.passed) || !bytes.Equal(cut.given, plain.given) || !bytes.Equal(plain.passed, requests) {
			t.Fatal("cut streams give something else")
		}
		given := frames(t, plain.given)
		if len(given) != len(want) {
			t.Fatalf("%d answers to %d requests: %v", len(given), len(want), plain.close.Err)
		}
		for i, answer := range given {
			offset, _, err := protocol.PeekResponseBody(protocol.KeyFetch, version, answer[sizeBytes:])
			if err != nil {
				t.Fatal(err)
			}
			got := kmsg.NewPtrFetchResponse()
			got.Version = version
			if err := got.ReadFrom(answer[sizeBytes+offset:]); err != nil {
				t.Fatal(err)
			}
			got.Brokers, want[i].Brokers = nil, nil // rewritten within their own length, with padding: TestFetchWalk
			if !bytes.Equal(got.AppendTo(nil), want[i].AppendTo(nil)) {
				t.Fatalf("v%d, answer %d: not what is to be seen", version, i)
			}
		}
	})
}

// BenchmarkFetch is one answer of about 1 MB on a connection that may see filler, and on one that cannot.
func BenchmarkFetch(b *testing.B) {
	var data, fill []byte
	for base := int64(0); len(data) < 1<<20; base += 400 {
		data = append(data, dataBatch(base, 400, mirrorProducer)...)
	}
	one := fillerBatch(b, 0, batch.MaxFillerRecords)
	for base := int64(0); len(fill) < 1<<20; base += batch.MaxFillerRecords {
		batch.SetBaseOffset(one, base)
		fill = append(fill, one...)
	}
	for _, row := range []struct {
		name    string
		topic   part
		records []byte
	}{{"other-topic", part{id: otherID}, data}, {"data", part{id: ordersID}, data}, {"filler", part{id: ordersID}, fill}} {
		b.Run(row.name, func(b *testing.B) {
			session := newTestSession(b, mirroredStore(b).View)
			request, answer := requestFrame(1, fetchOf(17, 0, row.topic)), answerFrame(1, fetchAnswer(17, row.records, row.topic))
			b.SetBytes(int64(len(answer)))
			b.ReportAllocs()
			for b.Loop() {
				if d := session.OnRequest(request); d.Verb != Forward {
					b.Fatalf("%+v", d)
				}
				for shown := answer; len(shown) > 0; {
					d := session.OnResponse(shown)
					if d.Verb != Forward && d.Verb != Replace {
						b.Fatalf("%+v", d)
					}
					shown = shown[d.N:]
				}
				session.OnResponse(nil)
				session.Written()
			}
		})
	}
}
