package acceptance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// How much TestUnacknowledgedStreams does: connections, and records on each.
const (
	acks0Connections  = 100
	acks0ShortRecords = 30
	acks0LongRecords  = 3_000
)

// TestUnacknowledgedStreams: producers without acks send streams of batches that arrive in pieces cut anywhere. The broker
// checks every CRC, and takes every batch, once and in the order of its connection. One whose batch is damaged is cut off by
// the broker, with what it had sent before in the log, and nobody else notices.
func TestUnacknowledgedStreams(t *testing.T) {
	random := newRand(t)
	count := acks0ShortRecords
	if long() {
		count = acks0LongRecords
	}
	p := startProxy(t)
	topic, leader := uniqueName("acks0"), destination.Kafka(t).NodeIDs()[0]
	createOrdinary(t, p, topic, []int32{leader})
	host, port := p.brokerAddress(leader)
	aim := topicAim{name: topic}
	frame := func(connection, n int, damage bool) []byte {
		request := produceRequest(0, aim)
		records := batchOf(fmt.Sprintf("%d %d", connection, n))
		if damage {
			records[len(records)-1] ^= 1
		}
		request.Topics[0].Partitions[0].Records = records
		return frameOf(request, 9)
	}
	const bad, before = acks0Connections, 5 // the connection whose batch with that number is damaged
	var senders sync.WaitGroup
	for connection := range acks0Connections + 1 {
		conn := dialRaw(t, fmt.Sprintf("%s:%d", host, port))
		seeds := [2]uint64{random.Uint64(), random.Uint64()}
		senders.Go(func() {
			cuts := rand.New(rand.NewPCG(seeds[0], seeds[1]))
			var stream []byte
			for n := range count {
				stream = append(stream, frame(connection, n, connection == bad && n == before)...)
			}
			for len(stream) > 0 {
				piece := min(len(stream), 1+cuts.IntN(400))
				conn.send(stream[:piece])
				stream = stream[piece:]
			}
			if connection == bad {
				conn.wantClosed("a damaged batch")
			}
		})
	}
	senders.Wait()
	want := int64(acks0Connections*count + before)
	testenv.Eventually(t, callTimeout, "all records", func() error {
		if end := ends(t, destination, topic)[0]; end != want {
			return fmt.Errorf("the log ends at %d, want %d", end, want)
		}
		return nil
	})
	next := make([]int, acks0Connections+1)
	for _, value := range valuesOf(t, destination.Kafka(t).Bootstrap(), topic, int(want)) {
		var connection, n int
		if _, err := fmt.Sscan(value, &connection, &n); err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		if n != next[connection] {
			t.Fatalf("connection %d: record %d stands where %d must", connection, n, next[connection])
		}
		next[connection]++
	}
	if next[bad] != before || slices.ContainsFunc(next[:bad], func(n int) bool { return n != count }) {
		t.Errorf("records by connection: %v", next)
	}
}

// valuesOf are the values of the first records of partition 0.
func valuesOf(t *testing.T, bootstrap []string, topic string, count int) (values []string) {
	t.Helper()
	client := newClient(t, bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(0)}}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	for len(values) < count {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s after %d of %d records: %v", topic, len(values), count, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}
