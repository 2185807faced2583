package batch

import "fmt"

// Hide returns what a client is given in place of a batch without data: the
// same header with one uncompressed COMMIT marker at the last offset, about 80
// bytes, which every client steps over in one go, in both isolation levels.
// Neither setting the control bit in place nor an empty batch does that: Java,
// librdkafka, kafkajs, sarama and aiokafka each trip over one of them. The
// marker is not transactional, so it ends nothing.
func Hide(b Batch) []byte {
	h := headerOf(b)
	return appendMarker(make([]byte, 0, HeaderLen+20), h)
}

// appendMarker appends a batch over the offsets of h that holds a marker.
func appendMarker(out []byte, h header) []byte {
	marker := Record{
		Key:   []byte{0, 0, 0, 1},       // version 0, type 1: COMMIT (ControlRecordType)
		Value: []byte{0, 0, 0, 0, 0, 0}, // version 0, coordinator epoch 0 (EndTransactionMarker)
	}
	start := len(out)
	out = append(out, make([]byte, HeaderLen)...)
	out = appendRecord(out, &marker, 0, h.lastOffsetDelta)
	h.attributes = h.attributes&attrLogAppendTime | attrControl
	h.count = 1
	putHeader(out[start:], h)
	return out
}

// AppendVisible appends what clients are to see of a batch that may carry
// filler. When nothing has to be hidden it appends nothing
// and hidden is false: the batch goes out as it is. Otherwise the data records
// are kept where they are, as compaction would have left them, and offsets
// behind the last one (or all, also of an empty batch) are covered as Hide
// does. Offsets of the batch stay covered without a gap.
func (c *Coder) AppendVisible(out []byte, b Batch) (visible []byte, hidden bool, err error) {
	if !needsLook(b) {
		return out, false, nil
	}
	if b.Count() == 0 {
		return appendMarker(out, headerOf(b)), true, nil
	}
	filler, err := c.Filler(b)
	if err != nil || filler == FillerNone {
		return out, false, err
	}
	if filler == FillerAll {
		return appendMarker(out, headerOf(b)), true, nil
	}
	visible, err = c.appendStripped(out, b)
	if err != nil {
		return out, false, fmt.Errorf("hide filler within the batch at offset %d: %w", b.BaseOffset(), err)
	}
	return visible, true, nil
}

// needsLook tells batches that may have to be hidden from all others by their header.
func needsLook(b Batch) bool {
	return len(b) >= HeaderLen && b.Magic() == 2 && OfMirror(b) && (b.Count() == 0 || mayCarryFiller(b))
}

// appendStripped appends b, whose records c.plain holds, without its filler.
func (c *Coder) appendStripped(out []byte, b Batch) ([]byte, error) {
	h := headerOf(b)
	kept := c.strips[:0]
	lastOffset := int64(0)
	h.count = 0
	if err := walk(b, c.plain, func(r *Record) error {
		if !r.IsFiller() {
			kept = append(kept, r.wire...)
			lastOffset = r.Offset
			h.count++
		}
		return nil
	}); err != nil {
		return out, err
	}
	c.strips = kept
	h.lastOffsetDelta = int32(lastOffset - b.BaseOffset())

	start := len(out)
	out, err := c.compress(append(out, make([]byte, HeaderLen)...), CodecGzip, kept)
	if err != nil {
		return out[:start], err
	}
	putHeader(out[start:], h)
	if tail := b.LastOffset() - lastOffset; tail > 0 {
		h.baseOffset, h.lastOffsetDelta = lastOffset+1, int32(tail-1)
		h.baseTimestamp = h.maxTimestamp
		out = appendMarker(out, h)
	}
	return out, nil
}
