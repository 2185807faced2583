package replicate

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// transactionalWriter writes transactions to the partitions of a source topic.
type transactionalWriter struct {
	t      *testing.T
	client *kgo.Client
	topic  string
	n      int
}

func newTransactional(r *rig, topic, id string, opts ...kgo.Opt) *transactionalWriter {
	opts = append(opts, kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	return &transactionalWriter{t: r.t, client: client(r.t, r.clusters.source, opts...), topic: topic}
}

func (w *transactionalWriter) begin() {
	w.t.Helper()
	if err := w.client.BeginTransaction(); err != nil {
		w.t.Fatal(err)
	}
}

// write writes and flushes count records to each of the partitions.
func (w *transactionalWriter) write(count int, partitions ...int32) {
	w.t.Helper()
	var records []*kgo.Record
	for range count {
		for _, p := range partitions {
			w.n++
			records = append(records, &kgo.Record{Topic: w.topic, Partition: p, Key: fmt.Appendf(nil, "k%d", w.n), Value: fmt.Appendf(nil, "value %d", w.n)})
		}
	}
	if err := w.client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *transactionalWriter) end(commit kgo.TransactionEndTry) {
	w.t.Helper()
	if err := w.client.EndTransaction(context.Background(), commit); err != nil {
		w.t.Fatal(err)
	}
}

// committed reads what a READ_COMMITTED consumer sees of a partition up to an offset, without filler of a mirror.
func committed(t *testing.T, seeds []string, topic string, partition int32, end int64) (seen []string) {
	t.Helper()
	c := client(t, seeds, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// Aborted records at the end of a log leave no trace but their marker, which this client is shown.
	for next := int64(0); next < end; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%s-%d: %v at offset %d of %d", topic, partition, err, next, end)
		}
		for _, r := range fetches.Records() {
			next = r.Offset + 1
			if r.Attrs.IsControl() || string(r.Key) == batch.FillerKey && r.Value == nil {
				continue
			}
			seen = append(seen, fmt.Sprintf("%d %d %s=%s %v", r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, r.Headers))
		}
	}
	return seen
}

func (r *rig) wantCommitted(topic string, partitions int32) {
	r.t.Helper()
	_, sourceEnds := ends(r.t, r.source, topic)
	_, copiedEnds := ends(r.t, r.destination, topic)
	for i := range partitions {
		s, _ := sourceEnds.Lookup(topic, i)
		d, _ := copiedEnds.Lookup(topic, i)
		if s.Offset != d.Offset {
			r.t.Errorf("partition %d: the source ends at %d, the destination at %d", i, s.Offset, d.Offset)
		}
		want := committed(r.t, r.clusters.source, topic, i, s.Offset)
		if got := committed(r.t, r.clusters.destination, topic, i, d.Offset); !slices.Equal(want, got) {
			r.t.Errorf("partition %d: %d records, the source has %d\nhere: %.300q\nthere: %.300q", i, len(got), len(want), got, want)
		}
	}
}

// writeTransactions leaves interleaved, committed and aborted transactions over several partitions, and ordinary records,
// in a source topic; each partition ends with a marker.
func writeTransactions(r *rig, topic string) {
	a, b := newTransactional(r, topic, topic+"-a"), newTransactional(r, topic, topic+"-b", kgo.ProducerBatchCompression(kgo.GzipCompression()))
	for i := range 6 {
		a.begin()
		b.begin()
		a.write(3, 0, 1)
		b.write(2, 1, 2)
		a.write(1, 2)
		if i%3 == 1 {
			r.produce(topic, int32(i%3), i, 4, []byte("ordinary"))
		}
		b.end(kgo.TransactionEndTry(i%2 == 0))
		a.write(2, 1, 0)
		a.end(kgo.TransactionEndTry(i%4 < 2))
	}
	commitOffsets(r, topic)
}

// commitOffsets consumes a topic of the source and, in one transaction, writes its records to three partitions and commits
// the offsets of the consumer group.
func commitOffsets(r *rig, topic string) {
	r.t.Helper()
	const records = 6
	in, group := topic+"-in", topic+"-group"
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	admin := kadm.NewClient(r.source)
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, in); err != nil {
		r.t.Fatal(err)
	}
	topicID(r.t, r.source, in)
	r.produce(in, 0, 0, records, []byte("in"))
	session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(r.clusters.source...), kgo.DisableClientMetrics(), kgo.TransactionalID(topic+"-session"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumerGroup(group), kgo.ConsumeTopics(in), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer session.Close()
	var read []*kgo.Record
	for len(read) < records {
		fetches := session.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			r.t.Fatal(err)
		}
		read = append(read, fetches.Records()...)
	}
	if err := session.Begin(); err != nil {
		r.t.Fatal(err)
	}
	for i, record := range read {
		if err := session.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: int32(i % 3), Key: record.Key, Value: []byte("consumed and written")}).FirstErr(); err != nil {
			r.t.Fatal(err)
		}
	}
	if committed, err := session.End(ctx, kgo.TryCommit); err != nil || !committed {
		r.t.Fatalf("committed %t: %v", committed, err)
	}
	testenv.Eventually(r.t, patience, "the group's offset", func() error { // the marker may come to the coordinator later
		offsets, err := admin.FetchOffsets(ctx, group)
		if at, ok := offsets.Lookup(in, 0); err != nil || !ok || at.At != records {
			return fmt.Errorf("committed %t: %+v, %v; want offset %d", ok, at, err, records)
		}
		return nil
	})
}

// TestTransactionsReal: committed data arrives at its offsets, also that of a transaction that commits group offsets; aborted
// data and markers arrive as filler, nothing above the last stable offset; and a mirror of that mirror holds the same again.
func TestTransactionsReal(t *testing.T) {
	const topic, partitions = "transactions", 3
	r := realRig(t)
	r.createTopic(topic, partitions, nil)
	writeTransactions(r, topic)
	r.start()
	id := r.add(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	r.awaitCaughtUp(topic, partitions)
	r.wantCommitted(topic, partitions)

	open := newTransactional(r, topic, topic+"-open")
	open.begin()
	open.write(2, 0)
	r.produce(topic, 0, 1000, 5, []byte("behind an open transaction"))
	_, before := ends(t, r.destination, topic)
	waitsAt, _ := before.Lookup(topic, 0)
	live := r.live.Partition(state.PartitionID{Topic: id})
	testenv.Eventually(t, patience, "the copy to wait for the open transaction", func() error {
		if at, end := live.OpenTransactionOffset.Load(), live.SourceOffset.Load(); at != waitsAt.Offset || end != waitsAt.Offset+7 {
			return fmt.Errorf("it waits at %d, the source ends at %d, the destination ended at %d", at, end, waitsAt.Offset)
		}
		return nil
	})
	if _, now := ends(t, r.destination, topic); func() bool { n, _ := now.Lookup(topic, 0); return n.Offset != waitsAt.Offset }() {
		t.Errorf("records behind an open transaction were copied")
	}
	open.end(kgo.TryAbort)
	r.awaitCaughtUp(topic, partitions)
	r.wantCommitted(topic, partitions)
	testenv.Eventually(t, patience, "the copy to go on", func() error {
		if at := live.OpenTransactionOffset.Load(); at != -1 {
			return fmt.Errorf("it waits at %d", at)
		}
		return nil
	})

	_, copiedEnds := ends(t, r.destination, topic)
	for i := range int32(partitions) { // as the destination has it: every CRC is right
		rawLog(t, r.destination, topic, i, copiedEnds[topic][i].Offset)
	}

	// The mirror of the mirror, read directly: with filler as it is stored.
	last, err := testenv.StartFake(testenv.FakeConfig{Brokers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { last.Close() })
	chain := newRig(t, r.clusters.destination, last.ListenAddrs())
	if _, err := kadm.NewClient(chain.destination).CreateTopic(t.Context(), partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	chain.start()
	chainID := chain.add(topic, partitions)
	chain.awaitStatus(chainID, partitions, state.Mirroring)
	chain.awaitCaughtUp(topic, partitions)
	chain.source, chain.clusters.source = r.source, r.clusters.source
	chain.wantCommitted(topic, partitions)
}

// TestFillerKeyOfAUserReal: a source record that could not be told from filler afterwards, or that the cleaner would take
// for an older version of it, is named and not copied.
func TestFillerKeyOfAUserReal(t *testing.T) {
	r := realRig(t)
	r.start()
	policy := "compact,delete"
	for topic, test := range map[string]struct {
		codec   kgo.CompressionCodec
		configs map[string]*string
	}{
		"filler-key-gzip": {kgo.GzipCompression(), nil},
		"filler-key-lz4":  {kgo.Lz4Compression(), map[string]*string{"cleanup.policy": &policy}},
	} {
		r.createTopic(topic, 1, test.configs)
		record := func(key string) *kgo.Record {
			return &kgo.Record{Topic: topic, Key: []byte(key), Value: make([]byte, 1000)} // that is worth compressing
		}
		producer := client(t, r.clusters.source, kgo.ProducerBatchCompression(test.codec))
		for _, key := range []string{"a", "b", batch.FillerKey, "c"} {
			if err := producer.ProduceSync(t.Context(), record(key)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		id := r.add(topic, 1)
		r.awaitStatus(id, 1, state.Failed)
		wantError(t, r.partition(id, 0), topic+"-0", "offset 2", "reserved key")
		if _, copied := ends(t, r.destination, topic); func() bool { d, _ := copied.Lookup(topic, 0); return d.Offset != 2 }() {
			t.Errorf("%s: something else than the two records before it was copied", topic)
		}
	}
}
