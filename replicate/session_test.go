package replicate

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"hash/crc32"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// sourceBatch is a batch of n uncompressed records as a source holds it.
func sourceBatch(base int64, n int32, edit func(*kmsg.RecordBatch)) []byte {
	var records []byte
	for i := range n {
		record := kmsg.Record{OffsetDelta: i, Key: []byte("k"), Value: make([]byte, 100)}
		record.Length = int32(len(record.AppendTo(nil)) - 1) // its own varint, of 0, took one byte
		records = record.AppendTo(records)
	}
	b := kmsg.RecordBatch{FirstOffset: base, PartitionLeaderEpoch: 5, Magic: 2, LastOffsetDelta: n - 1, FirstTimestamp: 1000, MaxTimestamp: 2000,
		ProducerID: 77, FirstSequence: 9, NumRecords: n, Records: records}
	if edit != nil {
		edit(&b)
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	crc := crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli))
	raw[17], raw[18], raw[19], raw[20] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
	return raw
}

// testSession is a session whose stream goes nowhere.
func testSession(t testing.TB, next int64) *session {
	t.Helper()
	kafka, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kafka.Close)
	engine, err := produce.New(produce.Config{Client: kafka, Dial: func(context.Context, string) (net.Conn, error) { return nil, errCut },
		Lease: func() bool { return true }, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	target := produce.Target{Mirror: "m", Topic: "t", Partition: 3}
	stream := engine.Open(produce.StreamConfig{Target: target, StartOffset: next, ReservedOffset: 1 << 40, CheckedAt: time.Now()})
	live := state.NewLive().Partition(state.PartitionID{})
	maker, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 8})
	if err != nil {
		t.Fatal(err)
	}
	return &session{target: target, stream: stream, live: live, queueBytes: 1 << 30,
		translator: translator{target: target, producerID: target.ProducerID(), filler: maker, next: next, previousMs: -1},
		nowMs:      func() int64 { return 1 }, failed: make(chan struct{}), trim: newTrimming(0, 0), next: next}
}

func TestSessionDeliver(t *testing.T) {
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: coderLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		records [][]byte
		next    int64
		verdict produce.Verdict
		fault   string // part of it; "" for none
	}{
		{name: "in order", records: [][]byte{sourceBatch(10, 5, nil), sourceBatch(15, 1, nil)}, next: 16},
		{name: "cut at the end", records: [][]byte{sourceBatch(10, 5, nil), sourceBatch(15, 5, nil)[:70]}, next: 15},
		{name: "begins before", records: [][]byte{sourceBatch(2, 4, nil), sourceBatch(6, 8, nil)}, next: 14},
		{name: "log append time", records: [][]byte{sourceBatch(10, 5, func(b *kmsg.RecordBatch) { b.Attributes = 8 })}, next: 15},
		{name: "hole between", records: [][]byte{sourceBatch(10, 5, nil), sourceBatch(16, 1, nil)}, next: 17},
		{name: "hole inside", records: [][]byte{sourceBatch(10, 5, func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 7 })}, next: 18},
		{name: "empty", records: [][]byte{sourceBatch(10, 0, func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 7 })}, next: 18},
		{name: "transactional", records: [][]byte{sourceBatch(10, 5, func(b *kmsg.RecordBatch) { b.Attributes = 16 })}, next: 15},
		{name: "marker", records: [][]byte{sourceBatch(10, 1, func(b *kmsg.RecordBatch) { b.Attributes = 48 })}, next: 11},
		{name: "more records than it says", records: [][]byte{sourceBatch(10, 5, func(b *kmsg.RecordBatch) { b.NumRecords, b.LastOffsetDelta = 4, 3 })}, next: 10, verdict: produce.Retry, fault: "t-3"},
		{name: "wrong deltas", records: [][]byte{sourceBatch(10, 5, func(b *kmsg.RecordBatch) { b.Records[4] = 4 })}, next: 10, verdict: produce.Retry, fault: "offset delta"},
		{name: "the key of filler behind others that are written anew", next: 13, verdict: produce.Quarantined, fault: "reserved key", records: [][]byte{
			sourceBatch(10, 1, func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 1 }), sourceBatch(12, 1, func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 1 }), fillerAt(t, 14)}},
		{name: "the key of filler", next: 10, verdict: produce.Quarantined, fault: "reserved key", records: [][]byte{fillerAt(t, 10)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := testSession(t, 10)
			budget := NewBudget(1 << 30)
			var blob []byte
			for _, b := range test.records {
				blob = append(blob, b...)
			}
			budget.Adjust(int64(len(blob)))
			held := budget.hold(int64(len(blob)))
			s.deliver(&kmsg.FetchResponseTopicPartition{RecordBatches: blob, HighWatermark: 100, LastStableOffset: 100}, held, coder)
			held.release()
			if s.next != test.next {
				t.Errorf("next offset %d, want %d", s.next, test.next)
			}
			fault := s.Fault()
			if fault == nil {
				fault = s.obstacle // until what was pushed before it is written
			}
			if (fault == nil) != (test.fault == "") {
				t.Fatalf("fault %v, want %q", fault, test.fault)
			}
			if fault != nil && (fault.Verdict != test.verdict || !strings.Contains(fault.Error(), test.fault)) {
				t.Errorf("fault %v: %v, want %v: %q", fault.Verdict, fault, test.verdict, test.fault)
			}
			if s.live.SourceOffset.Load() != 100 {
				t.Error("the high watermark was not noted")
			}
			s.stream.Close()
			if budget.Used() != 0 {
				t.Errorf("%d bytes are not given back", budget.Used())
			}
		})
	}
}

// TestSmallBatchesAreMergedBehindABacklog: while something waits to be written, small batches become few; they are passed
// through when nothing does.
func TestSmallBatchesAreMergedBehindABacklog(t *testing.T) {
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: coderLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	var blob []byte
	for i := range int64(100) {
		blob = append(blob, sourceBatch(1+i, 1, nil)...)
	}
	for _, backlog := range []bool{false, true} {
		s := testSession(t, 1)
		if backlog {
			s = testSession(t, 0)
			first := sourceBatch(0, 1, nil)
			s.deliver(&kmsg.FetchResponseTopicPartition{RecordBatches: first, HighWatermark: 101}, NewBudget(1).hold(0), coder)
		}
		pushed := &countingOutlet{}
		tr := s.translator
		if err := tr.translate(bytes.Clone(blob), 101, nil, backlog, coder, pushed); err != nil {
			t.Fatal(err)
		}
		budget := NewBudget(1 << 30)
		held := budget.hold(0)
		s.deliver(&kmsg.FetchResponseTopicPartition{RecordBatches: bytes.Clone(blob), HighWatermark: 101}, held, coder)
		if s.next != 101 || s.Fault() != nil {
			t.Fatalf("came to offset %d: %v", s.next, s.Fault())
		}
		// What is written anew takes memory of its own; what is passed through lies in the answer.
		if anew := budget.Used() > 0; anew != backlog {
			t.Errorf("with a backlog (%t): %d bytes were written anew", backlog, budget.Used())
		}
		if backlog && pushed.batches > 2 || !backlog && pushed.batches != 100 {
			t.Errorf("with a backlog (%t): 100 batches became %d", backlog, pushed.batches)
		}
		s.stream.Close()
	}
}

// countingOutlet counts batches.
type countingOutlet struct{ batches int }

func (o *countingOutlet) room() bool                             { return true }
func (o *countingOutlet) push([]byte, int64, int32, int32, bool) { o.batches++ }

func fillerAt(t *testing.T, offset int64) []byte {
	t.Helper()
	maker, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 1})
	if err != nil {
		t.Fatal(err)
	}
	b, err := maker.Append(nil, 3, 1000, -1, -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	batch.SetBaseOffset(b, offset)
	return b
}

// The way of a batch from fetcher to stream allocates nothing once the queue has grown.
func TestDeliverAllocatesNothing(t *testing.T) {
	s := testSession(t, 0)
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: coderLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	const size = 100
	held := NewBudget(1).hold(0)
	batches := make([][]byte, 4096)
	for i := range batches {
		batches[i] = sourceBatch(int64(i)*size, size, nil)
	}
	at, answer := 0, kmsg.FetchResponseTopicPartition{}
	// The queue doubles now and then, which AllocsPerRun rounds down to 0.
	if n := testing.AllocsPerRun(2000, func() {
		answer.RecordBatches = batches[at]
		s.deliver(&answer, held, coder)
		at++
	}); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
	if fault := s.Fault(); fault != nil || s.next < 2000*size {
		t.Errorf("came to offset %d: %v", s.next, fault)
	}
}

func BenchmarkDeliver64KiB(b *testing.B) {
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: coderLimitBytes})
	if err != nil {
		b.Fatal(err)
	}
	raw := sourceBatch(0, 600, nil)
	held := NewBudget(1).hold(0)
	s := testSession(b, 0)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		batch.SetBaseOffset(raw, s.next)
		s.deliver(&kmsg.FetchResponseTopicPartition{RecordBatches: raw}, held, coder)
	}
}
