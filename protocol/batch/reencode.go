package batch

import (
	"fmt"
)

// ReencodeOptions tells Reencode where its output is to stand.
type ReencodeOptions struct {
	// FromOffset is the next offset of the destination: records below it are
	// left out, so that a source batch can be resumed in its middle.
	FromOffset int64
	// PreviousTimestampMs is the timestamp of the record before FromOffset, -1
	// when there is none: filler that leads takes it, unless that record is
	// among the ones left out.
	PreviousTimestampMs int64
	// Discard says that the records of a batch become filler, as those of an
	// aborted transaction do; nil means none. It is asked once for each batch
	// that is no control batch, in order.
	Discard func(b Batch) bool
	// MaxBatchBytes is the size that no batch exceeds uncompressed (and so, by
	// a few bytes a 32 KiB, compressed) unless it has but one record; at most
	// MinLimitBytes.
	MaxBatchBytes int
}

// maxInnerHole is the widest hole that is filled within a batch. Wider ones
// are cheaper as filler of their own, which is hidden without decompressing.
const maxInnerHole = 1000

// Reencode reads consecutive source batches of any magic and codec and appends
// them anew as batches that a stock broker takes: magic 2, CreateTime, not
// transactional, no producer, dense. Every record keeps offset, key, value,
// headers and the timestamp consumers saw. Base offsets are the absolute
// source ones; Each walks the output.
//
// Control batches, batches to be discarded, and filler that a mirror wrote to
// the source become filler with the timestamps that they have, so that
// ListOffsets by time finds the same offset as on the source. Holes of up to
// 1000 offsets are filled with the timestamp of what is before them, to the
// same end. A batch with filler is gzip (Coder.Filler relies on it); others
// keep the codec of their first source batch. A wider hole, or one where a
// batch becomes full, is left as a gap between output batches, and offsets
// behind the last record are left out: both are for the caller to fill, or for
// the next call.
//
// The CRC of every batch is checked, since new ones would vouch for damage.
// Errors wrap ErrCorrupt, ErrTooLarge or ErrFillerKey (a record has the magic
// key); out is then returned as it was.
func (c *Coder) Reencode(out, batches []byte, opts ReencodeOptions) ([]byte, error) {
	if opts.MaxBatchBytes < HeaderLen || opts.MaxBatchBytes > MinLimitBytes {
		return out, fmt.Errorf("re-encode: batches of %d bytes: not within %d and %d", opts.MaxBatchBytes, HeaderLen, MinLimitBytes)
	}
	a := &c.open
	*a = assembly{
		out: out, records: a.records[:0], maxBytes: opts.MaxBatchBytes, from: opts.FromOffset,
		next: opts.FromOffset, lastTimestamp: opts.PreviousTimestampMs,
	}
	rest, err := Each(batches, func(b Batch) error {
		if err := a.startSource(b); err != nil {
			return err
		}
		if b.Magic() == 2 && b.Control() {
			return c.assembleControl(a, b)
		}
		discard := opts.Discard != nil && opts.Discard(b)
		filled := mayCarryFiller(b) && OfMirror(b)
		return c.Records(b, func(r *Record) error {
			switch {
			case r.Offset < opts.FromOffset:
				a.lastTimestamp = r.Timestamp
				return nil
			case discard, filled && r.IsFiller():
				return c.assemble(a, &Record{Offset: r.Offset, Timestamp: r.Timestamp, Key: []byte(FillerKey)})
			}
			if err := refuseFillerKey(r); err != nil {
				return err
			}
			return c.assemble(a, r)
		})
	})
	if err == nil && len(rest) != 0 {
		err = fmt.Errorf("%w: cut after %d of %d bytes", ErrCorrupt, len(batches)-len(rest), len(batches))
	}
	if err == nil {
		err = c.closeBatch(a)
	}
	fresh := a.out
	a.out = nil
	if err != nil {
		return out, fmt.Errorf("re-encode: %w", err)
	}
	return fresh, nil
}

// assembly is the state of one Reencode: finished batches, and the open one.
type assembly struct {
	out      []byte
	maxBytes int
	from     int64 // what is below is left out

	next          int64 // offset behind the last record or filler
	lastTimestamp int64 // of the last record or filler
	codec         Codec // of the source batch at hand
	leaderEpoch   int32

	records []byte // of the open batch
	filled  bool   // it carries filler
	h       header // its count is 0 when none is open
}

// startSource checks the next source batch and notes what output takes of it.
func (a *assembly) startSource(b Batch) error {
	if b.Magic() < 2 { // its CRC is checked where it is read
		a.codec, a.leaderEpoch = Codec(b[posLegacyAttributes]&attrCodecMask), -1
		return nil
	}
	if err := Validate(b); err != nil {
		return err
	}
	a.codec, a.leaderEpoch = b.Codec(), b.LeaderEpoch()
	return nil
}

// recordOverhead bounds the bytes of a record beyond key, value and headers;
// fillerBytes those of a filler record.
const (
	recordOverhead = 40
	fillerBytes    = recordOverhead + len(FillerKey)
)

// assembleControl adds filler for a control batch: a marker of a transaction, or what a proxy shows of filler, which may
// stand for many offsets.
func (c *Coder) assembleControl(a *assembly, b Batch) error {
	from := max(b.BaseOffset(), a.from)
	if b.LastOffset()-from >= maxInnerHole {
		return nil // a hole like others
	}
	for offset := from; offset <= b.LastOffset(); offset++ {
		if err := c.assemble(a, &Record{Offset: offset, Timestamp: b.MaxTimestamp(), Key: []byte(FillerKey)}); err != nil {
			return err
		}
	}
	return nil
}

// assemble adds a record, or filler, and the filler before it.
func (c *Coder) assemble(a *assembly, r *Record) error {
	hole := r.Offset - a.next
	if hole < 0 {
		return fmt.Errorf("%w: record at offset %d, expected %d or more", ErrCorrupt, r.Offset, a.next)
	}
	size := recordOverhead + len(r.Key) + len(r.Value) + len(r.headers)
	fits := func() bool {
		return hole <= maxInnerHole && HeaderLen+len(a.records)+size+int(hole)*fillerBytes <= a.maxBytes
	}
	if a.h.count > 0 && (!fits() || a.codecOfOpen() != a.codec) {
		if err := c.closeBatch(a); err != nil {
			return err
		}
	}
	if a.h.count == 0 {
		if !fits() {
			a.next, hole = r.Offset, 0
		}
		a.h = header{
			baseOffset: a.next, leaderEpoch: a.leaderEpoch, attributes: int16(a.codec),
			baseTimestamp: r.Timestamp, maxTimestamp: r.Timestamp,
			producerID: NoProducerID, producerEpoch: -1, baseSequence: -1,
		}
	}
	if hole > 0 {
		a.records = appendFiller(a.records, a.h.count, int32(hole), a.lastTimestamp-a.h.baseTimestamp)
		a.h.maxTimestamp = max(a.h.maxTimestamp, a.lastTimestamp)
		a.h.count += int32(hole)
		a.filled = true
	}
	a.filled = a.filled || r.IsFiller()
	a.records = appendRecord(a.records, r, r.Timestamp-a.h.baseTimestamp, a.h.count)
	a.h.maxTimestamp = max(a.h.maxTimestamp, r.Timestamp)
	a.h.count++
	a.next, a.lastTimestamp = r.Offset+1, r.Timestamp
	return nil
}

// closeBatch finishes the open batch, if there is one.
func (c *Coder) closeBatch(a *assembly) (err error) {
	if a.h.count == 0 {
		return nil
	}
	start := len(a.out)
	a.out = append(a.out, make([]byte, HeaderLen)...)
	if a.filled {
		a.h.attributes = int16(CodecGzip)
	}
	if a.out, err = c.compress(a.out, a.codecOfOpen(), a.records); err != nil {
		return fmt.Errorf("batch at offset %d: %w", a.h.baseOffset, err)
	}
	a.h.lastOffsetDelta = a.h.count - 1
	putHeader(a.out[start:], a.h)
	a.records, a.filled, a.h = a.records[:0], false, header{}
	return nil
}

func (a *assembly) codecOfOpen() Codec { return Codec(a.h.attributes) }
