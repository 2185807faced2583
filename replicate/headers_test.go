package replicate

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/state"
)

// rawLog is the batches of a partition from offset 0 to an offset. Each must be whole, with the CRC that its bytes have.
func rawLog(t *testing.T, c *kgo.Client, topic string, partition int32, end int64) (log []batch.Batch) {
	t.Helper()
	cluster := connect.NewCluster(c, time.Now)
	found, err := cluster.Topic(context.Background(), topic, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	leader, err := found.Leader(partition)
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < end; at = log[len(log)-1].LastOffset() + 1 {
		raw, err := cluster.FetchBatches(context.Background(), leader.ID, found, partition, at)
		if err == nil {
			_, err = batch.Each(raw, func(b batch.Batch) error { log = append(log, b); return batch.Validate(b) })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return log
}

// Headers arrive as they are, to the byte: none, one, 200, one that is null, one of 1 MB. Of a batch that is
// passed through only leader epoch, CRC, producer and sequence change.
func TestHeadersReal(t *testing.T) {
	const topic = "headers"
	r := realRig(t)
	limit := "2097152"
	r.createTopic(topic, 1, map[string]*string{"max.message.bytes": &limit})
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	many := make([]kgo.RecordHeader, 200)
	for i := range many {
		many[i] = kgo.RecordHeader{Key: fmt.Sprint("h", i%50), Value: fmt.Appendf(nil, "value %d", i)} // keys come again
	}
	all := [][]kgo.RecordHeader{nil, {{Key: "one", Value: []byte("v")}}, many, {{Key: "null"}, {Key: "empty", Value: []byte{}}, {Key: "", Value: []byte("v")}},
		{{Key: "large", Value: bytes.Repeat([]byte("0123456789abcdef"), 1<<16)}}}
	c := client(t, r.clusters.source, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i, headers := range all {
		if err := c.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: fmt.Append(nil, i), Headers: headers}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		r.awaitCaughtUp(topic, 1) // so that small batches are not merged
	}
	r.compare(topic, 1)
	records := readAll(t, r.clusters.destination, topic, 0, int64(len(all)))
	for i, headers := range all {
		if got := records[i].Headers; len(got) != len(headers) {
			t.Errorf("record %d has %d headers, want %d", i, len(got), len(headers))
		}
		for n, h := range records[i].Headers {
			if want := headers[n]; h.Key != want.Key || !bytes.Equal(h.Value, want.Value) || (h.Value == nil) != (want.Value == nil) {
				t.Errorf("record %d, header %d: %q of %d bytes (null: %v)", i, n, h.Key, len(h.Value), h.Value == nil)
			}
		}
	}
	want, got := rawLog(t, r.source, topic, 0, int64(len(all))), rawLog(t, r.destination, topic, 0, int64(len(all)))
	if len(want) != len(all) || len(got) != len(all) {
		t.Fatalf("%d batches, the source has %d", len(got), len(want))
	}
	for i, b := range want {
		// All but leader epoch, CRC, producer, its epoch and sequence.
		for _, span := range [][2]int{{0, 12}, {16, 17}, {21, 43}, {57, len(b)}} {
			if len(got[i]) != len(b) || !bytes.Equal(b[span[0]:span[1]], got[i][span[0]:span[1]]) {
				t.Errorf("batch %d of %d bytes: bytes %d to %d differ", i, len(b), span[0], span[1])
			}
		}
	}
}
