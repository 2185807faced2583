package batch

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"pgregory.net/rapid"
)

// The short cuts answer as kbin does, for whatever bytes.
func TestVarintsAreKbins(t *testing.T) {
	check := func(in []byte) bool {
		want, wantN := kbin.Varint(in)
		got, n := varint(in)
		_, longN := kbin.Varlong(in)
		return got == want && n == wantN && varlongLen(in) == longN
	}
	for a := range 256 {
		for b := range 256 {
			for _, in := range [][]byte{{byte(a)}, {byte(a), byte(b)}, {byte(a), byte(b), 0x80}, {byte(a), byte(b), 0x01}} {
				if !check(in) {
					t.Errorf("%x", in)
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "in")
		if !check(in) {
			t.Fatalf("%x", in)
		}
		if in = kbin.AppendVarint(nil, rapid.Int32().Draw(t, "n")); !check(in) {
			t.Fatalf("%x", in)
		}
	})
	if varlongLen(nil) > 0 {
		t.Error("a varlong of no bytes")
	}
}
