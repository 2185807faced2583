package batch

import (
	"bytes"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"pgregory.net/rapid"
)

func TestRecordsAgreeWithKgo(t *testing.T) {
	c := newCoder(t)
	rapid.Check(t, func(t *rapid.T) {
		s := spec{
			codec: rapid.SampledFrom(codecs).Draw(t, "codec"), base: rapid.Int64Range(0, 1<<40).Draw(t, "base"),
			attributes: rapid.SampledFrom([]int16{0, attrLogAppendTime, attrDeleteHorizon, attrTransactional}).Draw(t, "attributes"),
		}
		s.records = recordsFrom(s.base, 50).Draw(t, "records")
		s.last = s.base + rapid.Int64Range(0, 3000).Draw(t, "last")
		raw := s.encode(t)
		got := ourRecords(t, c, raw)
		fromKgo, _ := kgoDecode(t, raw, false)
		wantRecords(t, "ours and kgo's", got, fromKgo)
		want := s.records
		if s.attributes == attrLogAppendTime {
			for i := range want {
				want[i].Timestamp = Batch(raw).MaxTimestamp()
			}
		}
		wantRecords(t, "ours and the ones written", got, want)
	})
}

func TestAppendRecordIsWhatKmsgWrites(t *testing.T) {
	c := newCoder(t)
	rapid.Check(t, func(t *rapid.T) {
		s := spec{records: recordsFrom(0, 50).Draw(t, "records")}
		raw := Batch(s.encode(t))
		var again []byte
		if err := c.Records(raw, func(r *Record) error {
			again = appendRecord(again, r, r.Timestamp-raw.BaseTimestamp(), int32(r.Offset))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, raw.payload()) {
			t.Fatalf("got\n%x, want\n%x", again, []byte(raw.payload()))
		}
	})
}

func TestRecordsOfAnUncompressedBatchAliasIt(t *testing.T) {
	raw := spec{records: dense(0, 2)}.encode(t)
	c := newCoder(t)
	r := func() (value []byte) {
		if err := c.Records(raw, func(r *Record) error { value = r.Value; return nil }); err != nil {
			t.Fatal(err)
		}
		return value
	}
	r()[0] = 'X'
	if got := r(); got[0] != 'X' {
		t.Errorf("value %q is a copy", got)
	}
	if n := testing.AllocsPerRun(100, func() {
		_ = c.Records(raw, func(r *Record) error {
			for range r.Headers() {
			}
			return nil
		})
	}); n > 1 { // the one Record, whatever the number of records
		t.Errorf("%v allocations", n)
	}
}

// rawRecord writes a record body with its true length.
func rawRecord(body ...[]byte) []byte {
	joined := bytes.Join(body, nil)
	return append(kbin.AppendVarint(nil, int32(len(joined))), joined...)
}

func TestRecordsRefusesWhatIsNotARecord(t *testing.T) {
	varint := func(v int32) []byte { return kbin.AppendVarint(nil, v) }
	head := []byte{0, 0, 0} // attributes, timestamp delta, offset delta
	null := varint(-1)
	c := newCoder(t)
	check := func(payload []byte) error {
		raw := append(make([]byte, HeaderLen), payload...)
		putHeader(raw, header{count: 1, lastOffsetDelta: 3})
		return c.Records(raw, func(r *Record) error {
			for range r.Headers() {
			}
			return nil
		})
	}
	if err := check(rawRecord(head, null, null, varint(1), varint(0), null)); err != nil {
		t.Fatalf("a header with an empty key and null value: %v", err)
	}
	for name, payload := range map[string][]byte{
		"length beyond the batch":  append(varint(1<<30), make([]byte, 20)...),
		"negative length":          append(varint(-7), make([]byte, 20)...),
		"endless length":           bytes.Repeat([]byte{0xff}, 20),
		"endless timestamp":        rawRecord([]byte{0}, bytes.Repeat([]byte{0xff}, 20)),
		"endless offset":           rawRecord([]byte{0, 0}, bytes.Repeat([]byte{0xff}, 20)),
		"offset behind the last":   rawRecord([]byte{0, 0}, varint(4), null, null, varint(0)),
		"negative offset":          rawRecord([]byte{0, 0}, varint(-1), null, null, varint(0)),
		"key beyond the record":    rawRecord(head, varint(100), null, varint(0)),
		"key of length -2":         rawRecord(head, varint(-2), null, varint(0)),
		"value beyond the record":  rawRecord(head, null, varint(100), varint(0)),
		"negative header count":    rawRecord(head, null, null, varint(-1)),
		"headers without end":      rawRecord(head, null, null, varint(1<<30)),
		"more headers than bytes":  rawRecord(head, null, null, varint(2), varint(0), null),
		"null header key":          rawRecord(head, null, null, varint(1), null, null),
		"header value of -2":       rawRecord(head, null, null, varint(1), varint(0), varint(-2)),
		"bytes behind the headers": rawRecord(head, null, null, varint(0), []byte{0}),
		"bytes behind the record":  append(rawRecord(head, null, null, varint(0)), 0),
	} {
		if err := check(payload); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
