package batch

// Kind says what has to happen to a source batch before a stock broker can be
// given it by Produce.
type Kind uint8

const (
	// KindPassthrough: SetProducer is enough (ClearTransactional too when
	// Class.Transactional), once CheckDeltas has agreed.
	KindPassthrough Kind = iota
	// KindReencode: must go through Coder.Reencode. It is of magic 0 or 1, which Produce v3 and later refuses; or has
	// LogAppendTime, of which a CreateTime topic would fall back to the producer's timestamps, which consumers of the
	// source never saw; or compaction removed records, and LogValidator wants count == lastOffsetDelta+1.
	KindReencode
	// KindControl: a marker; a stock broker refuses it from a client, so it
	// becomes filler.
	KindControl
	// KindEmpty: the cleaner removed every record; its offsets are a hole.
	KindEmpty
	// KindInvalid: the header contradicts itself; Validate says how.
	KindInvalid
)

// Class is the verdict of Classify.
type Class struct {
	Kind          Kind
	Transactional bool // of KindPassthrough and KindReencode
}

// Classify tells from the header alone how a batch that Next or Each returned
// can be written to a stock broker. It does not check the CRC and allocates
// nothing.
func Classify(b Batch) Class {
	if b.Magic() < 2 {
		return Class{Kind: KindReencode}
	}
	class := Class{Transactional: b.Transactional()}
	switch {
	case !headerValid(b):
		return Class{Kind: KindInvalid}
	case b.Control():
		return Class{Kind: KindControl}
	case b.Count() == 0:
		return Class{Kind: KindEmpty}
	case b.LogAppendTime(), int64(b.Count()) != int64(b.LastOffsetDelta())+1:
		class.Kind = KindReencode
	}
	return class
}

func headerValid(b Batch) bool { return validateHeader(b) == nil }

// CheckDeltas checks that the offset deltas of an uncompressed magic 2 batch
// are 0..count-1 and that its records fill it exactly: a stock broker stores
// whatever is there. A compressed batch is left to the broker, which does
// check (UNKNOWN_SERVER_ERROR); Coder.CheckDeltas looks into it. The error
// wraps ErrCorrupt; without one nothing is allocated.
func CheckDeltas(b Batch) error {
	if err := validateHeader(b); err != nil {
		return err
	}
	if b.Codec() != CodecNone {
		return nil
	}
	return checkDeltas(b, b.payload())
}

func checkDeltas(b Batch, records []byte) error {
	count := b.Count()
	for want := int32(0); want < count; want++ {
		body, n := splitRecord(records)
		if n == 0 {
			return corrupt(b, "record %d of %d is cut", want, count)
		}
		records = records[n:]
		n = varlongLen(body[1:]) // behind the record's attributes: timestamp delta
		if n <= 0 {
			return corrupt(b, "record %d of %d: timestamp delta", want, count)
		}
		if delta, m := varint(body[1+n:]); m <= 0 || delta != want {
			return corrupt(b, "record %d of %d has offset delta %d", want, count, delta)
		}
	}
	if len(records) != 0 {
		return corrupt(b, "%d bytes behind the last of %d records", len(records), count)
	}
	return nil
}
