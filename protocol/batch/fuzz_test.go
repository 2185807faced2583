package batch

import (
	"bytes"
	"testing"
)

// seeds adds one batch of each codec and kind.
func seeds(f *testing.F) {
	f.Helper()
	t := failerOf{f}
	for _, codec := range codecs {
		s := spec{base: 3, codec: codec, producerID: ourID, records: dense(3, 3)}
		s.records[1].Key = nil
		s.records[2].Headers = []hdr{{"h", nil}, {"", []byte("x")}}
		s.records[2].Offset = 8
		f.Add(s.encode(t))
		s.attributes = attrLogAppendTime | attrTransactional
		f.Add(s.encode(t))
	}
	f.Add(spec{base: 3, last: 9, producerID: ourID}.encode(t))
	f.Add(legacyMessage(1, 9, byte(CodecGzip), 5, nil, kgoCompress(t, CodecGzip, legacyMessage(1, 0, 0, 5, []byte("k"), []byte("v")))))
	f.Add(legacyMessage(0, 9, 0, 5, []byte("k"), nil))
	f.Add(spec{codec: CodecGzip, producerID: ourID, records: []rec{{Key: []byte(FillerKey)}, {Offset: 1, Value: []byte("v")}, {Offset: 4, Key: []byte(FillerKey)}}}.encode(t))
	f.Add(filler(f, 3, 5))
}

// failerOf lets the encoder report to f.
type failerOf struct{ f *testing.F }

func (t failerOf) Helper()                           { t.f.Helper() }
func (t failerOf) Fatalf(format string, args ...any) { t.f.Fatalf(format, args...) }

// FuzzEach: whatever the bytes, the parts make up the whole, and every check
// of a part ends without a panic.
func FuzzEach(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, blob []byte) {
		var whole []byte
		rest, err := Each(blob, func(b Batch) error {
			if len(b) != prefixLen+int(b.Length()) {
				t.Fatalf("%d bytes of length %d", len(b), b.Length())
			}
			whole = append(whole, b...)
			valid := Validate(b) == nil
			if class := Classify(b); valid && class.Kind == KindInvalid {
				t.Fatal("valid and invalid")
			}
			if CheckDeltas(b) == nil && b.Magic() < 2 {
				t.Fatal("an old batch has no deltas")
			}
			return nil
		})
		if !bytes.Equal(append(whole, rest...), blob) {
			t.Fatalf("parts are not the whole, %v", err)
		}
	})
}

// FuzzRecords: what can be read can be re-encoded, and reads the same.
func FuzzRecords(f *testing.F) {
	seeds(f)
	c := newCoder(f)
	f.Fuzz(func(t *testing.T, blob []byte) {
		b, _, err := Next(blob)
		if err != nil || b == nil {
			return
		}
		b = bytes.Clone(b)
		if b.Magic() == 2 {
			putCRC(b, recompute(b)) // a fuzzer does not find it
		}
		var want []rec
		refused := false
		if err := c.Records(b, func(r *Record) error {
			want = append(want, toRec(r))
			refused = refused || string(r.Key) == FillerKey
			return nil
		}); err != nil || len(want) == 0 || refused || b.Magic() == 2 && b.Control() {
			return
		}
		o := options
		o.FromOffset = want[0].Offset
		if o.FromOffset < 0 { // an old message, which Each does not bound
			return
		}
		fresh := reencode(t, c, b, o)
		acceptable(t, c, fresh, o.MaxBatchBytes)
		var got []rec
		for _, r := range ourRecords(t, c, fresh) {
			if string(r.Key) != FillerKey {
				got = append(got, r)
			}
		}
		wantRecords(t, "re-encoded", got, want)
	})
}

// FuzzIsFiller: hiding covers the same offsets and keeps every data record.
func FuzzIsFiller(f *testing.F) {
	seeds(f)
	c := newCoder(f)
	f.Fuzz(func(t *testing.T, blob []byte) {
		b, _, err := Next(blob)
		if err != nil || b == nil {
			return
		}
		b = bytes.Clone(b)
		if b.Magic() == 2 {
			putCRC(b, recompute(b))
		}
		is, err := c.IsFiller(b)
		if is && (err != nil || Validate(b) != nil) {
			t.Fatalf("filler that is not a batch: %v", err)
		}
		out, hidden, err := c.AppendVisible(nil, b)
		if err != nil || !hidden {
			return
		}
		var want []rec
		if err := c.Records(b, func(r *Record) error {
			if !r.IsFiller() {
				want = append(want, toRec(r))
			}
			return nil
		}); err != nil && b.Count() > 0 {
			t.Fatal(err)
		}
		if is != (len(want) == 0) && b.Count() > 0 {
			t.Fatalf("filler %v with %d data records", is, len(want))
		}
		var got []rec
		next := b.BaseOffset()
		if _, err := Each(out, func(v Batch) error {
			if err := Validate(v); err != nil || v.BaseOffset() != next {
				t.Fatalf("visible batch at %d, want %d: %v", v.BaseOffset(), next, err)
			}
			next = v.LastOffset() + 1
			if v.Control() {
				return nil
			}
			return c.Records(v, func(r *Record) error { got = append(got, toRec(r)); return nil })
		}); err != nil || next != b.LastOffset()+1 {
			t.Fatalf("visible up to %d of %d: %v", next, b.LastOffset()+1, err)
		}
		wantRecords(t, "visible", got, want)
	})
}
