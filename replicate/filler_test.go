package replicate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// advanceSource makes a source partition's log end at n by large batches, and deletes them all.
func advanceSource(t *testing.T, r *rig, topic string, n int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	maker, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 1})
	if err != nil {
		t.Fatal(err)
	}
	found, err := connect.NewCluster(r.source, time.Now).Topic(ctx, topic, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < n; at += batch.MaxFillerRecords {
		records, err := maker.Append(nil, int32(min(batch.MaxFillerRecords, n-at)), 1000, -1, -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		request := kmsg.NewPtrProduceRequest()
		request.Acks, request.TimeoutMillis = -1, 10_000
		p, wanted := kmsg.NewProduceRequestTopicPartition(), kmsg.NewProduceRequestTopic()
		p.Records = records
		wanted.Topic, wanted.TopicID, wanted.Partitions = topic, found.ID, append(wanted.Partitions, p)
		request.Topics = append(request.Topics, wanted)
		answer, err := request.RequestWith(ctx, r.source.Broker(int(found.Leaders[0].ID)))
		if err == nil {
			err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	deleteRecords(t, r.source, topic, 0, n)
}

// A source whose log starts at 5,000,000 arrives with that log start, although the owner dies in
// the middle of the filler; so does one that holds no record at all.
func TestFillerSurvivesAnOwnerReal(t *testing.T) {
	const start = 5_000_000
	for _, records := range []int{1000, 0} {
		t.Run(fmt.Sprintf("%d records", records), func(t *testing.T) {
			r := realRig(t)
			topic := fmt.Sprintf("filler-%d", records)
			r.createTopic(topic, 1, nil)
			advanceSource(t, r, topic, start)
			if records > 0 {
				r.produce(topic, 0, 0, records, []byte("v"))
			}
			r.start()
			id := r.add(topic, 1)
			testenv.Eventually(t, patience, "some filler", func() error {
				if _, logEnds := ends(t, r.destination, topic); logEnds[topic][0].Offset == 0 {
					return fmt.Errorf("%v", logEnds)
				}
				return nil
			})
			r.store.lost.Store(true)
			r.stop()
			r.store.generation.Add(1)
			r.store.lost.Store(false)
			r.start()
			r.awaitStatus(id, 1, state.Mirroring)
			r.awaitCaughtUp(topic, 1)
			r.compare(topic, 1)
			if starts, _ := ends(t, r.destination, topic); starts[topic][0].Offset != start {
				t.Errorf("log start %d, want %d", starts[topic][0].Offset, start)
			}
		})
	}
}
