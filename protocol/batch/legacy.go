package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Positions in a message of magic 0 or 1 (LegacyRecord): offset, size, CRC-32,
// magic, attributes, in magic 1 the timestamp, then key and value, each behind
// its length of 4 bytes.
const (
	posLegacyCRC        = 12
	posLegacyAttributes = 17
	posLegacyTimestamp  = 18
	// legacyMinLen is the size of a magic 0 message, null key, null value.
	legacyMinLen = 26
)

// walkLegacy calls fn with the records of a magic 0 or 1 message. A compressed
// message holds a message set; in magic 1 its inner offsets are relative and
// the outer offset is that of the last (KIP-31).
func (c *Coder) walkLegacy(b Batch, fn func(*Record) error) error {
	outer, codec, appendTime, err := readLegacy(b)
	if err != nil {
		return err
	}
	if codec == CodecNone {
		return fn(&outer)
	}
	if outer.Value == nil || codec > CodecLz4 {
		return corrupt(b, "magic %d with codec %d", b.Magic(), codec)
	}
	if codec == CodecLz4 && b.Magic() == 0 {
		outer.Value = mendLz4(outer.Value)
	}
	plain, err := c.decompress(c.plain, codec, outer.Value, c.limitBytes)
	if err != nil {
		return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	c.plain = plain

	shift, err := legacyShift(b, plain)
	if err != nil {
		return err
	}
	last := int64(-1)
	rest, err := Each(plain, func(m Batch) error {
		inner, codec, _, err := readLegacy(m)
		if err != nil {
			return err
		}
		inner.Offset += shift
		if m.Magic() != b.Magic() || codec != CodecNone || inner.Offset <= last || inner.Offset > b.BaseOffset() {
			return corrupt(b, "inner message at offset %d of magic %d, codec %d", inner.Offset, m.Magic(), codec)
		}
		last = inner.Offset
		if appendTime {
			inner.Timestamp = outer.Timestamp
		}
		return fn(&inner)
	})
	if err != nil {
		return err
	}
	if len(rest) != 0 || last != b.BaseOffset() {
		return corrupt(b, "inner messages end at offset %d with %d bytes left", last, len(rest))
	}
	return nil
}

// legacyShift is what to add to the inner offsets of a compressed message.
func legacyShift(b Batch, set []byte) (int64, error) {
	if b.Magic() == 0 {
		return 0, nil
	}
	last := int64(-1)
	if _, err := Each(set, func(m Batch) error { last = m.BaseOffset(); return nil }); err != nil {
		return 0, err
	}
	if last < 0 || last > math.MaxInt32 {
		return 0, corrupt(b, "last inner offset %d", last)
	}
	return b.BaseOffset() - last, nil
}

// readLegacy reads the fields of one whole message and checks its CRC.
func readLegacy(b Batch) (r Record, codec Codec, appendTime bool, err error) {
	if len(b) < legacyMinLen || b.Magic() > 1 {
		return r, 0, false, fmt.Errorf("%w: %d bytes are no old message", ErrCorrupt, len(b))
	}
	if got, want := crc32.ChecksumIEEE(b[posMagic:]), binary.BigEndian.Uint32(b[posLegacyCRC:]); got != want {
		return r, 0, false, corrupt(b, "CRC-32 %08x, computed %08x", want, got)
	}
	attributes := b[posLegacyAttributes]
	r.Offset, r.Timestamp = b.BaseOffset(), -1
	in := []byte(b[posLegacyTimestamp:])
	if b.Magic() == 1 {
		r.Timestamp = int64(binary.BigEndian.Uint64(in))
		in = in[8:]
		appendTime = attributes&attrLogAppendTime != 0
	}
	var keyOK, valueOK bool
	if r.Key, in, keyOK = readLegacyBytes(in); keyOK {
		r.Value, in, valueOK = readLegacyBytes(in)
	}
	if !valueOK || len(in) != 0 {
		return r, 0, false, corrupt(b, "message cannot be read")
	}
	return r, Codec(attributes & attrCodecMask), appendTime, nil
}

func readLegacyBytes(in []byte) (value, rest []byte, ok bool) {
	if len(in) < 4 {
		return nil, nil, false
	}
	length := int32(binary.BigEndian.Uint32(in))
	in = in[4:]
	if length == -1 {
		return nil, in, true
	}
	if length < 0 || int64(length) > int64(len(in)) {
		return nil, nil, false
	}
	return in[:length:length], in[length:], true
}
