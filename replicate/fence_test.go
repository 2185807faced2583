package replicate

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// dieUncleanly ends the replicator without a word, and makes way for a new owner.
func (r *rig) dieUncleanly() {
	r.store.lost.Store(true)
	r.stop()
	r.store.generation.Add(1)
	r.store.lost.Store(false)
}

// A log that has passed what an unclean owner reserved is closed all the same when the broker does
// not remember the mirror's producer (the fake never does): it would take a late batch as the first
// of a new one. It is not when all that is long ago.
func TestFenceWhereTheProducerIsForgotten(t *testing.T) {
	for _, later := range []time.Duration{0, 2 * underWayMost} {
		t.Run(later.String(), func(t *testing.T) {
			const topic = "passed"
			r, _, destination, id := mirroring(t, topic, 1, 10)
			var markers atomic.Int64
			destination.ControlKey(int16(kmsg.WriteTxnMarkers), func(kmsg.Request) (kmsg.Response, error, bool) {
				destination.KeepControl()
				markers.Add(1)
				return nil, nil, false
			})
			r.dieUncleanly()
			r.start()
			r.produce(topic, 0, 10, 500, nil)
			r.awaitCaughtUp(topic, 1)
			if p := r.store.View().Progress(state.PartitionID{Topic: id}); p.UncleanOffset < 0 || p.UncleanOffset >= 510 {
				t.Fatalf("the log has not passed what the dead owner reserved: %+v", p)
			}
			r.ahead.Store(int64(later))
			r.do(state.RemoveTopic{Mirror: "m", Name: topic})
			r.awaitStatus(id, 1, state.Stopped)
			if got := markers.Load(); (got == 1) != (later == 0) {
				t.Errorf("%d markers", got)
			}
			if got := r.partition(id, 0).LastMirroredOffset; got != 510 {
				t.Errorf("last mirrored offset %d, want 510", got)
			}
		})
	}
}

// The same on a broker: it is asked how long it will remember the producer. Partition 0 holds records of now, 1
// of two days ago, which may be forgotten at any moment.
func TestFenceByAgeReal(t *testing.T) {
	const topic, partitions = "ages", 2
	r := realRig(t)
	r.createTopic(topic, partitions, nil)
	records := func(n int) {
		var all []*kgo.Record
		for i := range n {
			for partition, age := range []time.Duration{0, 48 * time.Hour} {
				all = append(all, &kgo.Record{Topic: topic, Partition: int32(partition), Value: fmt.Append(nil, i), Timestamp: time.Now().Add(-age)})
			}
		}
		if err := r.source.ProduceSync(context.Background(), all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	records(10)
	r.start()
	id := r.add(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	r.awaitCaughtUp(topic, partitions)
	r.dieUncleanly()
	r.start()
	records(500)
	r.awaitCaughtUp(topic, partitions)
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, partitions, state.Stopped)
	_, logEnds := ends(t, r.destination, topic)
	for i, want := range []int64{510, 511} {
		end, _ := logEnds.Lookup(topic, int32(i))
		if p := r.partition(id, int32(i)); end.Offset != want || p.LastMirroredOffset != 510 {
			t.Errorf("partition %d ends at %d, want %d; %+v", i, end.Offset, want, p)
		}
	}
	// What needed no marker is mirrored again.
	records(5)
	r.add(topic, partitions)
	testenv.Eventually(t, patience, "partition 0 to go on and 1 to be refused", func() error {
		if a, b := r.partition(id, 0), r.partition(id, 1); a.Status != state.Mirroring || b.Status != state.Failed {
			return fmt.Errorf("%+v, %+v", a, b)
		}
		return nil
	})
}
