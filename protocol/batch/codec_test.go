package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// mixed is n bytes, half of them random.
func mixed(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	out := make([]byte, n)
	for i := range out {
		if i/100%2 == 0 {
			out[i] = byte(r.Uint32())
		}
	}
	return out
}

func TestCompressIsReadByKgoAndUs(t *testing.T) {
	c := newCoder(t)
	for _, codec := range codecs[1:] {
		for _, n := range []int{1, 100, 32 << 10, 32<<10 + 1, 300_000} {
			plain := mixed(n)
			packed, err := c.compress([]byte("before"), codec, plain)
			if err != nil || !bytes.HasPrefix(packed, []byte("before")) {
				t.Fatalf("codec %d: %v", codec, err)
			}
			packed = packed[len("before"):]
			fromKgo, err := kgo.DefaultDecompressor().Decompress(packed, kgo.CompressionCodecType(codec))
			if err != nil || !bytes.Equal(fromKgo, plain) {
				t.Errorf("codec %d, %d bytes: kgo reads %d, %v", codec, n, len(fromKgo), err)
			}
			ours, err := c.decompress(nil, codec, packed, n)
			if err != nil || !bytes.Equal(ours, plain) {
				t.Errorf("codec %d, %d bytes: we read %d, %v", codec, n, len(ours), err)
			}
		}
	}
}

func TestDecompressStopsAtTheLimit(t *testing.T) {
	c := newCoder(t)
	bomb := make([]byte, 3<<20)
	bombs := map[string]struct {
		codec  Codec
		packed []byte
	}{"xerial": {CodecSnappy, xerial(bomb, 32<<10)}}
	for _, codec := range codecs[1:] {
		bombs[fmt.Sprint("codec ", codec)] = struct {
			codec  Codec
			packed []byte
		}{codec, kgoCompress(t, codec, bomb)}
	}
	for name, tc := range bombs {
		codec, packed := tc.codec, tc.packed
		if _, err := c.decompress(nil, codec, packed, len(bomb)); err != nil {
			t.Errorf("%s: exactly the limit: %v", name, err)
		}
		for _, limit := range []int{len(bomb) - 1, 100 << 10, 1} {
			if _, err := c.decompress(nil, codec, packed, limit); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: limit %d: %v", name, limit, err)
			}
		}
		// A limit met must not spoil the next batch.
		if _, err := c.decompress(nil, codec, kgoCompress(t, codec, []byte("small")), 5); err != nil {
			t.Errorf("%s: after a bomb: %v", name, err)
		}
	}
}

func TestRecordsNamesTheBatchThatIsTooLarge(t *testing.T) {
	c := newCoder(t)
	big := spec{base: 321, codec: CodecZstd, records: []rec{{Offset: 321, Value: make([]byte, 9<<20)}}}.encode(t)
	err := c.Records(big, func(*Record) error { t.Error("called"); return nil })
	if !errors.Is(err, ErrTooLarge) || errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if want := "batch at offset 321: "; !bytes.HasPrefix([]byte(err.Error()), []byte(want)) || !bytes.Contains([]byte(err.Error()), []byte("8388608 bytes")) {
		t.Errorf("the error does not tell: %v", err)
	}
}

func TestDecompressReadsWhatOthersWrite(t *testing.T) {
	c := newCoder(t)
	plain := mixed(100_000)
	for name, tc := range map[string]struct {
		codec  Codec
		packed []byte
	}{
		"one bare snappy block (librdkafka)": {CodecSnappy, s2.EncodeSnappy(nil, plain)},
		"xerial blocks (Java)":               {CodecSnappy, xerial(plain, 40_000)},
		"two gzip members":                   {CodecGzip, append(kgoCompress(t, CodecGzip, plain[:7]), kgoCompress(t, CodecGzip, plain[7:])...)},
		"lz4 with checksums and length":      {CodecLz4, lz4With(t, plain, lz4.BlockSizeOption(lz4.Block4Mb), lz4.ChecksumOption(true), lz4.BlockChecksumOption(true), lz4.SizeOption(100_000))},
		"zstd stream, window of level 22":    {CodecZstd, zstdStream(t, plain, 128<<20)},
	} {
		if got, err := c.decompress(nil, tc.codec, tc.packed, len(plain)); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// xerial frames snappy blocks as snappy-java does.
func xerial(plain []byte, blockBytes int) []byte {
	out := []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}
	for part := range slices.Chunk(plain, blockBytes) {
		block := s2.EncodeSnappy(nil, part)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...)
	}
	return out
}

func TestXerialIsWhatJavaWrites(t *testing.T) {
	plain := mixed(100_000)
	if got, err := newCoder(t).compress(nil, CodecSnappy, plain); err != nil || !bytes.Equal(got, xerial(plain, 32<<10)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func lz4With(t *testing.T, plain []byte, options ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := errors.Join(w.Apply(options...)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zstdStream compresses without telling the size, as zstd-jni's stream does.
func zstdStream(t *testing.T, plain []byte, windowBytes int) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithWindowSize(windowBytes), zstd.WithSingleSegment(false), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range [][]byte{plain[:len(plain)/2], plain[len(plain)/2:]} {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var h zstd.Header
	if err := h.Decode(out.Bytes()); err != nil || h.HasFCS || int(h.WindowSize) != windowBytes {
		t.Fatalf("not the frame this test is about: %+v %v", h, err)
	}
	return out.Bytes()
}

func TestDecompressRefusesDamage(t *testing.T) {
	c := newCoder(t)
	plain := mixed(5000)
	for _, codec := range codecs[1:] {
		packed := kgoCompress(t, codec, plain)
		for name, bad := range map[string][]byte{
			"cut": packed[:len(packed)-9], "nothing": nil, "noise": bytes.Repeat([]byte{0xee}, 50), "cut in the header": packed[:3],
		} {
			if got, err := c.decompress(nil, codec, bad, 1<<20); err == nil && !bytes.Equal(got, nil) || err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
				t.Errorf("codec %d, %s: %d bytes, %v", codec, name, len(got), err)
			}
		}
	}
}

func TestNewCoderWantsRoomForFiller(t *testing.T) {
	if _, err := NewCoder(CoderConfig{LimitBytes: MinLimitBytes - 1}); err == nil {
		t.Error("a limit below that of filler was taken")
	}
}

// TestZstdThatDoesNotSayItsSize: a Java producer compresses as it goes, so that its frames have no content size; they must
// be read however much they grow.
func TestZstdThatDoesNotSayItsSize(t *testing.T) {
	var frame bytes.Buffer
	encoder, err := zstd.NewWriter(&frame, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, 64 << 10, 64<<10 + 1, 100_000, 131_072, 131_073, 300_000, 1 << 20, 3 << 20, 5 << 20} {
		for name, value := range map[string]func(i int) byte{
			"the same":   func(int) byte { return 'x' },
			"words":      func(i int) byte { return "some words that come again and again, "[i*7%38] },
			"few values": func(i int) byte { return byte(i * i / 3 % 4) },
		} {
			want := make([]byte, size)
			for i := range want {
				want[i] = value(i)
			}
			frame.Reset()
			encoder.Reset(&frame)
			for at := 0; at < size; at += 16 << 10 { // as a producer's buffer is filled
				if _, err := encoder.Write(want[at:min(at+16<<10, size)]); err != nil {
					t.Fatal(err)
				}
			}
			if err := encoder.Close(); err != nil {
				t.Fatal(err)
			}
			var header zstd.Header
			if err := header.Decode(frame.Bytes()); err != nil || header.HasFCS && size >= 1<<20 {
				t.Fatalf("the frame says its size: %v", err)
			}
			limitBytes := MinLimitBytes
			got, err := newCoder(t).decompress(nil, CodecZstd, frame.Bytes(), limitBytes)
			if size > limitBytes {
				if !errors.Is(err, ErrTooLarge) {
					t.Errorf("%s, %d bytes, limit %d: %v", name, size, limitBytes, err)
				}
			} else if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes, %d compressed: %d bytes, %v", name, size, frame.Len(), len(got), err)
			}
		}
	}
}
