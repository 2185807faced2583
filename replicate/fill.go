package replicate

import (
	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// fillAheadBytes is how much filler waits to be written.
const fillAheadBytes = 512 << 10

// fill makes a destination that holds nothing yet begin where the source begins: filler up to
// there, which is then deleted. The goal is recorded first, so that whoever goes on after a
// crash knows that all there is is filler. The partition is looked at again afterwards.
func (p *partition) fill(w *wanted, target produce.Target, start produce.Start, log produce.SourceLog) error {
	progress := p.progress
	// Behind the filler may stand what another owner has copied since: that stays.
	goal := max(log.LogStart, min(start.EndOffset, progress.FillToOffset))
	progress.FillToOffset, progress.ReservedOffset, progress.ReservedBy = goal, max(goal, progress.ReservedOffset), p.tenure.generation
	progress.CopiedOffset, progress.Epochs = start.EndOffset, nil
	commands := []state.Command{state.SetProgress{Partition: p.id, Progress: progress}}
	if w.have.Status == state.Failed {
		commands = append(commands, state.MovePartition{Partition: p.id, To: state.Preparing, LastMirroredOffset: -1})
	}
	if err := p.do("record the leading filler", commands...); err != nil {
		return err
	}
	if start.EndOffset < goal {
		timestampMs, err := p.leadingTimestamp(log, goal)
		if err != nil {
			return err
		}
		done, err := p.writeFiller(w, target, start, goal, timestampMs)
		if err != nil || !done {
			return err
		}
	}
	// The followers must hold it before it can be deleted. That names the topic by its name, which
	// must still be the same one's.
	p.notBefore = p.tenure.cfg.Clock()
	position, err := p.tenure.engine.Position(p.ctx, target, p.notBefore)
	if err != nil {
		return err
	}
	if position.LogStart < goal {
		if err := p.tenure.engine.Trim(p.ctx, target, goal, p.notBefore); err != nil {
			return err
		}
	}
	now, ok := p.look()
	if !ok {
		return nil
	}
	progress = p.progress
	progress.FillToOffset, progress.CopiedOffset = -1, goal
	// MIRRORING at once: for a topic that is mirrored again the log must end where it was handed
	// over, which is no longer so.
	return p.do("record the end of the leading filler", append(enterMirroring(p.id, now.have.Status), state.SetProgress{Partition: p.id, Progress: progress})...)
}

func (p *partition) nowMs() int64 { return p.tenure.cfg.Clock().UnixMilli() }

// leadingTimestamp is the timestamp of filler with nothing before it: that of the source's first batch behind it, with which it
// will share a segment. A broker that is asked for a timestamp looks into the first segment that has it or a later one,
// deleted records included, and into no other: younger filler would hide from it all that lies in later segments. Of a source
// without batches it is the present, which keeps the broker's memory of the producer; old formats may have none.
func (p *partition) leadingTimestamp(log produce.SourceLog, offset int64) (ms int64, err error) {
	batches, err := log.Batches(p.ctx, offset)
	if err != nil {
		return 0, produce.Because(produce.Retry, err, "read the source's first records")
	}
	b, _, err := batch.Next(batches)
	switch {
	case err != nil:
		return 0, err
	case b == nil:
		return p.nowMs(), nil
	case b.Magic() < 2:
		return -1, nil
	}
	return b.MaxTimestamp(), nil
}

// writeFiller appends filler up to goal; done is false when something else is wanted before.
func (p *partition) writeFiller(w *wanted, target produce.Target, start produce.Start, goal, timestampMs int64) (done bool, err error) {
	stream := p.tenure.engine.Open(produce.StreamConfig{
		Target: target, StartOffset: start.FillFrom, CheckedAt: start.CheckedAt, ReservedOffset: goal, Leader: start.Leader.ID,
		GuardedUntilMs: start.GuardedUntilMs, DoubtUntil: p.doubt.until,
	})
	done, err = p.pushFiller(w, stream, target.ProducerID(), start.FillFrom, goal, timestampMs)
	end, fault := p.closeStream(stream)
	if end > start.FillFrom {
		p.attempts = 0
	}
	if err == nil && fault != nil && p.ctx.Err() == nil {
		err = fault
	}
	return done, err
}

func (p *partition) pushFiller(w *wanted, stream *produce.Stream, producerID, from, goal, timestampMs int64) (done bool, err error) {
	for {
		for from < goal && stream.QueuedBytes() < fillAheadBytes {
			n := int32(min(goal-from, batch.MaxFillerRecords))
			filler, err := p.tenure.filler.Append(nil, n, timestampMs, producerID, 0, batch.SequenceOf(from))
			if err != nil {
				return false, err
			}
			stream.Push(produce.Batch{Bytes: filler, BaseOffset: from, Count: n})
			from += int64(n)
		}
		select {
		case <-stream.Events():
			end, _, _, fault := stream.Status()
			if fault != nil {
				return false, fault
			}
			if end == goal {
				return true, nil
			}
		case <-p.wake:
			if now, ok := p.look(); !ok || now.topic.Desired != w.topic.Desired {
				return false, nil
			}
		case <-p.ctx.Done():
			return false, nil
		}
	}
}
