package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// How many records in a row go to one partition, and through one codec's producer: a batch has several.
const (
	partitionRun = 25
	codecRun     = 12 * partitionRun
)

// writer is the source cluster's application: one idempotent producer a codec, which take turns, and partitions in turn.
// Every record is acknowledged by all replicas or fails the test.
type writer struct {
	t          *testing.T
	topic      string
	partitions int
	clients    []*kgo.Client
	next       int // record to write
	acked      atomic.Int64
	failed     atomic.Pointer[error]
	stop       context.CancelFunc
	stopped    chan struct{}
}

func newWriter(t *testing.T, topic string, partitions int) *writer {
	t.Helper()
	w := &writer{t: t, topic: topic, partitions: partitions}
	for _, codec := range []kgo.CompressionCodec{kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(), kgo.NoCompression()} {
		w.clients = append(w.clients, newClient(t, source.Kafka(t).Bootstrap(), kgo.ProducerBatchCompression(codec),
			kgo.ProducerLinger(5*time.Millisecond), kgo.UnknownTopicRetries(-1),
			kgo.AlwaysRetryEOF())) // a broker that is stopped just when a client connects
	}
	return w
}

// record is the n-th record: keys and values of many sizes, null and empty ones, headers with null and empty values.
func (w *writer) record(n int) *kgo.Record {
	r := &kgo.Record{Topic: w.topic, Partition: int32(n / partitionRun % w.partitions)}
	switch n % 7 {
	case 0: // no key
	case 1:
		r.Key = []byte{}
	default:
		r.Key = fmt.Appendf(nil, "key-%d", n%1000)
	}
	switch n % 11 {
	case 0: // a tombstone
	case 1:
		r.Value = []byte{}
	default:
		r.Value = bytes.Repeat(fmt.Appendf(nil, "value-%d ", n), 1+n%23)
	}
	if n%5 == 0 {
		r.Headers = []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, n)}, {Key: "null"}, {Key: "empty", Value: []byte{}}, {Key: "n", Value: []byte("again")}}
	}
	return r
}

// send hands count records to the producers.
func (w *writer) send(count int) {
	for range count {
		client := w.clients[w.next/codecRun%len(w.clients)]
		client.Produce(context.Background(), w.record(w.next), func(_ *kgo.Record, err error) {
			if err != nil {
				w.failed.CompareAndSwap(nil, &err)
				return
			}
			w.acked.Add(1)
		})
		w.next++
	}
}

// flush waits until everything sent is acknowledged.
func (w *writer) flush() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), mirrorTimeout)
	defer cancel()
	for _, client := range w.clients {
		if err := client.Flush(ctx); err != nil {
			w.t.Fatalf("flush the source's producer: %v", err)
		}
	}
	if failed := w.failed.Load(); failed != nil {
		w.t.Fatalf("the source refused a record: %v", *failed)
	}
	if acked := w.acked.Load(); acked != int64(w.next) {
		w.t.Fatalf("%d of %d records were acknowledged", acked, w.next)
	}
}

// Write writes count records more and returns when all are acknowledged.
func (w *writer) Write(count int) {
	w.t.Helper()
	w.send(count)
	w.flush()
}

// Start goes on writing about so many records a second until Finish.
func (w *writer) Start(perSecond int) {
	ctx, cancel := context.WithCancel(w.t.Context())
	w.stop, w.stopped = cancel, make(chan struct{})
	go func() {
		defer close(w.stopped)
		const interval = 20 * time.Millisecond
		pace := time.NewTicker(interval)
		defer pace.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-pace.C:
				w.send(max(1, perSecond*int(interval)/int(time.Second)))
			}
		}
	}()
	w.t.Cleanup(func() { cancel(); <-w.stopped })
}

// Finish ends what Start began, writes what is missing to atLeast, and returns how many records the source acknowledged.
func (w *writer) Finish(atLeast int) int64 {
	w.t.Helper()
	w.stop()
	<-w.stopped
	w.Write(max(0, atLeast-w.next))
	return w.acked.Load()
}
