package batch

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

func TestHideIsTheMarkerForm(t *testing.T) {
	raw := Batch(filler(t, MaxFillerRecords, 1234))
	SetBaseOffset(raw, 5000)
	before := bytes.Clone(raw)
	hidden := Batch(Hide(raw))
	if !bytes.Equal(raw, before) {
		t.Error("the batch itself was changed")
	}
	if err := Validate(hidden); err != nil {
		t.Fatal(err)
	}
	want := headerOf(raw)
	want.attributes, want.count = attrControl, 1
	if got := headerOf(hidden); got != want {
		t.Errorf("header %+v, want %+v", got, want)
	}
	if len(hidden) > 85 {
		t.Errorf("%d bytes", len(hidden))
	}
	marker := []rec{{Offset: 5000 + MaxFillerRecords - 1, Timestamp: 1234, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)}}
	wantRecords(t, "marker", ourRecords(t, newCoder(t), hidden), marker)
	fromKgo, next := kgoDecode(t, hidden, true)
	wantRecords(t, "marker by kgo", fromKgo, marker)
	if got, _ := kgoDecode(t, hidden, false); len(got) != 0 || next != 5000+MaxFillerRecords {
		t.Errorf("kgo sees %d records and goes on at %d", len(got), next)
	}
}

func TestHideOfAnyBatchIsPlainControl(t *testing.T) {
	for _, attributes := range []int16{attrTransactional, attrDeleteHorizon, attrLogAppendTime, -1 << 7} {
		for _, codec := range codecs {
			raw := Batch(spec{base: 3, last: 1 << 30, codec: codec, attributes: attributes, records: dense(3, 2)}.encode(t))
			hidden := Batch(Hide(raw))
			if err := Validate(hidden); err != nil {
				t.Error(err)
			}
			if got, want := hidden.Attributes(), attrControl|attributes&attrLogAppendTime; got != want {
				t.Errorf("attributes %#x became %#x, want %#x", raw.Attributes(), got, want)
			}
			if hidden.LastOffset() != raw.LastOffset() {
				t.Errorf("last offset %d", hidden.LastOffset())
			}
		}
	}
}

func visible(t failer, c *Coder, raw []byte) ([]byte, bool) {
	t.Helper()
	out, hidden, err := c.AppendVisible([]byte("before"), raw)
	if err != nil || !bytes.HasPrefix(out, []byte("before")) {
		t.Fatalf("visible: %v", err)
	}
	return out[len("before"):], hidden
}

func TestAppendVisibleOfWholeBatches(t *testing.T) {
	c := newCoder(t)
	marker := spec{base: 4, producerID: ourID, attributes: attrControl, records: []rec{{Offset: 4, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)}}}.encode(t)
	for name, tc := range map[string]struct {
		raw  []byte
		hide bool
	}{
		"filler":                  {filler(t, 40, 9), true},
		"empty":                   {spec{base: 4, last: 9, producerID: ourID, codec: CodecLz4}.encode(t), true},
		"empty, other producer":   {spec{base: 4, last: 9, producerID: 5}.encode(t), false},
		"data":                    {spec{base: 4, producerID: ourID, codec: CodecGzip, records: dense(4, 3)}.encode(t), false},
		"data, other producer":    {spec{base: 4, producerID: 5, codec: CodecGzip, records: []rec{{Offset: 4, Key: []byte(FillerKey)}}}.encode(t), false},
		"marker of our own fence": {marker, false},
		"magic 1":                 {legacyMessage(1, 4, 0, 5, []byte(FillerKey), nil), false},
	} {
		got, hidden := visible(t, c, tc.raw)
		want := []byte{}
		if tc.hide {
			want = Hide(tc.raw)
		}
		if hidden != tc.hide || !bytes.Equal(got, want) {
			t.Errorf("%s: hidden %v, %x", name, hidden, got)
		}
	}
}

// TestAppendVisibleWithin: what a client sees of a batch with filler in it is
// the data, all of it, and it goes on behind the batch.
func TestAppendVisibleWithin(t *testing.T) {
	c := newCoder(t)
	rapid.Check(t, func(t *rapid.T) {
		s := spec{codec: CodecGzip, producerID: ourID, base: rapid.Int64Range(0, 1000).Draw(t, "base")}
		s.records = recordsFrom(s.base, 20).Draw(t, "records")
		s.last = s.records[len(s.records)-1].Offset + rapid.Int64Range(0, 5).Draw(t, "tail")
		var want []rec
		for i := range s.records {
			if rapid.Bool().Draw(t, "filler") {
				s.records[i] = rec{Offset: s.records[i].Offset, Timestamp: s.records[i].Timestamp, Key: []byte(FillerKey)}
			} else {
				want = append(want, s.records[i])
			}
		}
		raw := Batch(s.encode(t))
		got, hidden := visible(t, c, raw)
		if hidden != (len(want) < len(s.records)) {
			t.Fatalf("hidden %v", hidden)
		}
		if !hidden {
			return
		}
		ourRecords(t, c, got) // valid
		seen, _ := kgoDecode(t, got, false)
		wantRecords(t, "visible", seen, want)
		_, next := kgoDecode(t, got, true)
		if next != raw.LastOffset()+1 {
			t.Fatalf("a client goes on at %d, the batch ends at %d", next, raw.LastOffset())
		}
		at := raw.BaseOffset()
		if _, err := Each(got, func(b Batch) error {
			if b.BaseOffset() != at {
				t.Fatalf("batch at %d, the one before ended at %d", b.BaseOffset(), at)
			}
			at = b.LastOffset() + 1
			return nil
		}); err != nil || at != raw.LastOffset()+1 {
			t.Fatalf("offsets up to %d are covered, %v", at, err)
		}
	})
}
