package batch

import (
	"bytes"
	"errors"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

const ourID = 1<<60 + 77

func newMaker(t testing.TB) *FillerMaker {
	t.Helper()
	m, err := NewFillerMaker(FillerMakerConfig{Cached: 4})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func filler(t testing.TB, n int32, timestamp int64) []byte {
	t.Helper()
	b, err := newMaker(t).Append(nil, n, timestamp, ourID, 0, 5)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFillerKey(t *testing.T) {
	if len(FillerKey) != 16 || utf8.ValidString(FillerKey) {
		t.Errorf("%q", FillerKey)
	}
}

// TestFillerIsReadAsSuch also holds the density limit: sarama takes a batch of
// more records than bytes for a partial one.
func TestFillerIsReadAsSuch(t *testing.T) {
	c, m := newCoder(t), newMaker(t)
	for _, n := range []int32{1, 2, 10, 63, 64, 65, 500, 1000, 9999, 20_000, 50_000, MaxFillerRecords} {
		for range 2 { // the second is from the cache
			raw, err := m.Append([]byte("before"), n, 1234, ourID, 0, 99)
			if err != nil || !bytes.HasPrefix(raw, []byte("before")) {
				t.Fatal(err)
			}
			b := Batch(raw[len("before"):])
			if err := Validate(b); err != nil {
				t.Fatal(err)
			}
			if class := Classify(b); class != (Class{}) {
				t.Errorf("%d records: a broker would not take it: %+v", n, class)
			}
			if err := c.CheckDeltas(b); err != nil {
				t.Error(err)
			}
			if int(n) > len(b.payload()) {
				t.Errorf("%d records in %d bytes", n, len(b.payload()))
			}
			want := header{
				leaderEpoch: -1, attributes: int16(CodecGzip), lastOffsetDelta: n - 1, baseTimestamp: 1234, maxTimestamp: 1234,
				producerID: ourID, baseSequence: 99, count: n,
			}
			if got := headerOf(b); got != want {
				t.Errorf("header %+v, want %+v", got, want)
			}
			if is, err := c.IsFiller(b); !is || err != nil {
				t.Errorf("%d records: not recognised: %v", n, err)
			}
		}
	}
	if n := len(filler(t, MaxFillerRecords, 0)); n > 200_000 {
		t.Errorf("%d bytes for the largest", n)
	}
}

func TestFillerIsReadByKgo(t *testing.T) {
	got, next := kgoDecode(t, filler(t, 300, -1), false)
	if len(got) != 300 || next != 300 {
		t.Fatalf("%d records, next %d", len(got), next)
	}
	for i, r := range got {
		wantRecords(t, "filler", []rec{r}, []rec{{Offset: int64(i), Timestamp: -1, Key: []byte(FillerKey)}})
	}
}

func TestFillerMakerRefuses(t *testing.T) {
	m := newMaker(t)
	for _, n := range []int32{-1, 0, MaxFillerRecords + 1} {
		if out, err := m.Append([]byte("x"), n, 0, ourID, 0, 0); err == nil || string(out) != "x" {
			t.Errorf("%d records were made", n)
		}
	}
	if _, err := NewFillerMaker(FillerMakerConfig{}); err == nil {
		t.Error("a cache of nothing")
	}
}

func TestFillerMakerRemembersABoundedNumber(t *testing.T) {
	m := newMaker(t)
	for n := int32(1); n < 50; n++ {
		if _, err := m.Append(nil, n, 0, ourID, 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if m.payloads.Len() != 4 {
		t.Errorf("%d remembered", m.payloads.Len())
	}
}

func TestFillerLooksAtEveryRecord(t *testing.T) {
	c := newCoder(t)
	records := func(n int, change func([]rec)) []rec {
		out := make([]rec, n)
		for i := range out {
			out[i] = rec{Offset: int64(i), Key: []byte(FillerKey)}
		}
		change(out)
		return out
	}
	for name, tc := range map[string]struct {
		s    spec
		want Filler
	}{
		"all":               {spec{codec: CodecGzip, producerID: ourID, records: records(5, func([]rec) {})}, FillerAll},
		"cleaned":           {spec{codec: CodecGzip, producerID: ourID, base: 0, last: 900, records: records(1, func(r []rec) { r[0].Offset = 800 })}, FillerAll},
		"other producer":    {spec{codec: CodecGzip, producerID: 1 << 61, records: records(5, func([]rec) {})}, FillerNone},
		"other codec":       {spec{codec: CodecZstd, producerID: ourID, records: records(5, func([]rec) {})}, FillerNone},
		"control":           {spec{codec: CodecGzip, attributes: attrControl, producerID: ourID, records: records(5, func([]rec) {})}, FillerNone},
		"last has a value":  {spec{codec: CodecGzip, producerID: ourID, records: records(5, func(r []rec) { r[4].Value = []byte{} })}, FillerSome},
		"last has a header": {spec{codec: CodecGzip, producerID: ourID, records: records(5, func(r []rec) { r[4].Headers = []hdr{{"a", nil}} })}, FillerSome},
		"first other key":   {spec{codec: CodecGzip, producerID: ourID, records: records(5, func(r []rec) { r[0].Key = []byte(FillerKey + "x") })}, FillerSome},
		"magic in a value":  {spec{codec: CodecGzip, producerID: ourID, records: []rec{{Value: []byte(FillerKey)}}}, FillerNone},
		"nothing":           {spec{codec: CodecGzip, producerID: ourID, last: 4}, FillerNone},
		"too large to be":   {spec{codec: CodecGzip, producerID: ourID, records: append(records(5, func([]rec) {}), rec{Offset: 5, Value: make([]byte, MinLimitBytes)})}, FillerNone},
	} {
		got, err := c.Filler(tc.s.encode(t))
		if err != nil || got != tc.want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, tc.want)
		}
	}
}

func TestFillerOfADamagedBatchIsAnError(t *testing.T) {
	b := filler(t, 100, 0)
	b[HeaderLen+20] ^= 0xff
	if got, err := newCoder(t).Filler(b); !errors.Is(err, ErrCorrupt) || got != FillerNone {
		t.Errorf("%d, %v", got, err)
	}
}

// TestCheckNoFillerKey: exactly what Filler could take for filler is refused.
func TestCheckNoFillerKey(t *testing.T) {
	c := newCoder(t)
	rapid.Check(t, func(t *rapid.T) {
		s := spec{codec: rapid.SampledFrom(codecs).Draw(t, "codec"), producerID: ourID, records: recordsFrom(0, 3).Draw(t, "records")}
		at := rapid.IntRange(0, len(s.records)-1).Draw(t, "at")
		if rapid.Bool().Draw(t, "magic key") {
			s.records[at].Key = []byte(FillerKey)
			s.records[at].Value = bytesOrNull.Draw(t, "value of the magic key")
		} else {
			s.records[at].Value = []byte(FillerKey) // a value may be anything
		}
		raw := s.encode(t)
		compacted := rapid.Bool().Draw(t, "compacted")
		err := c.CheckNoFillerKey(raw, compacted)
		if err != nil && !errors.Is(err, ErrFillerKey) {
			t.Fatal(err)
		}
		if want := (s.codec == CodecGzip || s.codec == CodecNone || compacted) && s.records[at].Key != nil && string(s.records[at].Key) == FillerKey; want != (err != nil) {
			t.Fatalf("refused %v, want %v", err, want)
		}
		got, ferr := c.Filler(raw)
		if ferr != nil || err == nil && got != FillerNone {
			t.Fatalf("passed, yet read as filler: %d, %v", got, ferr)
		}
	})
}
