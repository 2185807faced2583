package batch

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
)

// legacyMessage writes one message of magic 0 or 1.
func legacyMessage(magic int8, offset int64, attributes byte, timestamp int64, key, value []byte) []byte {
	body := []byte{byte(magic), attributes}
	if magic == 1 {
		body = binary.BigEndian.AppendUint64(body, uint64(timestamp))
	}
	body = kbin.AppendNullableBytes(body, key)
	body = kbin.AppendNullableBytes(body, value)
	out := binary.BigEndian.AppendUint64(nil, uint64(offset))
	out = binary.BigEndian.AppendUint32(out, uint32(len(body)+4))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
	return append(out, body...)
}

func TestLegacyRecords(t *testing.T) {
	c := newCoder(t)
	want := dense(100, 3)
	want[1].Key, want[2].Value = nil, nil
	for _, magic := range []int8{0, 1} {
		if magic == 0 {
			for i := range want {
				want[i].Timestamp = -1
			}
		}
		var plain []byte
		for _, r := range want {
			plain = append(plain, legacyMessage(magic, r.Offset, 0, r.Timestamp, r.Key, r.Value)...)
		}
		wantRecords(t, "plain", ourRecords(t, c, plain), want)
		fromKgo, _ := kgoDecode(t, plain, false)
		if len(fromKgo) != len(want) {
			t.Fatalf("kgo reads %d records", len(fromKgo))
		}

		for _, codec := range []Codec{CodecGzip, CodecSnappy, CodecLz4} {
			var inner []byte
			for _, r := range want {
				offset := r.Offset
				if magic == 1 {
					offset -= want[0].Offset
				}
				inner = append(inner, legacyMessage(magic, offset, 0, r.Timestamp, r.Key, r.Value)...)
			}
			wrapper := legacyMessage(magic, 102, byte(codec), 77, nil, kgoCompress(t, codec, inner))
			wantRecords(t, "compressed", ourRecords(t, c, wrapper), want)
			fresh, err := c.Reencode(nil, wrapper, ReencodeOptions{FromOffset: 100, PreviousTimestampMs: -1, MaxBatchBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := kgoDecode(t, fresh, false)
			wantRecords(t, "re-encoded", got, want)
			if b := Batch(fresh); b.Magic() != 2 || b.Codec() != codec || b.BaseOffset() != 100 || len(fresh) != prefixLen+int(b.Length()) {
				t.Errorf("magic %d, codec %d: became %+v", magic, codec, headerOf(b))
			}
		}
		want = dense(100, 3)
		want[1].Key, want[2].Value = nil, nil
	}
}

func TestLegacyAppendTimeIsTheWrappers(t *testing.T) {
	inner := legacyMessage(1, 0, 0, 5, []byte("k"), []byte("v"))
	wrapper := legacyMessage(1, 9, byte(CodecGzip)|attrLogAppendTime, 1234, nil, kgoCompress(t, CodecGzip, inner))
	wantRecords(t, "append time", ourRecords(t, newCoder(t), wrapper), []rec{{Offset: 9, Timestamp: 1234, Key: []byte("k"), Value: []byte("v")}})
}

func TestLegacyRefuses(t *testing.T) {
	c := newCoder(t)
	inner := func(messages ...[]byte) []byte {
		var set []byte
		for _, m := range messages {
			set = append(set, m...)
		}
		return legacyMessage(1, 9, byte(CodecGzip), 5, nil, kgoCompress(t, CodecGzip, set))
	}
	one := legacyMessage(1, 0, 0, 5, nil, nil)
	damaged := append([]byte(nil), one...)
	damaged[len(damaged)-1] ^= 1
	for name, raw := range map[string][]byte{
		"CRC":              damaged,
		"inner CRC":        inner(damaged),
		"cut inner":        inner(one, one[:20]),
		"none inner":       inner(),
		"same offset":      inner(one, one),
		"nested":           inner(inner(one)),
		"other magic":      inner(legacyMessage(0, 0, 0, 5, nil, nil)),
		"end elsewhere":    legacyMessage(0, 9, byte(CodecGzip), 5, nil, kgoCompress(t, CodecGzip, legacyMessage(0, 8, 0, 5, nil, nil))),
		"zstd":             legacyMessage(1, 9, byte(CodecZstd), 5, nil, []byte("x")),
		"null, compressed": legacyMessage(1, 9, byte(CodecGzip), 5, nil, nil),
	} {
		if err := c.Records(raw, func(*Record) error { return nil }); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
