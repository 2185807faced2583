package proxy

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kafka-mirror-proxy/protocol/batch"
)

// TestFetchFromAFollower: a consumer with a rack is sent to a follower (KIP-392), which it reaches through the proxy, and
// filler is hidden from it there too.
func TestFetchFromAFollower(t *testing.T) {
	for name, versions := range map[string]*kversion.Versions{"Fetch v11": kversion.V2_4_0(), "Fetch v12": kversion.V2_8_0(), "newest": kversion.Stable()} {
		t.Run(name, func(t *testing.T) {
			const topic, rack = "orders", "b"
			w := newWorld(t)
			leader := w.fake.LeaderFor(topic, 0)
			follower := (leader + 1) % 3
			batches := [][]byte{fillerBatch(t, 0, 1000), dataBatch(1000, 3, mirrorProducer), mixedBatch(t, 1003), fillerBatch(t, 1007, 7), dataBatch(1014, 2, mirrorProducer)}
			want := []int64{1000, 1001, 1002, 1003, 1006, 1014, 1015}
			var sent, fetched atomic.Int64 // answers of the leader and of the follower
			w.fake.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
				w.fake.KeepControl()
				fetch, node := request.(*kmsg.FetchRequest), w.fake.CurrentNode()
				answer := request.ResponseKind().(*kmsg.FetchResponse)
				for _, asked := range fetch.Topics {
					of, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
					of.Topic, of.TopicID = asked.Topic, asked.TopicID
					p.Partition, p.HighWatermark, p.LastStableOffset, p.LogStartOffset = asked.Partitions[0].Partition, 1016, 1016, 0
					switch {
					case node == leader && fetch.Rack == rack:
						sent.Add(1)
						p.PreferredReadReplica = follower
					case node == follower:
						fetched.Add(1)
						for _, b := range batches {
							if batch.Batch(b).LastOffset() >= asked.Partitions[0].FetchOffset {
								p.RecordBatches = append(p.RecordBatches, b...)
							}
						}
					}
					of.Partitions = append(of.Partitions, p)
					answer.Topics = append(answer.Topics, of)
				}
				return answer, nil, true
			})
			consumer := w.client(t, kgo.Rack(rack), kgo.MaxVersions(versions), kgo.DisableFetchSessions(),
				kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var got []int64
			for len(got) < len(want) {
				fetches := consumer.PollFetches(ctx)
				if err := fetches.Err(); err != nil {
					t.Fatalf("%v after %v", err, got)
				}
				fetches.EachRecord(func(r *kgo.Record) {
					if string(r.Key) == batch.FillerKey || string(r.Key) != fmt.Sprintf("key %d", r.Offset) {
						t.Errorf("key %q at offset %d", r.Key, r.Offset)
					}
					got = append(got, r.Offset)
				})
			}
			if !slices.Equal(got, want) || sent.Load() == 0 || fetched.Load() == 0 {
				t.Errorf("offsets %v, want %v; sent to the follower %d times, which was asked %d times", got, want, sent.Load(), fetched.Load())
			}
			w.expectOnlyProxy(t)
		})
	}
}
