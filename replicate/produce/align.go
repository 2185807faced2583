package produce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"kafka-mirror-proxy/protocol/batch"
)

// SourceLog is what Align has to know of the source partition.
type SourceLog struct {
	LogStart int64
	// HighWatermark: the source holds records up to here, in open transactions too.
	HighWatermark int64
	// Ask reads the high watermark again.
	Ask func(ctx context.Context) (int64, error)
	// Batches reads a few batches from an offset on, as batch.Each walks them.
	Batches func(ctx context.Context, offset int64) ([]byte, error)
	// EpochEnd asks where a leader epoch ends in the source's log, as OffsetForLeaderEpoch does: the largest epoch that is
	// not above it, and the offset behind that one's last record; -1 for both where the leader does not know. Not of Align.
	EpochEnd func(ctx context.Context, epoch int32) (known int32, endOffset int64, err error)
}

// Expectation is what the state knows of the partition.
type Expectation struct {
	// FillToOffset: until the filling of the offsets below it is over, the destination holds
	// nothing but filler; -1 when nothing is being filled.
	FillToOffset int64
	// HandedOverAt is the log end recorded when the topic was last handed to the users, and
	// which it must still have; -1 when that is not asked.
	HandedOverAt int64
	// CopiedOffset is how far the mirror is known to have written; -1 when that was never noted.
	CopiedOffset int64
	// SkippedTo: filler below it stands for records that the source had deleted; 0 for none.
	SkippedTo int64
}

// Start is where a partition goes on.
type Start struct {
	Position
	// NextOffset is the offset of the next record from the source.
	NextOffset int64
	// FillFrom: offsets from here to NextOffset are filler still to be written; -1 for none.
	FillFrom int64
	// Gap says that what is to be filled were the source's records, deleted there before they were copied: whether that may
	// be done is the caller's to decide.
	Gap bool
	// LastTimestampMs is the timestamp of the records before EndOffset, the largest of their batch; -1 where none are left.
	LastTimestampMs int64
	// GuardedUntilMs is until when (Unix milliseconds) the leader refuses what is out of sequence behind EndOffset, as long
	// as nothing is appended; 0 where it does not.
	GuardedUntilMs int64
	// LastEpoch is the source leader epoch of the record before EndOffset, where it was compared; -1 unknown.
	LastEpoch int32
}

// Align is the start algorithm of design.md section 6.1: it decides whether the mirror may
// write to a partition, and where. Nothing may be sent unless it agreed, and it must be asked
// again after any outcome that is not a plain success. Errors are Faults.
func (e *Engine) Align(ctx context.Context, target Target, source SourceLog, expect Expectation, notBefore time.Time) (Start, error) {
	p, err := e.Position(ctx, target, notBefore)
	if err != nil {
		return Start{}, err
	}
	start := Start{Position: p, NextOffset: p.EndOffset, FillFrom: -1, LastTimestampMs: -1, LastEpoch: -1}
	if fault := checkOwnEnd(target, &p, expect); fault != nil {
		return Start{}, fault
	}
	if start.GuardedUntilMs, err = e.guardedUntilMs(ctx, target, &p, e.cfg.Now().Add(-e.cfg.FactsAge)); err != nil {
		return Start{}, err
	}
	if p.EndOffset > source.HighWatermark {
		// An owner beside us may have copied what has come since the source was asked.
		if source.HighWatermark, err = source.Ask(ctx); err != nil {
			return Start{}, Because(Retry, err, "read where the source of %s ends", target)
		}
	}
	if end := p.EndOffset; end > source.HighWatermark {
		return Start{}, Faultf(Quarantined, "%s has diverged: the destination holds %d records from offset %d on that the source does not have (it ends at %d). "+
			"Compare both, then recreate the topic or remove it from the mirror", target, end-source.HighWatermark, source.HighWatermark, source.HighWatermark)
	}
	onlyFiller := expect.FillToOffset >= 0 || p.EndOffset == 0
	if onlyFiller {
		if p.EndOffset < source.LogStart {
			start.FillFrom, start.NextOffset = p.EndOffset, source.LogStart
		}
		return start, nil
	}
	if p.EndOffset < source.LogStart {
		start.Gap, start.FillFrom, start.NextOffset = true, p.EndOffset, source.LogStart
	}
	if p.EndOffset == p.LogStart { // everything was deleted: nothing left to compare
		if !p.InSequence() && p.EndOffset > expect.CopiedOffset && p.EndOffset != expect.HandedOverAt {
			return Start{}, Faultf(Quarantined, "%s holds no records and ends at offset %d, and nothing tells that the mirror wrote up to there (it is known to have written up to %d). "+
				"Recreate the topic to mirror it again", target, p.EndOffset, max(expect.CopiedOffset, 0))
		}
		return start, nil
	}
	start.LastEpoch, start.LastTimestampMs, err = e.compareTail(ctx, target, &p, source, &expect)
	return start, err
}

// checkOwnEnd tells from the broker's producer state whether somebody else wrote.
func checkOwnEnd(target Target, p *Position, expect Expectation) *Fault {
	if p.EndOffset < expect.HandedOverAt {
		return Faultf(Quarantined, "%s was handed over at offset %d and now ends at %d: the destination has lost records since, so mirroring cannot go on behind them. "+
			"Recreate the topic to mirror it again", target, expect.HandedOverAt, p.EndOffset)
	}
	onlyMarker := p.Fenced() && p.EndOffset == expect.HandedOverAt+1
	if expect.HandedOverAt >= 0 && p.EndOffset != expect.HandedOverAt && !onlyMarker {
		return Faultf(Quarantined, "%s was handed over at offset %d and now ends at %d: it has been written to since, so mirroring cannot go on behind it. "+
			"Recreate the topic to mirror it again", target, expect.HandedOverAt, p.EndOffset)
	}
	switch {
	case p.Fenced():
		return Faultf(Quarantined, "%s was handed over and closed to the mirror by a marker (log end %d); recreate the topic to mirror it again", target, p.EndOffset)
	case p.Producer == nil || p.InSequence():
		return nil
	}
	return Faultf(Quarantined, "%s ends at offset %d but the mirror's last record there has sequence %d instead of %d: something other than the mirror wrote to the topic. "+
		"Compare with the source, then recreate the topic or remove it from the mirror", target, p.EndOffset, p.Producer.LastSequence, batch.SequenceOf(p.EndOffset-1))
}

// compareTail reads the last batch of the destination: its header must say that the mirror
// wrote it where it stands, and its records, or the last ones before it, must be the source's, as far as the source still
// has them (a source that lost its tail and went on holds others). It returns the source leader
// epoch of the last one, -1 when that does not show, and the largest timestamp of the batch.
func (e *Engine) compareTail(ctx context.Context, target Target, p *Position, source SourceLog, expect *Expectation) (epoch int32, timestampMs int64, err error) {
	last, err := e.batchAt(ctx, target, p, p.EndOffset-1)
	if err != nil {
		return -1, -1, Because(Retry, err, "read the last batch of %s", target)
	}
	if last == nil {
		return -1, -1, Faultf(Retry, "read the last batch of %s: nothing at offset %d", target, p.EndOffset-1)
	}
	switch base := last.BaseOffset(); {
	case last.ProducerID() != target.ProducerID() || last.ProducerEpoch() != 0 || last.Control():
		return -1, -1, Faultf(Quarantined, "the batch of offsets %d to %d of %s was not written by the mirror. Compare with the source, then recreate the topic or remove it from the mirror",
			base, last.LastOffset(), target)
	case last.BaseSequence() != batch.SequenceOf(base):
		return -1, -1, Faultf(Quarantined, "the batch at offset %d of %s belongs to source offset %d (modulo 2^31): something other than the mirror wrote to the topic. Compare with the source, then recreate the topic or remove it from the mirror",
			base, target, last.BaseSequence())
	case last.LogAppendTime(): // the mirror sends none such
		return -1, -1, Faultf(Quarantined, "%s: the topic has message.timestamp.type=LogAppendTime, so the records at offsets %d to %d have lost the source's timestamps. "+
			"Recreate the topic with CreateTime to mirror it again", target, base, last.LastOffset())
	case last.LastOffset() < max(source.LogStart, expect.SkippedTo):
		return -1, last.MaxTimestamp(), nil // the source has deleted them
	}
	timestampMs = last.MaxTimestamp()
	for looks := 1; ; looks++ {
		from := max(last.BaseOffset(), source.LogStart, expect.SkippedTo)
		ours, err := source.Batches(ctx, from)
		if err != nil {
			return -1, -1, Because(Retry, err, "read the source of %s at offset %d", target, from)
		}
		different, compared, err := firstDifference(last, ours, from)
		if err != nil {
			return -1, -1, Because(Retry, err, "compare %s with its source", target)
		} else if different >= 0 {
			return -1, -1, Faultf(Quarantined, "%s has diverged: the record at offset %d is not the source's; the destination holds %d records from there on. "+
				"Compare both, then recreate the topic or remove it from the mirror", target, different, p.EndOffset-different)
		}
		if looks == 1 {
			epoch = epochAt(ours, p.EndOffset-1)
		}
		if compared || looks == tailLooks || last.BaseOffset() <= max(p.LogStart, source.LogStart, expect.SkippedTo) {
			return epoch, timestampMs, nil
		}
		if last, err = e.batchAt(ctx, target, p, last.BaseOffset()-1); err != nil {
			return -1, -1, Because(Retry, err, "read the last records of %s", target)
		} else if last == nil {
			return epoch, timestampMs, nil
		}
	}
}

// tailLooks is in how many batches at the end of the destination a record is looked for that the source has too: a marker, or
// a hole that is filled, has none.
const tailLooks = 8

// epochAt is the leader epoch of the batch that holds an offset, -1 when it is not among these.
func epochAt(batches []byte, offset int64) int32 {
	epoch := int32(-1)
	_, err := batch.Each(batches, func(b batch.Batch) error {
		if b.Magic() == 2 && b.BaseOffset() <= offset && offset <= b.LastOffset() {
			epoch = b.LeaderEpoch()
			return errEnough
		}
		return nil
	})
	if ignoreEnough(err) != nil {
		return -1
	}
	return epoch
}

// batchAt reads the batch that holds an offset, or the last one before it; nil when there is none.
func (e *Engine) batchAt(ctx context.Context, target Target, p *Position, offset int64) (batch.Batch, error) {
	topic, err := e.cluster.Topic(ctx, target.Topic, time.Time{})
	if err != nil {
		return nil, err
	}
	blob, err := e.cluster.FetchBatches(ctx, p.Leader.ID, topic, target.Partition, offset)
	if err != nil {
		return nil, err
	}
	var found batch.Batch
	_, err = batch.Each(blob, func(b batch.Batch) error {
		if b.Magic() == 2 && b.BaseOffset() <= offset {
			found = b
		}
		return nil
	})
	return found, err
}

// compareLimitBytes bounds what a batch may decompress to when its records are compared.
const compareLimitBytes = 64 << 20

// firstDifference is the lowest offset from from on at which both sides hold a record and the
// records are not the same, or at which the destination has filler and the source a record that is visible for sure; -1 when
// there is none. compared says that both hold a record somewhere.
func firstDifference(destination batch.Batch, source []byte, from int64) (different int64, compared bool, err error) {
	var same bool
	_, err = batch.Each(source, func(b batch.Batch) error {
		if b.Magic() == 2 && b.BaseOffset() == destination.BaseOffset() {
			same = len(b) == len(destination) && bytes.Equal(b[batch.HeaderLen:], destination[batch.HeaderLen:]) &&
				b.BaseTimestamp() == destination.BaseTimestamp() && b.LogAppendTime() == destination.LogAppendTime()
			return errEnough
		}
		return nil
	})
	if same || err != nil && !errors.Is(err, errEnough) {
		return -1, same, ignoreEnough(err)
	}
	here, err := recordsFrom(destination, from)
	if err != nil {
		return -1, false, err
	}
	there, undecided := map[int64]string{}, map[int64]bool{} // undecided: of a transaction, which may have been aborted
	_, err = batch.Each(source, func(b batch.Batch) error {
		if b.Magic() == 2 && (b.Control() || b.BaseOffset() > destination.LastOffset()) {
			return nil
		}
		records, err := recordsFrom(b, from)
		for offset, record := range records {
			there[offset], undecided[offset] = record, b.Magic() == 2 && b.Transactional()
		}
		return err
	})
	if err != nil {
		return -1, false, err
	}
	for offset := from; offset <= destination.LastOffset(); offset++ {
		ours, isHere := here[offset]
		theirs, isThere := there[offset]
		switch {
		case !isHere || !isThere || theirs == filler: // compacted here or there
		case ours == filler && undecided[offset]:
		case ours != theirs:
			return offset, compared, nil
		default:
			compared = true
		}
	}
	return -1, compared, nil
}

// filler stands for a record without data, which is no record of the source.
const filler = "filler"

var errEnough = errors.New("enough")

func ignoreEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// recordsFrom gives the records of a batch in a form that can be compared.
func recordsFrom(b batch.Batch, from int64) (map[int64]string, error) {
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: compareLimitBytes})
	if err != nil {
		return nil, err
	}
	records := map[int64]string{}
	err = coder.Records(b, func(r *batch.Record) error {
		if r.Offset < from {
			return nil
		}
		if r.IsFiller() {
			records[r.Offset] = filler
			return nil
		}
		text := fmt.Sprintf("%d %t %q %t %q", r.Timestamp, r.Key == nil, r.Key, r.Value == nil, r.Value)
		for key, value := range r.Headers() {
			text += fmt.Sprintf(" %q %t %q", key, value == nil, value)
		}
		records[r.Offset] = text
		return nil
	})
	return records, err
}

// Wrote says whether the record at an offset was written by the mirror, and stands where it belongs: a batch that was
// appended behind foreign records does not.
func (e *Engine) Wrote(ctx context.Context, target Target, p *Position, offset int64) (bool, error) {
	b, err := e.batchAt(ctx, target, p, offset)
	if err != nil {
		return false, Because(Retry, err, "read the batch at offset %d of %s", offset, target)
	}
	return b != nil && b.LastOffset() >= offset && b.ProducerID() == target.ProducerID() && b.ProducerEpoch() == 0 && !b.Control() &&
		b.BaseSequence() == batch.SequenceOf(b.BaseOffset()), nil
}
