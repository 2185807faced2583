package batch

import (
	"errors"
	"testing"
)

func TestClassify(t *testing.T) {
	withHole := dense(10, 4)[:3]
	withHole[2].Offset = 13
	old := legacyMessage(1, 10, 0, 5, []byte("k"), []byte("v"))
	wrongMagic := spec{base: 10, records: dense(10, 4)}.encode(t)
	setAttributes(wrongMagic, 6)
	for _, tc := range []struct {
		name string
		raw  []byte
		want Class
	}{
		{"dense", spec{base: 10, records: dense(10, 4)}.encode(t), Class{}},
		{"dense, compressed", spec{base: 10, codec: CodecZstd, records: dense(10, 4)}.encode(t), Class{}},
		{"delete horizon", spec{base: 10, attributes: attrDeleteHorizon, records: dense(10, 4)}.encode(t), Class{}},
		{"unused bits", spec{base: 10, attributes: -1 << 7, records: dense(10, 4)}.encode(t), Class{}},
		{"transactional", spec{base: 10, attributes: attrTransactional, records: dense(10, 4)}.encode(t), Class{Transactional: true}},
		{"inner hole", spec{base: 10, records: withHole}.encode(t), Class{Kind: KindReencode}},
		{"leading hole", spec{base: 9, records: dense(10, 4)}.encode(t), Class{Kind: KindReencode}},
		{"trailing hole", spec{base: 10, last: 14, records: dense(10, 4)}.encode(t), Class{Kind: KindReencode}},
		{"append time", spec{base: 10, attributes: attrLogAppendTime, records: dense(10, 4)}.encode(t), Class{Kind: KindReencode}},
		{
			"transactional with holes", spec{base: 10, attributes: attrTransactional, records: withHole}.encode(t),
			Class{Kind: KindReencode, Transactional: true},
		},
		{"marker", spec{base: 10, attributes: attrControl | attrTransactional, records: dense(10, 1)}.encode(t), Class{Kind: KindControl}},
		{"empty", spec{base: 10, last: 13}.encode(t), Class{Kind: KindEmpty}},
		{"old", old, Class{Kind: KindReencode}},
		{"codec 6", wrongMagic, Class{Kind: KindInvalid}},
	} {
		if got := Classify(tc.raw); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestCheckDeltas: what a stock broker stores unchecked when uncompressed.
func TestCheckDeltas(t *testing.T) {
	offsets := func(base int64, deltas ...int64) []rec {
		out := dense(base, len(deltas))
		for i := range out {
			out[i].Offset = base + deltas[i]
		}
		return out
	}
	c := newCoder(t)
	for _, codec := range codecs {
		for _, tc := range []struct {
			deltas []int64
			ok     bool
		}{
			{[]int64{0, 1, 2}, true},
			{[]int64{0, 5, 10}, false},
			{[]int64{0, 0, 0}, false},
			{[]int64{0, 2, 1}, false},
			{[]int64{1, 2, 3}, false},
			{[]int64{-1, 0, 1}, false},
		} {
			raw := spec{base: 40, codec: codec, last: 50, records: offsets(40, tc.deltas...)}.encode(t)
			if err := c.CheckDeltas(raw); (err == nil) != tc.ok || !tc.ok && !errors.Is(err, ErrCorrupt) {
				t.Errorf("codec %d, %v: Coder.CheckDeltas %v", codec, tc.deltas, err)
			}
			if err := CheckDeltas(raw); (err == nil) != (tc.ok || codec != CodecNone) {
				t.Errorf("codec %d, %v: CheckDeltas %v", codec, tc.deltas, err)
			}
		}
	}
}

func TestCheckDeltasCountsRecordsAndBytes(t *testing.T) {
	good := spec{base: 4, last: 6, records: dense(4, 3)}.encode(t)
	for name, damage := range map[string]func([]byte) []byte{
		"a record fewer": func(b []byte) []byte { b[posCount+3] = 2; return b },
		"cut":            func(b []byte) []byte { b[posLength+3]--; return b[:len(b)-1] },
		"bytes behind":   func(b []byte) []byte { b[posLength+3] += 3; return append(b, 0, 0, 0) },
		"record length":  func(b []byte) []byte { b[HeaderLen] = 0; return b },
	} {
		if err := CheckDeltas(damage(append([]byte(nil), good...))); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChecksAllocateNothing(t *testing.T) {
	b := Batch(spec{base: 7, records: dense(7, 50)}.encode(t))
	if n := testing.AllocsPerRun(100, func() {
		if class := Classify(b); class.Kind != KindPassthrough {
			t.Fatal(class)
		}
		if err := CheckDeltas(b); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
