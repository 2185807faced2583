// Package batch views, checks, patches and re-encodes Kafka record batches as
// bytes. It knows no connection, clock or log. The layout is that of
// org.apache.kafka.common.record.DefaultRecordBatch (magic 2, KIP-98); what
// remains of magic 0 and 1 is read in legacy.go and never written.
package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// Positions of the header fields of a magic 2 batch. All integers are big
// endian. The CRC-32C covers everything from the attributes on, so base offset
// and leader epoch may be rewritten freely.
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posCount           = 57

	// HeaderLen is the size in bytes of a magic 2 batch without records.
	HeaderLen = 61
	// prefixLen is what the length field does not count: base offset and itself.
	prefixLen = 12
)

// Attribute bits of a magic 2 batch.
const (
	attrCodecMask     = 0x0007
	attrLogAppendTime = 0x0008
	attrTransactional = 0x0010
	attrControl       = 0x0020
	attrDeleteHorizon = 0x0040
)

// NoProducerID is the producer id of a batch without idempotence.
const NoProducerID = -1

// ErrCorrupt is wrapped by every error that says that bytes are not a batch.
var ErrCorrupt = errors.New("corrupt batch")

// Codec is the compression of a batch, by the number on the wire.
type Codec int8

const (
	CodecNone   Codec = 0
	CodecGzip   Codec = 1
	CodecSnappy Codec = 2
	CodecLz4    Codec = 3
	CodecZstd   Codec = 4
)

// Batch is a view of one whole batch as it travels: every getter reads the
// bytes beneath. Only batches from Next, Each, or that passed Validate may be
// asked; for magic 0 and 1 only BaseOffset, Length and Magic have a meaning
// (and BaseOffset is then the offset of the last record).
type Batch []byte

func (b Batch) i16(pos int) int16 { return int16(binary.BigEndian.Uint16(b[pos:])) }
func (b Batch) i32(pos int) int32 { return int32(binary.BigEndian.Uint32(b[pos:])) }
func (b Batch) i64(pos int) int64 { return int64(binary.BigEndian.Uint64(b[pos:])) }

// BaseOffset is the offset of the first record the batch was written with.
func (b Batch) BaseOffset() int64 { return b.i64(posBaseOffset) }

// Length is the length field: bytes that follow it.
func (b Batch) Length() int32 { return b.i32(posLength) }

// LeaderEpoch is the epoch of the leader that appended the batch, -1 unknown.
func (b Batch) LeaderEpoch() int32 { return b.i32(posLeaderEpoch) }

// Magic is the version of the format: 0, 1 or 2.
func (b Batch) Magic() int8 { return int8(b[posMagic]) }

// CRC is the stored CRC-32C.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// Attributes are the 16 attribute bits.
func (b Batch) Attributes() int16 { return b.i16(posAttributes) }

// LastOffsetDelta is the last offset minus the base offset; compaction keeps
// it when it removes the last record.
func (b Batch) LastOffsetDelta() int32 { return b.i32(posLastOffsetDelta) }

// LastOffset is the last offset that the batch stands for.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// BaseTimestamp is what the records' timestamp deltas are added to, in ms.
func (b Batch) BaseTimestamp() int64 { return b.i64(posBaseTimestamp) }

// MaxTimestamp is the largest record timestamp, or with LogAppendTime the
// timestamp of every record, in ms.
func (b Batch) MaxTimestamp() int64 { return b.i64(posMaxTimestamp) }

// ProducerID is the id of the idempotent producer, NoProducerID for none.
func (b Batch) ProducerID() int64 { return b.i64(posProducerID) }

// ProducerEpoch is the epoch of the producer.
func (b Batch) ProducerEpoch() int16 { return b.i16(posProducerEpoch) }

// BaseSequence is the sequence number of the first record.
func (b Batch) BaseSequence() int32 { return b.i32(posBaseSequence) }

// Count is the number of records.
func (b Batch) Count() int32 { return b.i32(posCount) }

// Codec is the compression of the records.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodecMask) }

// LogAppendTime says that the broker's append time stands for every record.
func (b Batch) LogAppendTime() bool { return b.Attributes()&attrLogAppendTime != 0 }

// Transactional says that the batch belongs to a transaction.
func (b Batch) Transactional() bool { return b.Attributes()&attrTransactional != 0 }

// Control says that the record is a marker and not data.
func (b Batch) Control() bool { return b.Attributes()&attrControl != 0 }

// DeleteHorizon says that the base timestamp is the cleaner's delete horizon
// (KIP-534); record timestamps are base plus delta all the same.
func (b Batch) DeleteHorizon() bool { return b.Attributes()&attrDeleteHorizon != 0 }

func (b Batch) payload() []byte { return b[HeaderLen:] }

// Next splits the first batch off a record set as Fetch answers it. When blob
// is empty or ends before the batch does (a broker cuts at the fetch size) it
// returns a nil batch, rest = blob and no error. The error wraps ErrCorrupt
// when the length or the magic cannot be those of a batch. Both results alias
// blob.
func Next(blob []byte) (b Batch, rest []byte, err error) {
	if len(blob) < prefixLen {
		return nil, blob, nil
	}
	length := Batch(blob).Length()
	if length < legacyMinLen-prefixLen {
		return nil, blob, fmt.Errorf("%w at offset %d: length %d", ErrCorrupt, Batch(blob).BaseOffset(), length)
	}
	if len(blob) <= posMagic {
		return nil, blob, nil
	}
	if magic := Batch(blob).Magic(); magic < 0 || magic > 2 || magic == 2 && length < HeaderLen-prefixLen {
		return nil, blob, fmt.Errorf("%w at offset %d: magic %d with length %d", ErrCorrupt, Batch(blob).BaseOffset(), magic, length)
	}
	if int64(len(blob)) < prefixLen+int64(length) {
		return nil, blob, nil
	}
	n := prefixLen + int(length)
	return Batch(blob[:n:n]), blob[n:], nil
}

// Each calls fn with every whole batch of a record set, in order, and returns
// the trailing bytes of a batch that was cut by the fetch size. It stops at
// the first error, fn's or one that wraps ErrCorrupt; rest then begins with
// the batch at fault. Nothing is allocated and every view aliases blob.
func Each(blob []byte, fn func(Batch) error) (rest []byte, err error) {
	for {
		b, after, err := Next(blob)
		if err != nil || b == nil {
			return blob, err
		}
		if err := fn(b); err != nil {
			return blob, err
		}
		blob = after
	}
}

// Validate checks one whole batch of magic 2: that header fields agree with
// each other and with the size, and the CRC-32C. Empty batches, as the cleaner
// keeps them for the producer's state, are valid. The error wraps ErrCorrupt.
func Validate(b []byte) error {
	if err := validateHeader(b); err != nil {
		return err
	}
	if got, want := crc32.Checksum(b[posAttributes:], castagnoli), Batch(b).CRC(); got != want {
		return corrupt(b, "CRC-32C %08x, computed %08x", want, got)
	}
	return nil
}

// validateHeader is Validate without the CRC.
func validateHeader(b Batch) error {
	if len(b) < HeaderLen {
		return fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	switch last, count := b.LastOffsetDelta(), b.Count(); {
	case b.Magic() != 2:
		return corrupt(b, "magic %d", b.Magic())
	case int64(b.Length()) != int64(len(b))-prefixLen:
		return corrupt(b, "length %d in %d bytes", b.Length(), len(b))
	case b.Codec() > CodecZstd:
		return corrupt(b, "codec %d", b.Codec())
	case b.BaseOffset() < 0 || last < 0 || b.BaseOffset() > math.MaxInt64-int64(last)-1:
		return corrupt(b, "last offset delta %d", last)
	case count < 0 || int64(count) > int64(last)+1:
		return corrupt(b, "%d records within last offset delta %d", count, last)
	case b.Codec() == CodecNone && int64(count)*minRecordLen > int64(len(b)-HeaderLen):
		return corrupt(b, "%d records in %d bytes", count, len(b)-HeaderLen)
	case count > 0 && len(b) == HeaderLen:
		return corrupt(b, "%d records in no bytes", count)
	}
	return nil
}

// corrupt is the error for a batch with at least a base offset.
func corrupt(b Batch, format string, args ...any) error {
	return fmt.Errorf("%w at offset %d: %s", ErrCorrupt, b.BaseOffset(), fmt.Sprintf(format, args...))
}
