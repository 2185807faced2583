package batch

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var options = ReencodeOptions{PreviousTimestampMs: -1, MaxBatchBytes: 1 << 20}

func reencode(t failer, c *Coder, blob []byte, o ReencodeOptions) []byte {
	t.Helper()
	out, err := c.Reencode([]byte("before"), blob, o)
	if err != nil || !bytes.HasPrefix(out, []byte("before")) {
		t.Fatalf("re-encode: %v", err)
	}
	return out[len("before"):]
}

// acceptable checks what a stock broker asks of every batch, and what we
// promise beyond.
func acceptable(t failer, c *Coder, blob []byte, maxBytes int) {
	t.Helper()
	if _, err := Each(blob, func(b Batch) error {
		if err := Validate(b); err != nil {
			return err
		}
		if class := Classify(b); class != (Class{}) {
			t.Fatalf("a broker would not take %+v: %+v", headerOf(b), class)
		}
		var maxTimestamp, n = int64(-1 << 62), 0
		filled := false
		if err := c.Records(b, func(r *Record) error {
			maxTimestamp, n = max(maxTimestamp, r.Timestamp), n+1
			filled = filled || r.IsFiller()
			return nil
		}); err != nil {
			return err
		}
		if maxTimestamp != b.MaxTimestamp() {
			t.Fatalf("max timestamp %d, of records %d", b.MaxTimestamp(), maxTimestamp)
		}
		if filled && (b.Codec() != CodecGzip || n > len(b.payload())) {
			t.Fatalf("filler of codec %d, %d records in %d bytes", b.Codec(), n, len(b.payload()))
		}
		if n > 1 && len(b) > maxBytes+64 {
			t.Fatalf("%d records in %d bytes", n, len(b))
		}
		return c.CheckDeltas(b)
	}); err != nil {
		t.Fatalf("%v", err)
	}
}

// TestReencodeKeepsEveryRecord is the one that counts: whatever the batches,
// their holes and codecs, the data that remains visible is the source's.
func TestReencodeKeepsEveryRecord(t *testing.T) {
	c := newCoder(t)
	rapid.Check(t, func(t *rapid.T) {
		next := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		o := ReencodeOptions{FromOffset: next, PreviousTimestampMs: rapid.Int64Range(-1, 1<<40).Draw(t, "previous"), MaxBatchBytes: rapid.SampledFrom([]int{300, 3000, 1 << 20}).Draw(t, "max")}
		var blob []byte
		var want []rec
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			s := spec{
				codec: rapid.SampledFrom(codecs).Draw(t, "codec"), base: next, producerID: rapid.Int64Range(-1, 5).Draw(t, "producer"),
				attributes: rapid.SampledFrom([]int16{0, attrLogAppendTime, attrDeleteHorizon, attrTransactional}).Draw(t, "attributes"),
			}
			s.records = recordsFrom(next, rapid.SampledFrom([]int64{0, 3, 1500}).Draw(t, "widest hole")).Draw(t, "records")
			s.last = s.records[len(s.records)-1].Offset + rapid.Int64Range(0, 9).Draw(t, "tail")
			raw := s.encode(t)
			for _, r := range s.records {
				if s.attributes == attrLogAppendTime {
					r.Timestamp = Batch(raw).MaxTimestamp()
				}
				want = append(want, r)
			}
			blob, next = append(blob, raw...), s.last+1
		}
		skip := rapid.IntRange(0, len(want)-1).Draw(t, "resume at")
		if skip > 0 {
			o.FromOffset = want[skip-1].Offset + 1
		}

		fresh := reencode(t, c, blob, o)
		acceptable(t, c, fresh, o.MaxBatchBytes)
		var got, fillers []rec
		end := o.FromOffset
		for _, r := range ourRecords(t, c, fresh) {
			if r.Offset < end {
				t.Fatalf("offset %d behind %d", r.Offset, end)
			}
			end = r.Offset + 1
			if string(r.Key) == FillerKey {
				fillers = append(fillers, r)
			} else {
				got = append(got, r)
			}
		}
		wantRecords(t, "data", got, want[skip:])
		previous, i := o.PreviousTimestampMs, 0
		if skip > 0 {
			previous = want[skip-1].Timestamp
		}
		for _, f := range fillers {
			for ; i < len(got) && got[i].Offset < f.Offset; i++ {
				previous = got[i].Timestamp
			}
			wantRecords(t, "filler", []rec{f}, []rec{{Offset: f.Offset, Timestamp: previous, Key: []byte(FillerKey)}})
		}

		// As stored under our producer and read through the proxy.
		var seen []byte
		if _, err := Each(fresh, func(b Batch) error {
			stored := bytes.Clone(b)
			SetProducer(stored, ourID, 0, int32(b.BaseOffset()))
			SetBaseOffset(stored, b.BaseOffset())
			out, hidden, err := c.AppendVisible(seen, stored)
			if seen = out; !hidden {
				seen = append(seen, stored...)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		fromKgo, _ := kgoDecode(t, seen, false)
		wantRecords(t, "data through the proxy", fromKgo, want[skip:])
	})
}

func bases(t *testing.T, blob []byte) (out [][2]int64) {
	t.Helper()
	if _, err := Each(blob, func(b Batch) error {
		out = append(out, [2]int64{b.BaseOffset(), b.LastOffset()})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestReencodeFillsNarrowHolesOnly(t *testing.T) {
	c := newCoder(t)
	at := func(offsets ...int64) spec {
		s := spec{codec: CodecZstd}
		for _, o := range offsets {
			s.records = append(s.records, rec{Offset: o, Timestamp: o, Value: []byte("v")})
		}
		return s
	}
	for _, tc := range []struct {
		s     spec
		from  int64
		want  [][2]int64
		codec Codec // of the first
	}{
		{at(0, 1, 2), 0, [][2]int64{{0, 2}}, CodecZstd},
		{at(0, 1001, 1002), 0, [][2]int64{{0, 1002}}, CodecGzip},
		{at(0, 1002, 1003), 0, [][2]int64{{0, 0}, {1002, 1003}}, CodecZstd},
		{at(1000), 0, [][2]int64{{0, 1000}}, CodecGzip},
		{at(1001), 0, [][2]int64{{1001, 1001}}, CodecZstd},
		{at(5, 6, 7), 6, [][2]int64{{6, 7}}, CodecZstd},
		{at(5, 7), 8, nil, 0},
		{spec{last: 50, codec: CodecZstd, records: dense(0, 3)}, 0, [][2]int64{{0, 2}}, CodecZstd},
		{spec{last: 1<<31 - 1, codec: CodecZstd, records: dense(1<<31-2, 2)}, 0, [][2]int64{{1<<31 - 2, 1<<31 - 1}}, CodecZstd},
		{spec{last: 50}, 0, nil, 0},
	} {
		o := options
		o.FromOffset = tc.from
		got := reencode(t, c, tc.s.encode(t), o)
		acceptable(t, c, got, o.MaxBatchBytes)
		if b := bases(t, got); len(b) != len(tc.want) || len(b) > 0 && (b[0] != tc.want[0] || b[len(b)-1] != tc.want[len(b)-1] || Batch(got).Codec() != tc.codec) {
			t.Errorf("%v from %d: %v of codec %d, want %v of %d", tc.s.records, tc.from, b, Batch(got).Codec(), tc.want, tc.codec)
		}
	}
}

func TestReencodeMergesSmallBatches(t *testing.T) {
	var blob []byte
	for i := range int64(200) {
		blob = append(blob, spec{base: i * 2, epoch: 4, codec: CodecLz4, records: dense(i*2, 1)}.encode(t)...)
	}
	got := reencode(t, newCoder(t), blob, options)
	if b := bases(t, got); len(b) != 1 || b[0] != [2]int64{0, 398} || Batch(got).LeaderEpoch() != 4 {
		t.Errorf("became %v", b)
	}
	other := append(spec{codec: CodecLz4, records: dense(0, 2)}.encode(t), spec{base: 2, codec: CodecZstd, records: dense(2, 2)}.encode(t)...)
	if b := bases(t, reencode(t, newCoder(t), other, options)); len(b) != 2 || b[1] != [2]int64{2, 3} {
		t.Errorf("batches of two codecs became %v", b)
	}
}

func TestReencodeCutsAtTheSize(t *testing.T) {
	c := newCoder(t)
	s := spec{codec: CodecNone}
	for i := range int64(50) {
		s.records = append(s.records, rec{Offset: i * 3, Value: mixed(int(i * 10))})
	}
	o := options
	o.MaxBatchBytes = 1000
	got := reencode(t, c, s.encode(t), o)
	acceptable(t, c, got, o.MaxBatchBytes)
	if b := bases(t, got); len(b) < 10 {
		t.Errorf("became %v", b)
	}
	large := spec{records: []rec{{Offset: 0, Value: mixed(5000)}, {Offset: 1, Value: mixed(5000)}}}
	if b := bases(t, reencode(t, c, large.encode(t), o)); len(b) != 2 {
		t.Errorf("records that are each too large became %v", b)
	}
}

// TestReencodeTurnsIntoFiller: what no consumer of the source sees keeps its offsets and timestamps, among the data around it.
func TestReencodeTurnsIntoFiller(t *testing.T) {
	c := newCoder(t)
	data := func(base int64, producerID int64) []byte {
		return spec{base: base, codec: CodecLz4, attributes: attrTransactional, producerID: producerID, records: dense(base, 3)}.encode(t)
	}
	marker := func(base, last, timestamp int64) []byte {
		return spec{base: base, last: last, attributes: attrControl | attrTransactional, records: []rec{{Offset: last, Timestamp: timestamp, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)}}}.encode(t)
	}
	filled := func(from, to, timestamp int64) (out []rec) {
		for o := from; o < to; o++ {
			out = append(out, rec{Offset: o, Timestamp: timestamp, Key: []byte(FillerKey)})
		}
		return out
	}
	aborted := func(base int64) (out []rec) {
		for _, r := range dense(base, 3) {
			out = append(out, rec{Offset: r.Offset, Timestamp: r.Timestamp, Key: []byte(FillerKey)})
		}
		return out
	}
	ofMirror := spec{base: 20, codec: CodecGzip, producerID: FirstMirrorProducer + 5, records: append(filled(20, 23, 40), rec{Offset: 23, Timestamp: 41, Value: []byte("v")})}.encode(t)
	for name, tc := range map[string]struct {
		blob []byte
		from int64
		want []rec
	}{
		"marker between":  {slices.Concat(data(0, 1), marker(3, 3, 77), data(4, 1)), 0, slices.Concat(dense(0, 3), filled(3, 4, 77), dense(4, 3))},
		"marker alone":    {marker(3, 3, 77), 3, filled(3, 4, 77)},
		"aborted":         {slices.Concat(data(0, 1), data(3, 2), data(6, 1)), 0, slices.Concat(dense(0, 3), aborted(3), dense(6, 3))},
		"resumed within":  {slices.Concat(data(0, 2), marker(3, 9, 5)), 7, filled(7, 10, 5)},
		"hidden filler":   {slices.Concat(data(0, 1), marker(3, 1001, 5), data(1002, 1)), 0, slices.Concat(dense(0, 3), filled(3, 1002, 5), dense(1002, 3))},
		"of a mirror":     {ofMirror, 20, append(filled(20, 23, 40), rec{Offset: 23, Timestamp: 41, Value: []byte("v")})},
		"too wide inside": {slices.Concat(data(0, 1), marker(3, 5000, 5), data(5001, 1)), 0, slices.Concat(dense(0, 3), dense(5001, 3))},
	} {
		o := options
		o.FromOffset = tc.from
		o.Discard = func(b Batch) bool { return b.ProducerID() == 2 }
		got := reencode(t, c, tc.blob, o)
		acceptable(t, c, got, o.MaxBatchBytes)
		wantRecords(t, name, ourRecords(t, c, got), tc.want)
	}
}

// TestReencodeAppendTime: consumers of the source saw the append time.
func TestReencodeAppendTime(t *testing.T) {
	s := spec{base: 7, codec: CodecSnappy, attributes: attrLogAppendTime, records: dense(7, 3)}
	raw := Batch(s.encode(t))
	o := options
	o.FromOffset = 7
	got := Batch(reencode(t, newCoder(t), raw, o))
	if got.LogAppendTime() || got.BaseTimestamp() != raw.MaxTimestamp() || got.MaxTimestamp() != raw.MaxTimestamp() || got.Codec() != CodecSnappy {
		t.Errorf("%+v", headerOf(got))
	}
	for i := range s.records {
		s.records[i].Timestamp = raw.MaxTimestamp()
	}
	fromKgo, _ := kgoDecode(t, got, false)
	wantRecords(t, "append time", fromKgo, s.records)
}

func TestReencodeRefuses(t *testing.T) {
	c := newCoder(t)
	good := spec{base: 10, records: dense(10, 3)}.encode(t)
	damaged := bytes.Clone(good)
	damaged[bytes.Index(damaged, []byte("value"))] ^= 1 // still a record
	for name, tc := range map[string]struct {
		blob []byte
		want error
	}{
		"damage":       {damaged, ErrCorrupt},
		"cut":          {good[:len(good)-1], ErrCorrupt},
		"twice":        {append(bytes.Clone(good), good...), ErrCorrupt},
		"backwards":    {append(bytes.Clone(good), spec{base: 5, records: dense(5, 3)}.encode(t)...), ErrCorrupt},
		"filler key":   {spec{records: []rec{{Key: []byte(FillerKey), Value: []byte("v")}}}.encode(t), ErrFillerKey},
		"marker twice": {append(spec{base: 3, attributes: attrControl, records: dense(3, 1)}.encode(t), spec{base: 3, attributes: attrControl, records: dense(3, 1)}.encode(t)...), ErrCorrupt},
		"beyond limit": {spec{codec: CodecLz4, records: []rec{{Value: make([]byte, 9<<20)}}}.encode(t), ErrTooLarge},
	} {
		out, err := c.Reencode([]byte("x"), tc.blob, options)
		if !errors.Is(err, tc.want) || string(out) != "x" {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
	}
	for _, size := range []int{0, MinLimitBytes + 1} {
		if _, err := c.Reencode(nil, good, ReencodeOptions{MaxBatchBytes: size}); err == nil {
			t.Errorf("batches of %d bytes were taken", size)
		}
	}
	// An error leaves nothing behind for the next call.
	wantRecords(t, "after errors", ourRecords(t, c, reencode(t, c, good, ReencodeOptions{FromOffset: 10, MaxBatchBytes: 1 << 20})), dense(10, 3))
}
