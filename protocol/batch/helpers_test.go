package batch

import (
	"bytes"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"
)

// failer is what testing.TB and rapid.T have in common here.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// rec is a record by value; nil and empty differ.
type rec struct {
	Offset, Timestamp int64
	Key, Value        []byte
	Headers           []hdr
}

type hdr struct {
	Key   string
	Value []byte
}

// spec describes a batch for the independent encoder: kmsg and kgo.
type spec struct {
	codec      Codec
	attributes int16 // beyond the codec
	base       int64
	last       int64 // last offset, when behind that of the last record
	epoch      int32
	producerID int64
	records    []rec
}

func (s spec) encode(t failer) []byte {
	t.Helper()
	b := kmsg.RecordBatch{
		FirstOffset: s.base, PartitionLeaderEpoch: s.epoch, Magic: 2, Attributes: s.attributes | int16(s.codec),
		ProducerID: s.producerID, ProducerEpoch: 3, FirstSequence: 17, NumRecords: int32(len(s.records)),
	}
	if s.producerID < 0 {
		b.ProducerEpoch, b.FirstSequence = -1, -1
	}
	last := s.last
	if n := len(s.records); n > 0 {
		last = max(last, s.records[n-1].Offset)
		b.FirstTimestamp, b.MaxTimestamp = s.records[0].Timestamp, s.records[0].Timestamp
	}
	b.LastOffsetDelta = int32(last - s.base)
	var plain []byte
	for _, r := range s.records {
		b.MaxTimestamp = max(b.MaxTimestamp, r.Timestamp)
		k := kmsg.Record{TimestampDelta64: r.Timestamp - b.FirstTimestamp, OffsetDelta: int32(r.Offset - s.base), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			k.Headers = append(k.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
		}
		k.Length = int32(len(k.AppendTo(nil)) - 1)
		plain = k.AppendTo(plain)
	}
	b.Records = kgoCompress(t, s.codec, plain)
	return sealKmsg(b)
}

// sealKmsg sets length and CRC the kmsg way.
func sealKmsg(b kmsg.RecordBatch) []byte {
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

func kgoCompress(t failer, codec Codec, plain []byte) []byte {
	t.Helper()
	if codec == CodecNone {
		return plain
	}
	c, err := kgo.DefaultCompressor([]kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}[codec])
	if err != nil {
		t.Fatalf("kgo compressor: %v", err)
	}
	out, used := c.Compress(new(bytes.Buffer), plain)
	if Codec(used) != codec {
		t.Fatalf("kgo used codec %d instead of %d", used, codec)
	}
	return bytes.Clone(out)
}

// kgoDecode reads a record set as a franz-go consumer does; it returns the
// records and the offset it would fetch next.
func kgoDecode(t failer, blob []byte, control bool) ([]rec, int64) {
	t.Helper()
	fp, next := kgo.ProcessFetchPartition(
		kgo.ProcessFetchPartitionOpts{KeepControlRecords: control},
		&kmsg.FetchResponseTopicPartition{RecordBatches: blob}, kgo.DefaultDecompressor(), nil)
	if fp.Err != nil {
		t.Fatalf("kgo cannot read the batches: %v", fp.Err)
	}
	var out []rec
	for _, r := range fp.Records {
		one := rec{Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			one.Headers = append(one.Headers, hdr{h.Key, h.Value})
		}
		out = append(out, one)
	}
	return out, next
}

// ourRecords reads a record set with Coder.Records; every batch must be valid.
func ourRecords(t failer, c *Coder, blob []byte) []rec {
	t.Helper()
	var out []rec
	rest, err := Each(blob, func(b Batch) error {
		if b.Magic() == 2 {
			if err := Validate(b); err != nil {
				return err
			}
		}
		return c.Records(b, func(r *Record) error {
			out = append(out, toRec(r))
			return nil
		})
	})
	if err != nil || len(rest) != 0 {
		t.Fatalf("read batches: %v, %d bytes left", err, len(rest))
	}
	return out
}

func toRec(r *Record) rec {
	one := rec{Offset: r.Offset, Timestamp: r.Timestamp, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	for k, v := range r.Headers() {
		one.Headers = append(one.Headers, hdr{string(k), bytes.Clone(v)})
	}
	return one
}

func wantRecords(t failer, what string, got, want []rec) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s: records differ (-want +got):\n%s", what, diff)
	}
}

func newCoder(t testing.TB) *Coder {
	t.Helper()
	c, err := NewCoder(CoderConfig{LimitBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dense returns n plain records from an offset on.
func dense(base int64, n int) []rec {
	out := make([]rec, n)
	for i := range out {
		out[i] = rec{Offset: base + int64(i), Timestamp: 1_700_000_000_000 + int64(i), Key: []byte("key"), Value: kbin.AppendInt64([]byte("value "), int64(i))}
	}
	return out
}

var codecs = []Codec{CodecNone, CodecGzip, CodecSnappy, CodecLz4, CodecZstd}

var bytesOrNull = rapid.OneOf(rapid.Just([]byte(nil)), rapid.Just([]byte{}), rapid.SliceOfN(rapid.Byte(), 1, 60))

// recordsFrom draws records with ascending offsets, the first at base plus a
// hole of its own.
func recordsFrom(base int64, maxHole int64) *rapid.Generator[[]rec] {
	return rapid.Custom(func(t *rapid.T) []rec {
		out := make([]rec, rapid.IntRange(1, 40).Draw(t, "records"))
		next := base
		for i := range out {
			if rapid.IntRange(0, 3).Draw(t, "has hole") == 0 {
				next += rapid.Int64Range(0, maxHole).Draw(t, "hole")
			}
			out[i] = rec{
				Offset: next, Timestamp: rapid.Int64Range(-1, 2_000_000_000_000).Draw(t, "timestamp"),
				Key: bytesOrNull.Draw(t, "key"), Value: bytesOrNull.Draw(t, "value"),
			}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				out[i].Headers = append(out[i].Headers, hdr{rapid.StringN(0, 9, -1).Draw(t, "header key"), bytesOrNull.Draw(t, "header value")})
			}
			next++
		}
		return out
	})
}
