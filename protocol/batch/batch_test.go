package batch

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

func TestGettersAgreeWithKmsg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := spec{
			codec: rapid.SampledFrom(codecs).Draw(t, "codec"), attributes: rapid.Int16Range(0, 15).Draw(t, "bits") << 3,
			base: rapid.Int64Range(0, 1<<60).Draw(t, "base"), epoch: rapid.Int32().Draw(t, "epoch"), producerID: rapid.Int64Range(-1, 1<<62).Draw(t, "producer"),
		}
		s.records = recordsFrom(s.base, 50).Draw(t, "records")
		raw := s.encode(t)
		var want kmsg.RecordBatch
		if err := want.ReadFrom(raw); err != nil {
			t.Fatal(err)
		}
		b := Batch(raw)
		got := kmsg.RecordBatch{
			FirstOffset: b.BaseOffset(), Length: b.Length(), PartitionLeaderEpoch: b.LeaderEpoch(), Magic: b.Magic(), CRC: int32(b.CRC()),
			Attributes: b.Attributes(), LastOffsetDelta: b.LastOffsetDelta(), FirstTimestamp: b.BaseTimestamp(), MaxTimestamp: b.MaxTimestamp(),
			ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), FirstSequence: b.BaseSequence(), NumRecords: b.Count(), Records: b.payload(),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-kmsg +view:\n%s", diff)
		}
		bits := []bool{b.LogAppendTime(), b.Transactional(), b.Control(), b.DeleteHorizon()}
		for i, bit := range bits {
			if bit != (s.attributes>>(3+i)&1 == 1) {
				t.Fatalf("attribute bit %d of %#x is %v", 3+i, s.attributes, bit)
			}
		}
		if b.Codec() != s.codec {
			t.Fatalf("codec %d", b.Codec())
		}
		if err := Validate(raw); err != nil {
			t.Fatal(err)
		}
	})
}

func TestEachSplitsAtEveryCut(t *testing.T) {
	var blob []byte
	var ends []int
	for _, s := range []spec{
		{base: 10, records: dense(10, 3)}, {base: 13, records: dense(13, 1), codec: CodecZstd}, {base: 14, last: 19}, {base: 20, records: dense(20, 5)},
	} {
		blob = append(blob, s.encode(t)...)
		ends = append(ends, len(blob))
	}
	for cut := 0; cut <= len(blob); cut++ {
		whole, end := 0, 0
		for _, e := range ends {
			if e <= cut {
				whole, end = whole+1, e
			}
		}
		n := 0
		rest, err := Each(blob[:cut], func(b Batch) error { n++; return Validate(b) })
		if err != nil || n != whole || len(rest) != cut-end {
			t.Fatalf("cut at %d: %d batches, %d left, %v; want %d and %d", cut, n, len(rest), err, whole, cut-end)
		}
	}
}

func TestEachStopsAtTheBatchAtFault(t *testing.T) {
	good := spec{base: 5, records: dense(5, 1)}.encode(t)
	for name, damage := range map[string]func([]byte){
		"negative length":      func(b []byte) { binary.BigEndian.PutUint32(b[posLength:], 1<<31) },
		"short length":         func(b []byte) { binary.BigEndian.PutUint32(b[posLength:], 13) },
		"short for magic 2":    func(b []byte) { binary.BigEndian.PutUint32(b[posLength:], 48) },
		"magic of the future":  func(b []byte) { b[posMagic] = 3 },
		"magic below all else": func(b []byte) { b[posMagic] = 0xff },
	} {
		bad := append([]byte(nil), good...)
		damage(bad)
		n := 0
		rest, err := Each(append(append([]byte(nil), good...), bad...), func(Batch) error { n++; return nil })
		if !errors.Is(err, ErrCorrupt) || n != 1 || len(rest) != len(bad) {
			t.Errorf("%s: %d batches, %d left, %v", name, n, len(rest), err)
		}
	}
	huge := append([]byte(nil), good...)
	binary.BigEndian.PutUint32(huge[posLength:], 1<<31-1)
	if rest, err := Each(huge, func(Batch) error { t.Fatal("a batch of 2 GiB in 100 bytes"); return nil }); err != nil || len(rest) != len(huge) {
		t.Errorf("a length beyond the blob is a cut batch, got %d left, %v", len(rest), err)
	}
	stop := errors.New("stop")
	if rest, err := Each(good, func(Batch) error { return stop }); err != stop || len(rest) != len(good) {
		t.Errorf("fn's error: %d left, %v", len(rest), err)
	}
}

func TestValidateRefuses(t *testing.T) {
	good := spec{base: 5, records: dense(5, 3)}.encode(t)
	put32 := func(pos int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint32(b[pos:], v); return b }
	}
	for name, damage := range map[string]func([]byte) []byte{
		"nothing":     func([]byte) []byte { return nil },
		"cut":         func(b []byte) []byte { return b[:len(b)-1] },
		"a byte more": func(b []byte) []byte { return append(b, 0) },
		"old magic":   func(b []byte) []byte { b[posMagic] = 1; return b },
		"records of no bytes": func(b []byte) []byte {
			b = b[:HeaderLen]
			binary.BigEndian.PutUint32(b[posLength:], HeaderLen-prefixLen)
			setAttributes(b, int16(CodecZstd))
			return b
		},
		"codec 5":                  func(b []byte) []byte { setAttributes(b, 5); return b },
		"negative base offset":     func(b []byte) []byte { SetBaseOffset(b, -1); return b },
		"offset overflow":          func(b []byte) []byte { SetBaseOffset(b, 1<<63-2); return b },
		"negative delta":           put32(posLastOffsetDelta, 1<<31),
		"more records than deltas": put32(posCount, 4),
		"negative count":           put32(posCount, 1<<31),
		"damaged CRC":              put32(posCRC, 1),
		"damaged record":           func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"more records than bytes": func(b []byte) []byte {
			binary.BigEndian.PutUint32(b[posLastOffsetDelta:], 1<<31-1)
			binary.BigEndian.PutUint32(b[posCount:], 1<<31-1)
			return b
		},
	} {
		bad := damage(append([]byte(nil), good...))
		if err := Validate(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.HasPrefix(name, "damaged") && len(bad) >= HeaderLen { // not by the CRC alone
			putCRC(bad, recompute(bad))
			if err := Validate(bad); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, with a right CRC: %v", name, err)
			}
		}
	}
	if err := Validate(spec{base: 5, last: 9}.encode(t)); err != nil {
		t.Errorf("an empty batch is valid: %v", err)
	}
}

func TestEachAllocatesNothing(t *testing.T) {
	blob := append(spec{base: 5, records: dense(5, 3)}.encode(t), spec{base: 8, records: dense(8, 3)}.encode(t)...)
	var sum int64
	if n := testing.AllocsPerRun(100, func() {
		_, _ = Each(blob, func(b Batch) error { sum += b.BaseOffset(); return Validate(b) })
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
