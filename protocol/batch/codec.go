package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// ErrTooLarge is wrapped by errors about a batch that decompresses to more
// than the limit.
var ErrTooLarge = errors.New("decompresses to more than the limit")

// CoderConfig sets up a Coder.
type CoderConfig struct {
	// LimitBytes is the most that the records of one batch may decompress to;
	// at least MinLimitBytes.
	LimitBytes int
}

// MinLimitBytes is the least limit of a Coder: no batch that carries filler
// decompresses to more.
const MinLimitBytes = 4 << 20

// Coder looks into compressed batches, re-encodes and strips them. It owns the
// (de)compressors and their buffers, at most a small multiple of LimitBytes,
// for reuse: one goroutine at a time. Nothing needs to be closed.
type Coder struct {
	limitBytes int

	plain  []byte // decompressed records of the batch at hand
	source bytes.Reader
	gunzip gzip.Reader
	unlz4  *lz4.Reader
	unzstd *zstd.Decoder

	sink   bytes.Buffer
	gzip   *gzip.Writer
	lz4    *lz4.Writer
	zstd   *zstd.Encoder
	open   assembly // state of Reencode
	strips []byte   // records that strip keeps
}

// NewCoder returns a Coder that decompresses no batch beyond its limit.
func NewCoder(cfg CoderConfig) (*Coder, error) {
	if cfg.LimitBytes < MinLimitBytes {
		return nil, fmt.Errorf("batch coder: limit of %d bytes is below %d", cfg.LimitBytes, MinLimitBytes)
	}
	c := &Coder{limitBytes: cfg.LimitBytes, unlz4: lz4.NewReader(nil), gzip: gzip.NewWriter(nil), lz4: lz4.NewWriter(nil)}
	var err error
	// The output is bounded by the capacity it is given, so that the other
	// bound can let a large window be declared over little data.
	if c.unzstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(uint64(max(cfg.LimitBytes, zstdWindowBytes)))); err != nil {
		return nil, fmt.Errorf("batch coder: zstd: %w", err)
	}
	if c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)); err != nil {
		return nil, fmt.Errorf("batch coder: zstd: %w", err)
	}
	// Java's KafkaLZ4BlockOutputStream writes independent 64 KiB blocks
	// without checksums behind them; so do we.
	if err := c.lz4.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.ConcurrencyOption(1)); err != nil {
		return nil, fmt.Errorf("batch coder: lz4: %w", err)
	}
	if err := c.unlz4.Apply(lz4.ConcurrencyOption(1)); err != nil {
		return nil, fmt.Errorf("batch coder: lz4: %w", err)
	}
	return c, nil
}

// Records calls fn with every record of a batch of any magic and codec, in
// order, offsets ascending. The Record is reused; what it points to is b
// itself, or, when compressed, good until the next call on c. A batch that
// cannot be read gives an error that wraps ErrCorrupt, one that is too large
// when decompressed ErrTooLarge; fn may have been called by then. The CRC is
// Validate's to check.
func (c *Coder) Records(b Batch, fn func(*Record) error) error {
	if len(b) > posMagic && b.Magic() < 2 {
		return c.walkLegacy(b, fn)
	}
	records, err := c.records(b, c.limitBytes)
	if err != nil {
		return err
	}
	return walk(b, records, fn)
}

// CheckDeltas is the package's CheckDeltas for batches of every codec.
func (c *Coder) CheckDeltas(b Batch) error {
	records, err := c.records(b, c.limitBytes)
	if err != nil {
		return err
	}
	return checkDeltas(b, records)
}

// records returns the decompressed records of a magic 2 batch.
func (c *Coder) records(b Batch, limitBytes int) ([]byte, error) {
	if err := validateHeader(b); err != nil {
		return nil, err
	}
	if b.Codec() == CodecNone || b.Count() == 0 {
		return b.payload(), nil
	}
	plain, err := c.decompress(c.plain, b.Codec(), b.payload(), limitBytes)
	if err != nil {
		return nil, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	c.plain = plain
	return plain, nil
}

// decompress decodes in into buf's memory, grown up to limitBytes. Errors wrap
// ErrCorrupt or ErrTooLarge.
func (c *Coder) decompress(buf []byte, codec Codec, in []byte, limitBytes int) (out []byte, err error) {
	c.source.Reset(in)
	switch codec {
	case CodecGzip:
		if err = c.gunzip.Reset(&c.source); err == nil {
			out, err = readBounded(buf[:0], &c.gunzip, limitBytes)
		}
	case CodecLz4:
		c.unlz4.Reset(&c.source)
		out, err = readBounded(buf[:0], c.unlz4, limitBytes)
	case CodecSnappy:
		out, err = decodeSnappy(buf[:0], in, limitBytes)
	case CodecZstd:
		out, err = c.decodeZstd(buf[:0], in, limitBytes)
	default:
		err = fmt.Errorf("unknown codec %d", codec)
	}
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, ErrTooLarge):
		return nil, fmt.Errorf("codec %d, %d bytes: %w of %d bytes", codec, len(in), ErrTooLarge, limitBytes)
	default:
		return nil, fmt.Errorf("%w: codec %d: %w", ErrCorrupt, codec, err)
	}
}

// zstdWindowBytes is the window of zstd level 22, the highest that
// compression.zstd.level of Kafka allows (KIP-390). A stream declares it
// whatever its length; decoding a whole batch at once needs no memory for it.
const zstdWindowBytes = 128 << 20

// decodeZstd decodes into out, retrying with more room until the limit.
func (c *Coder) decodeZstd(out, in []byte, limitBytes int) ([]byte, error) {
	for size := max(cap(out), 8*len(in), 64<<10); ; size *= 4 {
		size = min(size, limitBytes)
		if cap(out) < size {
			out = make([]byte, 0, size)
		}
		got, err := c.unzstd.DecodeAll(in, out[:0:size])
		if !noRoom(err) {
			return got, err
		}
		if size == limitBytes {
			return nil, ErrTooLarge
		}
	}
}

// noRoom says that a zstd frame decodes to more than its output has room for. Of one that does not say its size, as Java
// producers write them, the decoder tells so by a text alone.
func noRoom(err error) bool {
	return errors.Is(err, zstd.ErrDecoderSizeExceeded) || err != nil && strings.HasPrefix(err.Error(), "output bigger than")
}

// readBounded appends all of r to out, which grows to limitBytes at most.
func readBounded(out []byte, r io.Reader, limitBytes int) ([]byte, error) {
	for {
		if len(out) == cap(out) {
			if len(out) > limitBytes {
				return nil, ErrTooLarge
			}
			out = slices.Grow(out, min(max(len(out), 4<<10), limitBytes+1-len(out)))
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if len(out) > limitBytes {
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// snappy-java's framing, which Java clients write: a magic, version 1 and least
// compatible version 1, then blocks, each behind its big endian length.
var (
	xerialMagic  = []byte("\x82SNAPPY\x00")
	xerialHeader = []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
)

const xerialBlockBytes = 32 << 10

// decodeSnappy reads xerial framing, or the one bare block of librdkafka and
// others.
func decodeSnappy(out, in []byte, limitBytes int) ([]byte, error) {
	if !bytes.HasPrefix(in, xerialMagic) || len(in) < len(xerialHeader) {
		return decodeSnappyBlock(out, in, limitBytes)
	}
	var err error
	for in = in[len(xerialHeader):]; len(in) > 0; {
		if len(in) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		size := binary.BigEndian.Uint32(in)
		if in = in[4:]; uint64(size) > uint64(len(in)) {
			return nil, io.ErrUnexpectedEOF
		}
		if out, err = decodeSnappyBlock(out, in[:size], limitBytes); err != nil {
			return nil, err
		}
		in = in[size:]
	}
	return out, nil
}

// decodeSnappyBlock appends a decoded block to out.
func decodeSnappyBlock(out, block []byte, limitBytes int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > limitBytes-len(out) {
		return nil, ErrTooLarge
	}
	out = slices.Grow(out, n)
	// Decode writes in place when the length it is given has room.
	if _, err := s2.Decode(out[len(out):len(out)+n], block); err != nil {
		return nil, err
	}
	return out[:len(out)+n], nil
}

// compress appends the compressed form of in to out, in framing that Java and
// librdkafka read.
func (c *Coder) compress(out []byte, codec Codec, in []byte) ([]byte, error) {
	switch codec {
	case CodecNone:
		return append(out, in...), nil
	case CodecGzip:
		c.sink.Reset()
		c.gzip.Reset(&c.sink)
		if _, err := c.gzip.Write(in); err != nil {
			return nil, fmt.Errorf("compress with gzip: %w", err)
		}
		if err := c.gzip.Close(); err != nil {
			return nil, fmt.Errorf("compress with gzip: %w", err)
		}
		return append(out, c.sink.Bytes()...), nil
	case CodecLz4:
		c.sink.Reset()
		c.lz4.Reset(&c.sink)
		if _, err := c.lz4.Write(in); err != nil {
			return nil, fmt.Errorf("compress with lz4: %w", err)
		}
		if err := c.lz4.Close(); err != nil {
			return nil, fmt.Errorf("compress with lz4: %w", err)
		}
		return append(out, c.sink.Bytes()...), nil
	case CodecSnappy:
		out = append(out, xerialHeader...)
		for len(in) > 0 {
			n := min(len(in), xerialBlockBytes)
			at := len(out) + 4
			out = slices.Grow(out, 4+s2.MaxEncodedLen(n))
			block := s2.EncodeSnappy(out[at:cap(out)], in[:n])
			out = binary.BigEndian.AppendUint32(out, uint32(len(block)))
			out = out[:at+len(block)]
			in = in[n:]
		}
		return out, nil
	case CodecZstd:
		return c.zstd.EncodeAll(in, out), nil
	default:
		return nil, fmt.Errorf("compress: unknown codec %d", codec)
	}
}
