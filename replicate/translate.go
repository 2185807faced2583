package replicate

import (
	"errors"
	"fmt"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
)

const (
	// reencodedBytes is the uncompressed size of batches that are written anew.
	reencodedBytes = 256 << 10
	// runBytes bounds the source batches that are written anew together.
	runBytes = 512 << 10
	// smallBytes is the size up to which batches are merged: with three replicas a broker takes some hundred batches of a
	// partition a second, whatever their size.
	smallBytes = 16 << 10
)

// errNoRoom ends a translation early: what follows is fetched again once there is room.
var errNoRoom = errors.New("no room for filler")

// outlet takes the batches of a translation.
type outlet interface {
	// room says that more filler may be made. Batches of the source come in bounded answers, but holes know no bounds.
	room() bool
	// push takes a batch, ready for Produce, of count offsets from base on. epoch is the source's leader epoch, -1 where
	// its format has none. Bytes that are not owned belong to the answer that is being translated.
	push(bytes []byte, base int64, count int32, epoch int32, owned bool)
}

// translator turns the log of a source partition, batch by batch, into one that a stock broker takes from a producer: the
// same records at the same offsets, and filler where the source has none that a READ_COMMITTED consumer sees (holes that
// compaction left, markers, aborted data; filler of a source that is a mirror itself). It does no I/O and reads no clock.
type translator struct {
	target     produce.Target
	producerID int64
	filler     *batch.FillerMaker
	compacted  bool  // the cleaner goes over the topic
	next       int64 // source offset of the next record
	// previousMs is a timestamp of the records before next: what hole filler takes, so that ListOffsets by time finds what it
	// finds on the source. -1 where nothing is known.
	previousMs int64
	run        run
}

// run is consecutive batches of an answer that are written anew together.
type run struct {
	batches  []byte
	count    int
	epoch    int32
	rewrite  bool   // one of them cannot be passed through
	discards []bool // by batch that is no control batch
}

// translate takes the batches of one answer (whole ones, the last may be cut). highWatermark is the answer's. merge says that
// small batches are worth being merged. An error ends the session, but for errNoRoom; what comes before the trouble is written.
func (t *translator) translate(records []byte, highWatermark int64, aborted *abortedTransactions, merge bool, coder *batch.Coder, out outlet) error {
	t.run.clear()
	end, epoch, err := t.takeAll(records, highWatermark, aborted, merge, coder, out)
	if endErr := t.endRun(coder, out); endErr != nil {
		return endErr
	}
	if err != nil {
		return err
	}
	return t.fillUpTo(end, epoch, out)
}

// takeAll writes the batches of an answer, or puts them into the run. It returns the offset that they go up to, and the leader
// epoch of the last one.
func (t *translator) takeAll(records []byte, highWatermark int64, aborted *abortedTransactions, merge bool, coder *batch.Coder, out outlet) (end int64, epoch int32, err error) {
	end, epoch = t.next, -1
	for {
		b, rest, err := batch.Next(records)
		if err != nil || b == nil {
			return end, epoch, err
		}
		class := batch.Classify(b)
		if class.Kind == batch.KindInvalid {
			return end, epoch, batch.Validate(b)
		}
		discard, err := aborted.discards(b, coder)
		if err != nil {
			return end, epoch, err
		}
		last := lastOffset(b)
		switch rewrite := class.Kind != batch.KindPassthrough || discard || b.BaseOffset() < end; {
		case b.Magic() == 2 && b.BaseOffset() > max(end, highWatermark):
			// No checksum covers a base offset, and filler is for ever.
			return end, epoch, fmt.Errorf("%w: a batch at offset %d behind offset %d, where the source ends at %d", batch.ErrCorrupt, b.BaseOffset(), end-1, highWatermark)
		case last < end: // as below t.next; or the source's offsets go back, and a consumer passes it over too
			err = t.endRun(coder, out) // whose batches lie side by side
		default:
			err = t.take(b, records, rewrite, discard, merge, coder, out)
			end, epoch = last+1, epochOf(b)
		}
		if err != nil {
			return end, epoch, err
		}
		records = rest
	}
}

// take writes a batch, with which records begins, or puts it into the run.
func (t *translator) take(b batch.Batch, records []byte, rewrite, discard, merge bool, coder *batch.Coder, out outlet) error {
	if t.run.count > 0 && !t.run.takes(b) {
		if err := t.endRun(coder, out); err != nil {
			return err
		}
	}
	if !rewrite && (!merge || len(b) > smallBytes) {
		return t.endRunWith(b, coder, out)
	}
	t.run.add(b, records, rewrite, discard)
	return nil
}

// lastOffset is the last offset that a batch of any magic stands for: the base offset of an old one is its last record's.
func lastOffset(b batch.Batch) int64 {
	if b.Magic() < 2 {
		return b.BaseOffset()
	}
	return b.LastOffset()
}

func epochOf(b batch.Batch) int32 {
	if b.Magic() < 2 {
		return -1
	}
	return b.LeaderEpoch()
}

func (r *run) clear() { *r = run{discards: r.discards[:0]} }

// takes says that a batch may follow in the run: batches of different leader epochs are not merged.
func (r *run) takes(b batch.Batch) bool {
	return len(r.batches)+len(b) <= runBytes && r.epoch == epochOf(b)
}

// add puts a batch, with which records begins, at the end of the run. All its batches lie side by side in the answer.
func (r *run) add(b batch.Batch, records []byte, rewrite, discard bool) {
	if r.count == 0 {
		r.batches, r.epoch = records[:0], epochOf(b)
	}
	r.batches = r.batches[:len(r.batches)+len(b)]
	r.count++
	r.rewrite = r.rewrite || rewrite
	if b.Magic() < 2 || !b.Control() {
		r.discards = append(r.discards, discard)
	}
}

func (t *translator) endRunWith(b batch.Batch, coder *batch.Coder, out outlet) error {
	if err := t.endRun(coder, out); err != nil {
		return err
	}
	return t.passThrough(b, coder, out)
}

// endRun writes the run. A single batch that has no need of it is passed through.
func (t *translator) endRun(coder *batch.Coder, out outlet) error {
	defer t.run.clear()
	switch {
	case t.run.count == 0:
		return nil
	case t.run.count == 1 && !t.run.rewrite:
		return t.passThrough(t.run.batches, coder, out)
	}
	err := t.writeAnew(t.run.batches, t.run.discards, coder, out)
	if err == nil || errors.Is(err, errNoRoom) || t.run.count == 1 {
		return err
	}
	// One of them cannot be mirrored; those before it can. Nothing of the run was written.
	discards := t.run.discards
	_, err = batch.Each(t.run.batches, func(b batch.Batch) error {
		var discard []bool
		if b.Magic() < 2 || !b.Control() {
			discard, discards = discards[:1], discards[1:]
		}
		return t.writeAnew(b, discard, coder, out)
	})
	return err
}

// passThrough gives a dense batch the mirror's producer; nothing in it is touched.
func (t *translator) passThrough(b batch.Batch, coder *batch.Coder, out outlet) error {
	if err := batch.CheckDeltas(b); err != nil {
		return err
	}
	if !batch.OfMirror(b) { // filler of a mirror stays filler
		if err := coder.CheckNoFillerKey(b, t.compacted); err != nil {
			return t.explain(err)
		}
	}
	base, count, epoch := b.BaseOffset(), b.Count(), b.LeaderEpoch()
	if err := t.fillUpTo(base, epoch, out); err != nil {
		return err
	}
	if b.Transactional() { // and committed
		batch.ClearTransactional(b)
	}
	batch.SetProducer(b, t.producerID, 0, batch.SequenceOf(base))
	t.next, t.previousMs = base+int64(count), b.MaxTimestamp()
	out.push(b, base, count, epoch, false)
	return nil
}

// writeAnew writes batches as new ones, with filler in place of what is no data: discards says which of them, control
// batches left out. An error that is not errNoRoom means that none was written.
func (t *translator) writeAnew(batches []byte, discards []bool, coder *batch.Coder, out outlet) error {
	fresh, err := coder.Reencode(nil, batches, batch.ReencodeOptions{
		FromOffset: t.next, PreviousTimestampMs: t.previousMs, MaxBatchBytes: reencodedBytes,
		Discard: func(batch.Batch) bool {
			discard := discards[0]
			discards = discards[1:]
			return discard
		},
	})
	if err != nil {
		return t.explain(err)
	}
	_, err = batch.Each(fresh, func(b batch.Batch) error {
		base, count := b.BaseOffset(), b.Count()
		if err := t.fillUpTo(base, t.run.epoch, out); err != nil {
			return err
		}
		batch.SetProducer(b, t.producerID, 0, batch.SequenceOf(base))
		t.next, t.previousMs = base+int64(count), b.MaxTimestamp()
		out.push(b, base, count, t.run.epoch, true)
		return nil
	})
	return err
}

// fillUpTo writes filler below an offset. epoch is that of the batch which shows that the source has nothing there: should the
// source lose that batch, and write into the hole, the filler is as wrong as a record would be (checkHistory).
func (t *translator) fillUpTo(end int64, epoch int32, out outlet) error {
	for t.next < end {
		if !out.room() {
			return errNoRoom
		}
		n := int32(min(end-t.next, batch.MaxFillerRecords))
		filler, err := t.filler.Append(nil, n, t.previousMs, t.producerID, 0, batch.SequenceOf(t.next))
		if err != nil {
			return err
		}
		base := t.next
		t.next += int64(n)
		out.push(filler, base, n, epoch, true)
	}
	return nil
}

// explain turns errors that trying again does not mend into faults.
func (t *translator) explain(err error) error {
	switch {
	case errors.Is(err, batch.ErrFillerKey):
		return produce.Because(produce.Quarantined, err, "%s cannot be mirrored", t.target)
	case errors.Is(err, batch.ErrTooLarge):
		return produce.Because(produce.Refused, err, "%s cannot be mirrored", t.target)
	}
	return err
}
