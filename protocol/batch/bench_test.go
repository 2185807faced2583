package batch

import (
	"hash/crc32"
	"testing"
)

// sized is a batch of about 64 KiB of records of 256 bytes.
func sized(b *testing.B, codec Codec, holes bool) Batch {
	b.Helper()
	s := spec{codec: codec, producerID: 7}
	data := mixed(240 * 256)
	for i := range int64(240) {
		offset := i
		if holes {
			offset = i * 2
		}
		s.records = append(s.records, rec{Offset: offset, Timestamp: 1_700_000_000_000 + i, Key: []byte("key of 16 bytes."), Value: data[i*240 : (i+1)*240]})
	}
	return s.encode(b)
}

func BenchmarkSetProducer(b *testing.B) {
	raw := sized(b, CodecNone, false)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		SetProducer(raw, ourID, 0, int32(i))
	}
}

// BenchmarkRecomputeCRC is what SetProducer spares.
func BenchmarkRecomputeCRC(b *testing.B) {
	raw := sized(b, CodecNone, false)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		crc32.Checksum(raw[posAttributes:], castagnoli)
	}
}

// BenchmarkFastPath is all that happens to a 64 KiB batch on the fast path.
func BenchmarkFastPath(b *testing.B) {
	for name, codec := range map[string]Codec{"none": CodecNone, "zstd": CodecZstd, "lz4": CodecLz4} {
		b.Run(name, func(b *testing.B) {
			raw := sized(b, codec, false)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if Classify(raw).Kind != KindPassthrough || CheckDeltas(raw) != nil {
					b.Fatal("not a batch for the fast path")
				}
				SetProducer(raw, ourID, 0, int32(i))
			}
		})
	}
}

func BenchmarkCheckNoFillerKeyGzip(b *testing.B) {
	raw := sized(b, CodecGzip, false)
	c := newCoder(b)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.CheckNoFillerKey(raw, false); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReencode rewrites a 64 KiB batch record by record; MB/s of input.
func BenchmarkReencode(b *testing.B) {
	for name, codec := range map[string]Codec{"none": CodecNone, "gzip": CodecGzip, "snappy": CodecSnappy, "lz4": CodecLz4, "zstd": CodecZstd} {
		for holes, kind := range map[bool]string{false: "dense", true: "holes"} {
			b.Run(name+"/"+kind, func(b *testing.B) {
				raw := sized(b, codec, holes)
				c := newCoder(b)
				var out []byte
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if out, err = c.Reencode(out[:0], raw, options); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkRecords(b *testing.B) {
	for name, codec := range map[string]Codec{"none": CodecNone, "gzip": CodecGzip, "snappy": CodecSnappy, "lz4": CodecLz4, "zstd": CodecZstd} {
		b.Run(name, func(b *testing.B) {
			raw := sized(b, codec, false)
			c := newCoder(b)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Records(raw, func(*Record) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFillerAppend(b *testing.B) {
	m := newMaker(b)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if out, err = m.Append(out[:0], MaxFillerRecords, 0, ourID, 0, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHideFiller(b *testing.B) {
	for name, n := range map[string]int32{"1000": 1000, "100000": MaxFillerRecords} {
		b.Run(name, func(b *testing.B) {
			raw := filler(b, n, 0)
			c := newCoder(b)
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if out, _, err = c.AppendVisible(out[:0], raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
