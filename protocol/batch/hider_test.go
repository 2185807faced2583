package batch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

type testHider struct {
	*Hider
	cached, hidden atomic.Int64
}

func newHider(t testing.TB, cacheBytes int64) *testHider {
	t.Helper()
	h := &testHider{}
	var err error
	h.Hider, err = NewHider(HiderConfig{Coders: 2, CacheBytes: cacheBytes, CachedBytes: &h.cached, HiddenBatches: &h.hidden})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var somewhere = Place{Topic: []byte("t"), Partition: 3}

// holed is a gzip batch of a mirror in which every third record is data.
func holed(t failer, base int64, n int) []byte {
	s := spec{codec: CodecGzip, producerID: ourID, base: base, records: dense(base, n)}
	for i := range s.records {
		if i%3 != 0 {
			s.records[i].Key, s.records[i].Value = []byte(FillerKey), nil
		}
	}
	return s.encode(t)
}

// drawBatch draws one batch of a log at an offset, and tells what it is.
func drawBatch(t *rapid.T, base int64) (raw []byte, next int64) {
	n := rapid.IntRange(1, 30).Draw(t, "records")
	switch rapid.IntRange(0, 8).Draw(t, "kind") {
	case 0:
		s := spec{codec: CodecGzip, producerID: ourID, base: base, records: dense(base, n)}
		for i := range s.records {
			s.records[i].Key, s.records[i].Value = []byte(FillerKey), nil
		}
		raw = s.encode(t)
	case 1:
		raw = holed(t, base, n)
	case 2: // emptied by the cleaner
		producer := rapid.SampledFrom([]int64{ourID, 5}).Draw(t, "producer")
		raw = spec{base: base, last: base + int64(n) - 1, producerID: producer, codec: CodecLz4}.encode(t)
	case 3: // filler of nobody's
		raw = spec{base: base, producerID: 5, codec: CodecGzip, records: []rec{{Offset: base, Key: []byte(FillerKey)}}}.encode(t)
		n = 1
	case 4:
		raw = legacyMessage(1, base, 0, 5, []byte(FillerKey), nil)
		n = 1
	case 5: // damaged
		raw = holed(t, base, n)
		raw[rapid.SampledFrom([]int{posMaxTimestamp, len(raw) - 1}).Draw(t, "damage")] ^= 1
	case 6: // not gzip at all, with the right CRC
		raw = spec{base: base, producerID: ourID, codec: CodecNone, records: dense(base, n)}.encode(t)
		raw[posAttributes+1] |= byte(CodecGzip)
		putCRC(raw, recompute(raw))
	default:
		raw = spec{
			base: base, producerID: rapid.SampledFrom([]int64{ourID, 5, -1}).Draw(t, "producer"),
			codec: rapid.SampledFrom(codecs).Draw(t, "codec"), records: dense(base, n),
		}.encode(t)
	}
	return raw, base + int64(n)
}

// TestHider: every batch of a record set is replaced as AppendVisible of a Coder has it, or stays to the byte, wherever the
// set is cut, and however often it was seen.
func TestHider(t *testing.T) {
	c := newCoder(t)
	hidden, kept := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		h := newHider(t, 1<<20)
		next := rapid.Int64Range(0, 1<<40).Draw(rt, "offset")
		var records, want []byte
		replaced := 0
		for range rapid.IntRange(0, 8).Draw(rt, "batches") {
			var raw []byte
			raw, next = drawBatch(rt, next)
			records = append(records, raw...)
			visible, hide := raw, false
			if Batch(raw).Magic() == 2 && Validate(raw) == nil {
				out, ok, err := c.AppendVisible(nil, raw)
				if hide = ok && err == nil; hide {
					visible = out
				}
			}
			want = append(want, visible...)
			if hide {
				replaced++
			}
		}
		if tail, _ := drawBatch(rt, next); rapid.Bool().Draw(rt, "cut") {
			tail = tail[:rapid.IntRange(1, len(tail)-1).Draw(rt, "bytes")]
			records, want = append(records, tail...), append(want, tail...)
		} else if rapid.IntRange(0, 4).Draw(rt, "garbage") == 0 {
			tail = bytes.Repeat([]byte{0xff}, 70)
			records, want = append(records, tail...), append(want, tail...)
		}
		before := bytes.Clone(records)
		for range 2 {
			got, ok := h.AppendVisible([]byte("before"), somewhere, records)
			if !bytes.Equal(records, before) {
				t.Fatal("the record set was changed")
			}
			if ok != (replaced > 0) || !ok && string(got) != "before" {
				t.Fatalf("hidden %v with %d batches to hide", ok, replaced)
			}
			if ok && !bytes.Equal(got, append([]byte("before"), want...)) {
				t.Fatalf("visible\n% x\nwant\n% x", got, want)
			}
		}
		if got := h.hidden.Load(); got != int64(2*replaced) {
			t.Fatalf("%d hidden batches are counted, %d were", got, 2*replaced)
		}
		hidden, kept = hidden+replaced, kept+1
	})
	if hidden < 20 {
		t.Errorf("%d batches hidden in %d sets", hidden, kept)
	}
}

// TestHiderRemembers: a batch is decompressed once, whatever was found in it; one of another place, or written anew with
// another CRC, is another batch.
func TestHiderRemembers(t *testing.T) {
	data := spec{codec: CodecGzip, producerID: ourID, base: 10, records: dense(10, 20)}.encode(t)
	for name, raw := range map[string][]byte{"filler": filler(t, 50, 9), "mixed": holed(t, 10, 20), "data": data} {
		h := newHider(t, 1<<20)
		want, hidden := h.AppendVisible(nil, somewhere, raw)
		// Nothing can be found in it any more, but the key is the same.
		blind := bytes.Clone(raw)
		clear(blind[HeaderLen:])
		if got, ok := h.AppendVisible(nil, somewhere, blind); ok != hidden || !bytes.Equal(got, want) {
			t.Errorf("%s: looked into again", name)
		}
		for other, place := range map[string]Place{"topic": {[]byte("u"), 3}, "partition": {[]byte("t"), 4}} {
			if _, ok := h.AppendVisible(nil, place, blind); ok {
				t.Errorf("%s: what is known of a batch counts for another %s", name, other)
			}
		}
		for field, pos := range map[string]int{"offset": posBaseOffset + 7, "epoch": posLeaderEpoch + 3, "CRC": posCRC, "producer": posProducerID + 7} {
			another := bytes.Clone(blind)
			another[pos] ^= 1
			if _, ok := h.AppendVisible(nil, somewhere, another); ok {
				t.Errorf("%s: what is known of a batch counts for one of another %s", name, field)
			}
		}
	}
}

func TestHiderIsBounded(t *testing.T) {
	const limit = 64 << 10
	h := newHider(t, limit)
	entries := 0
	for i := range 500 {
		_, hidden := h.AppendVisible(nil, somewhere, holed(t, int64(i), 20+i%300))
		if !hidden {
			t.Fatal("not hidden")
		}
		if got := h.cached.Load(); got > limit {
			t.Fatalf("%d bytes are cached", got)
		}
		entries = max(entries, h.known.Len())
	}
	if entries < 50 || h.known.Len() == 500 {
		t.Errorf("%d batches were remembered", entries)
	}
	var sum int64
	for _, s := range h.known.Values() {
		sum += s.bytes()
	}
	if sum != h.cached.Load() {
		t.Errorf("%d bytes are cached, %d counted", sum, h.cached.Load())
	}
	r := rand.New(rand.NewPCG(1, 2)) // does not compress
	big := spec{codec: CodecGzip, producerID: ourID, records: dense(0, 2)}
	big.records[0].Key, big.records[0].Value = []byte(FillerKey), nil
	big.records[1].Value = make([]byte, limit/2)
	for i := range big.records[1].Value {
		big.records[1].Value[i] = byte(r.Uint32())
	}
	before := h.known.Len()
	if _, hidden := h.AppendVisible(nil, somewhere, big.encode(t)); !hidden || h.known.Len() != before {
		t.Errorf("hidden %v; %d batches were remembered, now %d", hidden, before, h.known.Len())
	}
	if _, err := NewHider(HiderConfig{Coders: 0, CacheBytes: limit}); err == nil {
		t.Error("a hider without a coder")
	}
}

// TestHiderKnowsFillerByItsBytes: in a run of filler only the first batch is decompressed.
func TestHiderKnowsFillerByItsBytes(t *testing.T) {
	h := newHider(t, 1<<20)
	run := filler(t, 50, 9)
	h.AppendVisible(nil, somewhere, run)
	for len(h.coders) > 0 {
		<-h.coders // whoever needs one now waits for ever
	}
	SetBaseOffset(run, 50)
	got, hidden := h.AppendVisible(nil, Place{[]byte("another"), 0}, run)
	if !hidden || !bytes.Equal(got, Hide(run)) {
		t.Errorf("hidden %v: % x", hidden, got)
	}
}

func TestHiderForMany(t *testing.T) {
	h := newHider(t, 4<<10)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c := newCoder(t)
			for j := range 50 {
				raw := holed(t, int64(j%7), 30)
				want, _, err := c.AppendVisible(nil, raw)
				got, hidden := h.AppendVisible(nil, Place{[]byte(fmt.Sprint(i % 3)), 0}, raw)
				if err != nil || !hidden || !bytes.Equal(got, want) {
					t.Errorf("hidden %v: % x", hidden, got)
				}
			}
		})
	}
	all.Wait()
}

// TestHiderLeavesDataAlone: data costs its headers, no more.
func TestHiderLeavesDataAlone(t *testing.T) {
	h := newHider(t, 1<<20)
	var records []byte
	for i := range 10 {
		records = append(records, spec{base: int64(20 * i), producerID: 5, codec: CodecGzip, records: dense(int64(20*i), 20)}.encode(t)...)
		records = append(records, spec{base: int64(20*i + 20), producerID: ourID, codec: CodecZstd, records: dense(int64(20*i+20), 20)}.encode(t)...)
	}
	if n := testing.AllocsPerRun(100, func() {
		if out, hidden := h.AppendVisible(nil, somewhere, records); hidden || out != nil {
			t.Fatal("hidden")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	gzip := spec{codec: CodecGzip, producerID: ourID, records: dense(0, 20)}.encode(t)
	h.AppendVisible(nil, somewhere, gzip)
	if n := testing.AllocsPerRun(100, func() { h.AppendVisible(nil, somewhere, gzip) }); n != 0 {
		t.Errorf("%v allocations for a known batch", n)
	}
}

// FuzzHider: any bytes as a record set; what is given covers the same offsets, and a second look gives the same.
func FuzzHider(f *testing.F) {
	seeds(f)
	h := newHider(f, 1<<20)
	f.Fuzz(func(t *testing.T, records []byte) {
		for blob := records; ; { // whole batches become valid ones
			b, rest, err := Next(blob)
			if b == nil || err != nil {
				break
			}
			if b.Magic() == 2 {
				putCRC(b, recompute(b))
			}
			blob = rest
		}
		first, hidden := h.AppendVisible(nil, somewhere, records)
		second, again := h.AppendVisible(nil, somewhere, records)
		if hidden != again || !bytes.Equal(first, second) {
			t.Fatal("a second look gives something else")
		}
		if !hidden {
			return
		}
		if before, after := ends(records), ends(first); before != after {
			t.Fatalf("a set of whole batches up to offset %d covers up to %d", before, after)
		}
	})
}

// ends is the last offset of the whole batches of a set.
func ends(records []byte) int64 {
	last := int64(-1)
	_, _ = Each(records, func(b Batch) error { // garbage behind them is left alone
		if last = b.BaseOffset(); b.Magic() == 2 {
			last = b.LastOffset()
		}
		return nil
	})
	return last
}

func BenchmarkHider(b *testing.B) {
	var data, fill []byte
	for len(data) < 1<<20 {
		one := spec{base: int64(len(data)), producerID: 5, codec: CodecLz4, records: dense(int64(len(data)), 500)}.encode(b)
		data = append(data, one...)
	}
	for i := range 7 {
		one := filler(b, MaxFillerRecords, 0)
		SetBaseOffset(one, int64(i)*MaxFillerRecords)
		fill = append(fill, one...)
	}
	var gzip []byte
	for base := int64(0); len(gzip) < 1<<20; base += 500 {
		gzip = append(gzip, spec{base: base, producerID: ourID, codec: CodecGzip, records: dense(base, 500)}.encode(b)...)
	}
	for _, row := range []struct {
		name    string
		records []byte
	}{{"data", data}, {"gzip", gzip}, {"filler", fill}} {
		for _, known := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/known=%v", row.name, known), func(b *testing.B) {
				h := newHider(b, 64<<20)
				b.SetBytes(int64(len(row.records)))
				b.ReportAllocs()
				var out []byte
				for b.Loop() {
					if !known {
						h.known.Purge()
						h.fillers.Purge()
					}
					out, _ = h.AppendVisible(out[:0], somewhere, row.records)
				}
			})
		}
	}
}
