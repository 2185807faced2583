package replicate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// A topic that was handed over empty is mirrored again when the source does not begin at 0 any
// more, in spite of a trouble in the middle of the filler.
func TestAddedAgainWithFiller(t *testing.T) {
	const topic = "empty"
	r, _, destination, id := mirroring(t, topic, 1, 0)
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Stopped)
	advanceSource(t, r, topic, fillStart)
	r.produce(topic, 0, 0, 100, nil)
	requests := 0
	destination.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		if requests++; requests == 2 {
			return notLeader(request), nil, true
		}
		return nil, nil, false
	})
	r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.compare(topic, 1)
}

// Who finds the leading filler written already, and behind it what another owner has copied since, deletes the filler only.
func TestFillSparesWhatAnotherOwnerCopied(t *testing.T) {
	const topic, begins = "copied", 57
	r, _, _ := fakeRig(t)
	r.createTopic(topic, 1, nil)
	advanceSource(t, r, topic, begins)
	r.produce(topic, 0, 0, 10, nil)
	r.start()
	id := r.add(topic, 1)
	r.awaitCaughtUp(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.stop()
	partition := state.PartitionID{Topic: id}
	progress := r.store.View().Progress(partition)
	progress.FillToOffset = begins
	r.do(state.SetProgress{Partition: partition, Progress: progress})
	r.produce(topic, 0, 10, 10, nil)
	r.start()
	r.awaitCaughtUp(topic, 1)
	r.compare(topic, 1)
}

const fillStart = 3 * batch.MaxFillerRecords

// stoppedWhileFilling is a rig with a topic that was removed in the middle of its leading filler:
// after so many requests of a kind the destination refused them until then.
func stoppedWhileFilling(t *testing.T, topic string, key kmsg.Key, passed int64, reached func(end int64) bool) (*rig, state.TopicID) {
	t.Helper()
	r, _, destination := fakeRig(t)
	r.createTopic(topic, 1, nil)
	advanceSource(t, r, topic, fillStart)
	r.produce(topic, 0, 0, 10, nil)
	var left atomic.Int64
	left.Store(passed)
	destination.ControlKey(int16(key), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		if left.Add(-1) >= 0 {
			return nil, nil, false
		}
		return notLeader(request), nil, true
	})
	r.start()
	id := r.add(topic, 1)
	testenv.Eventually(t, patience, "filler", func() error {
		if _, logEnds := ends(t, r.destination, topic); !reached(logEnds[topic][0].Offset) {
			return fmt.Errorf("%v", logEnds)
		}
		return nil
	})
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	testenv.Eventually(t, patience, "STOPPING", func() error {
		if p := r.partition(id, 0); p.Status != state.Stopping && p.Status != state.Stopped {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	left.Store(1 << 30)
	r.awaitStatus(id, 1, state.Stopped)
	return r, id
}

// notLeader answers a Produce or DeleteRecords of one partition.
func notLeader(request kmsg.Request) kmsg.Response {
	code := kerr.NotLeaderForPartition.Code
	switch request := request.(type) {
	case *kmsg.ProduceRequest:
		answer := request.ResponseKind().(*kmsg.ProduceResponse)
		t, p := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
		t.Topic, t.TopicID = request.Topics[0].Topic, request.Topics[0].TopicID
		p.Partition, p.ErrorCode, p.BaseOffset = request.Topics[0].Partitions[0].Partition, code, -1
		t.Partitions = append(t.Partitions, p)
		answer.Topics = append(answer.Topics, t)
		return answer
	case *kmsg.DeleteRecordsRequest:
		answer := request.ResponseKind().(*kmsg.DeleteRecordsResponse)
		t, p := kmsg.NewDeleteRecordsResponseTopic(), kmsg.NewDeleteRecordsResponseTopicPartition()
		t.Topic, p.Partition, p.ErrorCode = request.Topics[0].Topic, request.Topics[0].Partitions[0].Partition, code
		t.Partitions = append(t.Partitions, p)
		answer.Topics = append(answer.Topics, t)
		return answer
	}
	panic("another request")
}

// A topic that is removed in the middle of its leading filler, or before that is deleted, is
// handed over without it, and can be mirrored again.
func TestRemovedWhileFilling(t *testing.T) {
	const topic = "filling"
	for _, test := range []struct {
		name    string
		key     kmsg.Key
		passed  int64
		reached func(end int64) bool
	}{
		{"in the middle", kmsg.Produce, 1, func(end int64) bool { return end > 0 && end < fillStart }},
		{"not deleted", kmsg.DeleteRecords, 0, func(end int64) bool { return end == fillStart }},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, id := stoppedWhileFilling(t, topic, test.key, test.passed, test.reached)
			starts, logEnds := ends(t, r.destination, topic)
			start, end := starts[topic][0].Offset, logEnds[topic][0].Offset
			if p := r.partition(id, 0); start != end || !test.reached(end) || p.LastMirroredOffset != end {
				t.Errorf("log [%d, %d), %+v", start, end, p)
			}
			r.add(topic, 1)
			r.awaitStatus(id, 1, state.Mirroring)
			r.awaitCaughtUp(topic, 1)
			r.compare(topic, 1)
			if p := r.store.View().Progress(state.PartitionID{Topic: id}); p.FillToOffset != -1 {
				t.Errorf("%+v", p)
			}
		})
	}
}

// What users write behind filler is never taken for filler.
func TestUserWritesBehindFiller(t *testing.T) {
	const topic = "behind"
	r, id := stoppedWhileFilling(t, topic, kmsg.Produce, 1, func(end int64) bool { return end > 0 })
	handedOver := r.partition(id, 0).LastMirroredOffset
	write(t, r, topic, 0)
	r.add(topic, 1)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), fmt.Sprintf("handed over at offset %d and now ends at %d", handedOver, handedOver+1))
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Stopped)
	records := readAll(t, r.clusters.destination, topic, 0, handedOver+1)
	if len(records) != 1 || records[0].Offset != handedOver {
		t.Errorf("%d records", len(records))
	}
}

// Leading filler has the timestamp of the source's first record: a broker that is asked for a time looks into no segment
// behind one that holds younger records, deleted ones included.
func TestLeadingFillerHidesNoTimestampReal(t *testing.T) {
	const topic, records = "looked-up", 3
	r := realRig(t)
	segmentBytes := fmt.Sprint(1 << 20)
	r.createTopic(topic, 1, map[string]*string{"segment.bytes": &segmentBytes})
	advanceSource(t, r, topic, fillStart)
	first := time.Now().Add(-400 * 24 * time.Hour).UnixMilli()
	value := make([]byte, 700<<10)
	for i := range value {
		value[i] = byte(rand.Uint32())
	}
	for i := range int64(records) {
		record := &kgo.Record{Topic: topic, Value: value, Timestamp: time.UnixMilli(first + i)}
		if i == 0 { // it shares the segment of the filler, the others begin their own
			record.Value = value[:1000]
		}
		if err := r.source.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.compare(topic, 1)
	for i := range int64(records) {
		at := first + i
		listed, err := kadm.NewClient(r.destination).ListOffsetsAfterMilli(t.Context(), at, topic)
		if err = errors.Join(err, listed.Error()); err != nil {
			t.Fatal(err)
		}
		if got := listed[topic][0]; got.Offset != fillStart+i || got.Timestamp != at {
			t.Errorf("timestamp %d is at offset %d (%d), want offset %d", at, got.Offset, got.Timestamp, fillStart+i)
		}
	}
}
