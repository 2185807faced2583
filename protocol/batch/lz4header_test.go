package batch

import (
	"bytes"
	"testing"

	"github.com/pierrec/lz4/v4"
)

// TestLz4OfMagic0 reads LZ4 frames whose header checksum covers the magic number, too, as producers of magic 0 wrote them,
// and right ones; in magic 1 a wrong one is damage.
func TestLz4OfMagic0(t *testing.T) {
	c := newCoder(t)
	want := []rec{{Offset: 7, Timestamp: -1, Key: []byte("k"), Value: bytes.Repeat([]byte("value"), 50)}}
	inner := legacyMessage(0, 7, 0, 0, want[0].Key, want[0].Value)
	for _, size := range []uint64{0, uint64(len(inner))} { // a frame without the size of its content, and one with it
		var frame bytes.Buffer
		w := lz4.NewWriter(&frame)
		if err := w.Apply(lz4.SizeOption(size)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(inner); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		checksumAt := posLz4Size
		if size > 0 {
			checksumAt += lz4SizeLen
		}
		right := bytes.Clone(frame.Bytes())
		wrong := bytes.Clone(right)
		wrong[checksumAt] = byte(xxh32Short(wrong[:checksumAt]) >> 8)
		if wrong[checksumAt] == right[checksumAt] {
			t.Fatal("both checksums are the same")
		}
		for _, content := range [][]byte{right, wrong} {
			kept := bytes.Clone(content)
			wantRecords(t, "magic 0", ourRecords(t, c, legacyMessage(0, 7, byte(CodecLz4), 0, nil, content)), want)
			if !bytes.Equal(content, kept) {
				t.Error("the batch was changed")
			}
		}
		damaged := legacyMessage(1, 7, byte(CodecLz4), 0, nil, wrong)
		if err := c.Records(damaged, func(*Record) error { return nil }); err == nil {
			t.Error("magic 1 with a wrong header checksum was read")
		}
	}
	for length := range 16 { // no frame at all
		garbage := bytes.Repeat([]byte{0xff}, length)
		if err := c.Records(legacyMessage(0, 7, byte(CodecLz4), 0, nil, garbage), func(*Record) error { return nil }); err == nil {
			t.Errorf("%d bytes of garbage were read", length)
		}
	}
}
