package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/golang-lru/v2"
	"github.com/klauspost/compress/gzip"
)

// FillerKey is the key of every filler record: 16 bytes that say what they are
// to whoever reads around the proxy, and that are neither UTF-8 nor any schema
// registry's prefix, so that no user's key is equal by chance.
const FillerKey = "\xf1kmproxy-filler\x00"

// MaxFillerRecords is the most records of one filler batch: about 180 KB with
// gzip and 2.5 MB without. More cost a broker heap, not bytes.
const MaxFillerRecords = 100_000

// ErrFillerKey is wrapped by errors about a record of the source that has the
// key of filler: it could not be told from filler, so it cannot be mirrored.
var ErrFillerKey = errors.New("record has the reserved key of filler")

// FillerMaker makes batches that take up offsets and hold no data: magic key,
// null value, gzip. Their compressed records depend on their number alone and
// are kept for the numbers used last. Safe for concurrent use.
type FillerMaker struct {
	payloads *lru.Cache[int32, []byte]
}

// FillerMakerConfig sets up a FillerMaker.
type FillerMakerConfig struct {
	// Cached is how many sizes are remembered, at least 1, each with at most
	// about 180 KB.
	Cached int
}

// NewFillerMaker returns a FillerMaker.
func NewFillerMaker(cfg FillerMakerConfig) (*FillerMaker, error) {
	payloads, err := lru.New[int32, []byte](cfg.Cached)
	if err != nil {
		return nil, fmt.Errorf("filler maker: %w", err)
	}
	return &FillerMaker{payloads: payloads}, nil
}

// Append appends a batch of n filler records, all with one timestamp in ms (-1
// is none), ready for Produce: base offset 0, leader epoch -1. n is 1 to
// MaxFillerRecords. Gzip needs about 1.8 bytes a record; no codec that gets
// below 1 will do, as sarama takes a batch of more records than bytes for a
// partial one and fetches it for ever.
func (m *FillerMaker) Append(out []byte, n int32, timestampMs, producerID int64, epoch int16, baseSequence int32) ([]byte, error) {
	if n < 1 || n > MaxFillerRecords {
		return out, fmt.Errorf("filler batch of %d records: not within 1 and %d", n, MaxFillerRecords)
	}
	payload, ok := m.payloads.Get(n)
	if !ok {
		c := Coder{gzip: gzip.NewWriter(nil)} // its own, so that no lock is held while compressing
		var err error
		if payload, err = c.compress(nil, CodecGzip, appendFiller(nil, 0, n, 0)); err != nil {
			return out, fmt.Errorf("filler batch of %d records: %w", n, err)
		}
		m.payloads.Add(n, bytes.Clone(payload)) // without the slack of append
	}
	start := len(out)
	out = append(out, make([]byte, HeaderLen)...)
	out = append(out, payload...)
	b := Batch(out[start:])
	putHeader(b, header{
		leaderEpoch: -1, attributes: int16(CodecGzip), lastOffsetDelta: n - 1, baseTimestamp: timestampMs, maxTimestamp: timestampMs,
		producerID: producerID, producerEpoch: epoch, baseSequence: baseSequence, count: n,
	})
	return out, nil
}

// appendFiller appends n filler records from an offset delta on.
func appendFiller(records []byte, offsetDelta, n int32, timestampDelta int64) []byte {
	r := Record{Key: []byte(FillerKey)}
	for i := range n {
		records = appendRecord(records, &r, timestampDelta, offsetDelta+i)
	}
	return records
}

// IsFiller says that a record has the form of filler. It is filler in a batch of a mirror only.
func (r *Record) IsFiller() bool {
	return r.Value == nil && r.headerCount == 0 && string(r.Key) == FillerKey
}

// Filler says how much of a batch is filler.
type Filler uint8

const (
	FillerNone Filler = iota // every record is data, or there are none
	FillerSome               // holes filled within a re-encoded batch
	FillerAll                // nothing but filler
)

// Filler looks for filler in a batch: records of a mirror's producer with the
// magic key, null value and no headers, looked for in every record. All that
// we write is gzip, the cleaner keeps a batch's codec, and none decompresses to
// more than MinLimitBytes, so that any other batch is known by its header. An
// error means that the batch cannot be read.
func (c *Coder) Filler(b Batch) (Filler, error) {
	if !mayCarryFiller(b) || !OfMirror(b) {
		return FillerNone, nil
	}
	records, err := c.records(b, MinLimitBytes)
	if errors.Is(err, ErrTooLarge) {
		return FillerNone, nil
	}
	if err != nil {
		return FillerNone, err
	}
	if !bytes.Contains(records, []byte(FillerKey)) {
		return FillerNone, nil
	}
	var fillers, count int
	if err := walk(b, records, func(r *Record) error {
		count++
		if r.IsFiller() {
			fillers++
		}
		return nil
	}); err != nil {
		return FillerNone, err
	}
	switch fillers {
	case 0:
		return FillerNone, nil
	case count:
		return FillerAll, nil
	default:
		return FillerSome, nil
	}
}

// IsFiller says that a batch holds nothing but filler.
func (c *Coder) IsFiller(b Batch) (bool, error) {
	f, err := c.Filler(b)
	return f == FillerAll, err
}

// CheckNoFillerKey checks that no record of a source batch which is to be passed
// through has the key of filler (ErrFillerKey). Batches of other codecs than gzip
// cannot be confused with filler afterwards; a compressed one of those is looked
// into only when compacted says that the cleaner goes over the topic, which would
// take filler for a newer version of that record.
func (c *Coder) CheckNoFillerKey(b Batch, compacted bool) error {
	records := b.payload()
	if b.Codec() != CodecNone {
		if !compacted && !mayCarryFiller(b) {
			return nil
		}
		limitBytes := MinLimitBytes
		if compacted {
			limitBytes = c.limitBytes
		}
		var err error
		if records, err = c.records(b, limitBytes); errors.Is(err, ErrTooLarge) && !compacted {
			return nil
		} else if err != nil {
			return err
		}
	}
	if !bytes.Contains(records, []byte(FillerKey)) {
		return nil
	}
	return walk(b, records, refuseFillerKey)
}

func refuseFillerKey(r *Record) error {
	if string(r.Key) == FillerKey {
		return fmt.Errorf("record at offset %d: %w", r.Offset, ErrFillerKey)
	}
	return nil
}

func mayCarryFiller(b Batch) bool {
	return len(b) >= HeaderLen && b.Magic() == 2 && b.Codec() == CodecGzip && !b.Control() && b.Count() > 0
}

// header is what putHeader writes before records that are in place.
type header struct {
	baseOffset      int64
	leaderEpoch     int32
	attributes      int16
	lastOffsetDelta int32
	baseTimestamp   int64
	maxTimestamp    int64
	producerID      int64
	producerEpoch   int16
	baseSequence    int32
	count           int32
}

// putHeader fills in the header of a whole new batch, its CRC last.
func putHeader(b Batch, h header) {
	put := binary.BigEndian
	put.PutUint64(b[posBaseOffset:], uint64(h.baseOffset))
	put.PutUint32(b[posLength:], uint32(len(b)-prefixLen))
	put.PutUint32(b[posLeaderEpoch:], uint32(h.leaderEpoch))
	b[posMagic] = 2
	put.PutUint16(b[posAttributes:], uint16(h.attributes))
	put.PutUint32(b[posLastOffsetDelta:], uint32(h.lastOffsetDelta))
	put.PutUint64(b[posBaseTimestamp:], uint64(h.baseTimestamp))
	put.PutUint64(b[posMaxTimestamp:], uint64(h.maxTimestamp))
	put.PutUint64(b[posProducerID:], uint64(h.producerID))
	put.PutUint16(b[posProducerEpoch:], uint16(h.producerEpoch))
	put.PutUint32(b[posBaseSequence:], uint32(h.baseSequence))
	put.PutUint32(b[posCount:], uint32(h.count))
	put.PutUint32(b[posCRC:], crc32.Checksum(b[posAttributes:], castagnoli))
}

// headerOf reads the header of a magic 2 batch.
func headerOf(b Batch) header {
	return header{
		baseOffset: b.BaseOffset(), leaderEpoch: b.LeaderEpoch(), attributes: b.Attributes(), lastOffsetDelta: b.LastOffsetDelta(),
		baseTimestamp: b.BaseTimestamp(), maxTimestamp: b.MaxTimestamp(),
		producerID: b.ProducerID(), producerEpoch: b.ProducerEpoch(), baseSequence: b.BaseSequence(), count: b.Count(),
	}
}
