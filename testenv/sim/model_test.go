package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafka-mirror-proxy/protocol/batch"
)

// The simulated leader answers as Kafka 4.3.1 was measured to (stock-kafka-facts.md, section 1).
func TestSimulatedLeaderAnswersAsMeasured(t *testing.T) {
	const id = 77
	now := time.UnixMilli(1_000_000_000_000)
	d := newDestination(rand.New(rand.NewPCG(1, 1)), 0, &counts{}, func() int64 { return 86_400_000 })
	send := func(producer int64, sequence int32, n int, at time.Time) (int16, int64) {
		b := sourceBatch{last: int64(n) - 1, producer: producer, sequence: sequence, baseMs: at.UnixMilli()}
		for i := range n {
			b.records = append(b.records, sourceRecord{offset: int64(i), timestampMs: at.UnixMilli(), value: []byte("v")})
		}
		raw := batch.Batch(b.encode())
		batch.SetBaseOffset(raw, 0)
		code, base, _, _ := d.append(raw)
		return code, base
	}
	outOfOrder := kerr.OutOfOrderSequenceNumber.Code
	for _, test := range []struct {
		name     string
		before   func()
		producer int64
		sequence int32
		n        int
		age      time.Duration
		code     int16
		base     int64
	}{
		{name: "the first batch of a producer, any sequence", producer: id, sequence: 1000, n: 10, base: 0},
		{name: "the next", producer: id, sequence: 1010, n: 5, base: 10},
		{name: "a gap", producer: id, sequence: 1016, n: 5, code: outOfOrder, base: -1},
		{name: "an overlap of another length", producer: id, sequence: 1010, n: 6, code: outOfOrder, base: -1},
		{name: "sent again", producer: id, sequence: 1010, n: 5, base: 10},
		{name: "the one before, sent again", producer: id, sequence: 1000, n: 10, base: 0},
		{name: "somebody else", producer: -1, sequence: -1, n: 3, base: 15},
		{name: "in sequence behind somebody else: shifted", producer: id, sequence: 1015, n: 1, base: 18},
		{name: "third", producer: id, sequence: 1016, n: 1, base: 19},
		{name: "fourth", producer: id, sequence: 1017, n: 1, base: 20},
		{name: "fifth", producer: id, sequence: 1018, n: 1, base: 21},
		{name: "the sixth from the end, sent again", producer: id, sequence: 1000, n: 10, code: outOfOrder, base: -1},
		{name: "the fifth from the end, sent again", producer: id, sequence: 1010, n: 5, base: 10},
		{name: "an old record, in sequence", producer: id, sequence: 1019, n: 1, age: 48 * time.Hour, base: 22},
		{name: "a gap, before the check", producer: id, sequence: 1021, n: 1, code: outOfOrder, base: -1},
		{name: "sent again after the check", before: func() { d.forget(now.UnixMilli()) }, producer: id, sequence: 1019, n: 1, age: 48 * time.Hour, base: 23},
		{name: "after a marker of the next epoch", before: func() { d.mark(id, 1, now.UnixMilli()) }, producer: id, sequence: 1020, n: 1, code: kerr.InvalidProducerEpoch.Code, base: -1},
		{name: "a sequence that wraps", producer: id + 1, sequence: 1<<31 - 3, n: 5, base: 25},
		{name: "the one behind it", producer: id + 1, sequence: 2, n: 5, base: 30},
		{name: "not the one behind it", producer: id + 1, sequence: 8, n: 5, code: outOfOrder, base: -1},
	} {
		if test.before != nil {
			test.before()
		}
		if code, base := send(test.producer, test.sequence, test.n, now.Add(-test.age)); code != test.code || base != test.base {
			t.Errorf("%s: code %d, base offset %d; want %d and %d", test.name, code, base, test.code, test.base)
		}
	}
}

// Where epochs end is answered as LeaderEpochFileCache does.
func TestSimulatedEpochEnds(t *testing.T) {
	l := newLog(0)
	put := func(n int64) {
		l.put(stored{base: l.end, last: l.end + n - 1, raw: make(batch.Batch, batch.HeaderLen)})
	}
	put(10) // epoch 0
	l.elect(1)
	put(5) // epoch 1
	l.elect(0)
	l.elect(1) // epoch 2 has no records
	put(5)     // epoch 3
	for _, test := range []struct {
		epoch, known int32
		end          int64
	}{{0, 0, 10}, {1, 1, 15}, {2, 1, 15}, {3, 3, 20}, {4, -1, -1}} {
		if known, end := l.epochEnd(test.epoch); known != test.known || end != test.end {
			t.Errorf("epoch %d: %d ends at %d, want %d at %d", test.epoch, known, end, test.known, test.end)
		}
	}
	l.cut(12) // whole batches only
	l.elect(0)
	if known, end := l.epochEnd(1); known != 0 || end != 10 || l.end != 10 {
		t.Errorf("after a cut: %d ends at %d, the log at %d", known, end, l.end)
	}
}
