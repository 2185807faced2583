package replicate

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
)

// sourceLog is a made-up source partition, and what a READ_COMMITTED consumer sees of it.
type sourceLog struct {
	batches [][]byte
	visible map[int64]string // by offset
	// hidden are the timestamps of what a marker or aborted record stands at.
	hidden  map[int64]int64
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
	ends    []int64 // of the aborted transactions: the offset of the marker
	epochs  map[int64]int32
	end     int64
}

// drawLog draws a log of batches of all kinds, some of them in interleaved transactions of which the outcome is known.
func drawLog(t *rapid.T) *sourceLog {
	l := &sourceLog{visible: map[int64]string{}, hidden: map[int64]int64{}, epochs: map[int64]int32{}}
	l.end = rapid.SampledFrom([]int64{0, 0, 1<<31 - 20, 5}).Draw(t, "log start")
	open := map[int64]int64{} // producer id to first offset, of the transactions under way
	fate := map[int64]bool{}  // true: it will be aborted
	epoch := int32(0)
	for range rapid.IntRange(1, 25).Draw(t, "batches") {
		if rapid.IntRange(0, 9).Draw(t, "new epoch") == 0 {
			epoch++
		}
		n := int32(rapid.IntRange(1, 6).Draw(t, "records"))
		timestamp := rapid.SampledFrom([]int64{-1, 0, 1000, 5000, 1 << 40}).Draw(t, "timestamp")
		kind := rapid.SampledFrom([]string{"plain", "plain", "transactional", "transactional", "end", "end", "empty", "holes", "gap", "append time", "large"}).Draw(t, "kind")
		id := rapid.Int64Range(1, 3).Draw(t, "producer")
		switch kind {
		case "gap":
			l.end += rapid.SampledFrom([]int64{1, 7, 1000, 1001, 250_000}).Draw(t, "gap")
			continue
		case "end":
			first, ok := open[id]
			if !ok {
				continue
			}
			l.marker(epoch, id, fate[id], timestamp)
			if fate[id] {
				l.aborted = append(l.aborted, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: id, FirstOffset: first})
				l.ends = append(l.ends, l.end-1)
			}
			delete(open, id)
			continue
		}
		transactional := kind == "transactional"
		if _, ok := open[id]; transactional && !ok {
			open[id], fate[id] = l.end, rapid.Bool().Draw(t, "will be aborted")
		}
		keep := func(int32) bool { return true }
		switch kind {
		case "empty":
			keep = func(int32) bool { return false }
		case "holes":
			kept := rapid.SliceOfN(rapid.Bool(), int(n), int(n)).Draw(t, "kept")
			keep = func(i int32) bool { return kept[i] }
		}
		l.data(epoch, id, n, timestamp, transactional, transactional && fate[id], kind == "append time", kind == "large", keep)
	}
	for id := range int64(4) { // whatever is undecided ends here: nothing above the last stable offset is fetched
		if first, ok := open[id]; ok {
			l.marker(epoch, id, fate[id], 7000)
			if fate[id] {
				l.aborted = append(l.aborted, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: id, FirstOffset: first})
				l.ends = append(l.ends, l.end-1)
			}
		}
	}
	return l
}

func (l *sourceLog) data(epoch int32, id int64, n int32, timestamp int64, transactional, aborted, appendTime, large bool, keep func(int32) bool) {
	value := make([]byte, 5)
	if large {
		value = make([]byte, smallBytes)
	}
	var records []byte
	count, maxTimestamp := int32(0), timestamp
	for i := range n {
		if !keep(i) {
			continue
		}
		delta := int64(i%3) * 10
		r := kmsg.Record{OffsetDelta: i, TimestampDelta64: delta, Key: fmt.Appendf(nil, "k%d", l.end), Value: value}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		if large {
			r.Length -= 2 // its own length takes three bytes
			r.Length = int32(len(r.AppendTo(nil)) - 3)
		}
		records = r.AppendTo(records)
		maxTimestamp = max(maxTimestamp, timestamp+delta)
		count++
		offset, seen := l.end+int64(i), timestamp+delta
		if appendTime {
			seen = -2 // settled below
		}
		if aborted {
			l.hidden[offset] = seen
		} else {
			l.visible[offset] = fmt.Sprintf("%d k%d %d", seen, l.end, len(value))
		}
	}
	raw := sourceBatch(l.end, n, func(b *kmsg.RecordBatch) {
		b.PartitionLeaderEpoch, b.ProducerID, b.NumRecords, b.Records, b.FirstTimestamp, b.MaxTimestamp = epoch, id, count, records, timestamp, maxTimestamp
		if transactional {
			b.Attributes |= 0x10
		}
		if appendTime {
			b.Attributes |= 0x08
		}
	})
	if appendTime {
		for i := range n {
			if _, ok := l.visible[l.end+int64(i)]; ok {
				l.visible[l.end+int64(i)] = fmt.Sprintf("%d k%d %d", maxTimestamp, l.end, len(value))
			}
		}
	}
	l.batches = append(l.batches, raw)
	for i := range n {
		if keep(i) {
			l.epochs[l.end+int64(i)] = epoch
		}
	}
	l.end += int64(n)
}

func (l *sourceLog) marker(epoch int32, id int64, abort bool, timestamp int64) {
	r := kmsg.Record{Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)}
	if abort {
		r.Key[3] = 0
	}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	l.batches = append(l.batches, sourceBatch(l.end, 1, func(b *kmsg.RecordBatch) {
		b.PartitionLeaderEpoch, b.ProducerID, b.Attributes, b.Records, b.FirstTimestamp, b.MaxTimestamp = epoch, id, 0x30, r.AppendTo(nil), timestamp, timestamp
	}))
	l.hidden[l.end], l.epochs[l.end] = timestamp, epoch
	l.end++
}

// answer is what a broker sends for a fetch: whole batches from the one that holds offset, the last may be cut, and the
// aborted transactions that they overlap.
func (l *sourceLog) answer(t *rapid.T, offset int64) (records []byte, aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction, cut bool) {
	left := rapid.IntRange(1, 8).Draw(t, "batches of the answer")
	first, last := int64(-1), int64(-1)
	for _, b := range l.batches {
		if batch.Batch(b).LastOffset() < offset {
			continue
		}
		if left == 0 {
			if rapid.Bool().Draw(t, "cut") {
				records = append(records, b[:len(b)/2]...)
			}
			cut = true
			break
		}
		left--
		if first < 0 {
			first = batch.Batch(b).BaseOffset()
		}
		records, last = append(records, b...), batch.Batch(b).LastOffset()
	}
	for i, a := range l.aborted {
		if a.FirstOffset <= last && l.ends[i] >= offset {
			aborted = append(aborted, a)
		}
	}
	return records, aborted, cut
}

// takenLog is an outlet that checks what a stock broker would.
type takenLog struct {
	t     failer
	coder *batch.Coder
	log   *sourceLog
	next  int64
	rooms int // batches of filler until there is no room
	got   map[int64]string
	fill  map[int64]int64 // timestamps
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func (l *takenLog) room() bool { l.rooms--; return l.rooms >= 0 }

func (l *takenLog) push(raw []byte, base int64, count int32, epoch int32, _ bool) {
	l.t.Helper()
	b := batch.Batch(bytes.Clone(raw))
	if base != l.next || b.BaseOffset() != 0 || b.Count() != count || b.BaseSequence() != batch.SequenceOf(base) || !batch.OfMirror(b) || b.ProducerEpoch() != 0 {
		l.t.Fatalf("a batch at %d where %d is next: base %d, count %d, sequence %d", base, l.next, b.BaseOffset(), b.Count(), b.BaseSequence())
	}
	if class := batch.Classify(b); class != (batch.Class{}) || batch.Validate(b) != nil || batch.CheckDeltas(b) != nil {
		l.t.Fatalf("a broker would refuse the batch at %d: %+v, %v", base, class, batch.Validate(b))
	}
	batch.SetBaseOffset(b, base)
	filler, err := l.coder.Filler(b)
	if err != nil {
		l.t.Fatalf("filler: %v", err)
	}
	if err := l.coder.Records(b, func(r *batch.Record) error {
		if r.IsFiller() && filler != batch.FillerNone {
			l.fill[r.Offset] = r.Timestamp
		} else {
			l.got[r.Offset] = fmt.Sprintf("%d %s %d", r.Timestamp, r.Key, len(r.Value))
		}
		return nil
	}); err != nil {
		l.t.Fatalf("read: %v", err)
	}
	for o := base; o < base+int64(count) && epoch >= 0; o++ {
		if have, ok := l.log.epochs[o]; ok && have != epoch {
			l.t.Fatalf("offset %d has leader epoch %d, the source's is %d", o, epoch, have)
		}
	}
	l.next += int64(count)
}

// TestTranslatedLogIsTheSource: however the log is cut into answers, merged and resumed, the destination holds every
// record where the source has it, filler everywhere else, and nothing that a broker would refuse.
func TestTranslatedLogIsTheSource(t *testing.T) {
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: coderLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	maker, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 8})
	if err != nil {
		t.Fatal(err)
	}
	target := produce.Target{Mirror: "m", Topic: "t"}
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t)
		start := batch.Batch(nil)
		if len(l.batches) > 0 {
			start = l.batches[0]
		}
		first := l.end
		if start != nil {
			first = start.BaseOffset()
		}
		out := &takenLog{t: t, coder: coder, log: l, next: first, got: map[int64]string{}, fill: map[int64]int64{}}
		tr := &translator{target: target, producerID: target.ProducerID(), filler: maker, next: first, previousMs: -1}
		end := first
		for _, b := range l.batches {
			end = batch.Batch(b).LastOffset() + 1
		}
		for tries := 0; tr.next < end; tries++ {
			if tries > 1000 {
				t.Fatalf("no progress at %d of %d", tr.next, end)
			}
			if rapid.IntRange(0, 5).Draw(t, "another owner") == 0 {
				tr = &translator{target: target, producerID: target.ProducerID(), filler: maker, next: tr.next, previousMs: tr.previousMs}
			}
			records, aborted, _ := l.answer(t, tr.next)
			out.rooms = rapid.IntRange(1, 3).Draw(t, "room")
			if err := tr.translate(records, l.end, newAborted(aborted), rapid.Bool().Draw(t, "merge"), coder, out); err != nil && !errors.Is(err, errNoRoom) {
				t.Fatalf("translate at %d: %v", tr.next, err)
			}
			if tr.next != out.next {
				t.Fatalf("the translator is at %d, the log at %d", tr.next, out.next)
			}
		}
		if len(out.got) != len(l.visible) {
			t.Fatalf("%d records, want %d", len(out.got), len(l.visible))
		}
		for offset, want := range l.visible {
			if out.got[offset] != want {
				t.Fatalf("offset %d: %q, want %q", offset, out.got[offset], want)
			}
		}
		for offset, timestamp := range l.hidden {
			if got, ok := out.fill[offset]; !ok || got != timestamp {
				t.Fatalf("offset %d is filler (%v) with timestamp %d, the source's is %d", offset, ok, got, timestamp)
			}
		}
	})
}
