package replicate

import (
	"slices"
	"time"

	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// A reservation lasts for about reserveFor at the rate seen last: rarely enough written, and soon
// passed by the log, after which nothing an unclean owner left behind can do harm. For the same
// reason it ends where the source will be by then. It is never shorter than reserveLeast.
const (
	reserveLeast = 100
	reserveFor   = 10 * time.Second
)

// reservation is how far ahead a partition reserves offsets, and what was seen when it last did.
type reservation struct {
	size           int64 // of the last reservation
	at             time.Time
	end, sourceEnd int64
}

// next is the offset to reserve up to, with the destination's end and the source's as they are now.
func (r *reservation) next(now time.Time, end, sourceEnd int64) (reserved int64) {
	sourceEnd = max(sourceEnd, end) // it may not be known at the moment
	backlog := sourceEnd - end
	ahead, live := min(backlog, 100*reserveLeast), int64(reserveLeast)
	if elapsed := now.Sub(r.at); !r.at.IsZero() && elapsed > 0 {
		// What the copy and the source would do in reserveFor; the copy's first measures are
		// short, so it may grow a few times at most.
		periods := float64(reserveFor) / float64(elapsed)
		ahead = min(int64(float64(max(end-r.end, 0))*periods), 8*r.size)
		live = max(live, int64(float64(max(sourceEnd-r.sourceEnd, 0))*periods))
	}
	r.size = max(min(ahead, backlog+live), reserveLeast)
	r.at, r.end, r.sourceEnd = now, end, sourceEnd
	return end + r.size
}

// enough says that what is reserved lasts a while yet.
func (r *reservation) enough(end, reserved int64) bool { return r.size > 0 && reserved-end >= r.size/2 }

// reserve is the progress that reserves offsets from end on; nil when enough are reserved. Only
// what the state holds counts: a batch beyond it would be one that no later owner expects. epochs
// are those of the records below end.
func (p *partition) reserve(end, sourceEnd int64, epochs []state.EpochRun) *state.SetProgress {
	progress, stored := p.progress, p.tenure.cfg.Store.View().Progress(p.id)
	held := stored.ReservedBy == p.tenure.generation && stored.ReservedOffset >= progress.ReservedOffset
	if held && p.window.enough(end, progress.ReservedOffset) {
		return nil
	}
	progress.ReservedOffset = max(progress.ReservedOffset, p.window.next(p.tenure.cfg.Clock(), end, sourceEnd))
	progress.ReservedBy = p.tenure.generation
	progress.CopiedOffset, progress.Epochs = end, epochs
	if progress.UncleanOffset <= end && p.underWayIsOver() {
		progress.UncleanOffset = -1
	}
	return &state.SetProgress{Partition: p.id, Progress: progress}
}

// mirror is one session: align, and unless only that is asked, copy until a fault, a change of
// what is wanted, or the end of the tenure. nil means that the view has to be looked at again.
func (p *partition) mirror(w *wanted, follow bool) error {
	select {
	case <-p.doubted: // of the session before
	default:
	}
	target, source := w.target(p.id), p.tenure.source(w.mirror)
	log, topic, sourceLeader, err := source.log(p.ctx, w.topic, p.id.Partition, p.notBefore)
	if err != nil {
		return err
	}
	handedOverAt, again := p.handedOverAt(w)
	start, err := p.tenure.engine.Align(p.ctx, target, log,
		produce.Expectation{FillToOffset: p.progress.FillToOffset, HandedOverAt: handedOverAt, CopiedOffset: p.progress.CopiedOffset, SkippedTo: p.progress.Skipped.To}, p.notBefore)
	if err != nil {
		return err
	}
	if err := checkPartitions(w.topic, start.Partitions); err != nil {
		return err
	}
	if again && handedOverAt < 0 && start.EndOffset > 0 {
		return produce.Faultf(produce.Quarantined, "%s was STOPPED when it was not known where the mirror's records end, and it ends at offset %d: who wrote that is not known. "+
			"Recreate the topic to mirror it again", target, start.EndOffset)
	}
	p.tellLostTail(target, start.EndOffset)
	filling := start.FillFrom >= 0 && !start.Gap || p.progress.FillToOffset >= 0
	if (follow || filling) && p.inDoubt(w, target, &start) {
		return nil
	}
	if filling {
		return p.fill(w, target, start, log)
	}
	epochs := resumedEpochs(&p.progress, start.EndOffset, start.LastEpoch)
	if err := checkHistory(p.ctx, target, log, epochs, start.EndOffset); err != nil {
		return err
	}
	cleaned, err := p.checkStale(w, target, source, start.EndOffset, log.HighWatermark)
	if err != nil {
		return err
	}
	switch {
	case !start.Gap:
		p.tenure.cfg.Live.Partition(p.id).GapRecords.Store(0)
	case !skipsGaps(w.mirror):
		return p.gapFault(target, start)
	case follow:
		return p.crossGap(w, target, start, log)
	}
	p.progress.Epochs, p.progress.CopiedOffset = epochs, start.EndOffset
	commands := enterMirroring(p.id, w.have.Status)
	if set := p.reserve(start.EndOffset, log.HighWatermark, p.progress.Epochs); set != nil && follow {
		commands = append(commands, *set)
	}
	if len(commands) > 0 {
		if err := p.do("enter MIRRORING", commands...); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	return p.copy(w, target, start, log.HighWatermark, source, topic, sourceLeader, cleaned)
}

// handedOverAt is where the log must end for a topic that was STOPPED and is mirrored again, until
// it has been MIRRORING or its leading filler has begun; -1 when that was not recorded. again is
// false when it does not matter (any more).
func (p *partition) handedOverAt(w *wanted) (offset int64, again bool) {
	have := &w.have
	again = have.Status == state.Preparing && have.Previous == state.Stopped || have.Status == state.Failed && have.Previous == state.Preparing
	// Filler of before the stop does not go beyond what was recorded then.
	if w.topic.WasStopped && again && p.progress.FillToOffset <= have.LastMirroredOffset {
		return have.LastMirroredOffset, true
	}
	return -1, false
}

// enterMirroring is the way from a status to MIRRORING.
func enterMirroring(id state.PartitionID, from state.Status) []state.Command {
	var commands []state.Command
	if from == state.Failed {
		commands = append(commands, state.MovePartition{Partition: id, To: state.Preparing, LastMirroredOffset: -1})
	}
	if from != state.Mirroring {
		commands = append(commands, state.MovePartition{Partition: id, To: state.Mirroring, LastMirroredOffset: -1})
	}
	return commands
}

// copy fetches and writes from an aligned position on.
func (p *partition) copy(w *wanted, target produce.Target, start produce.Start, sourceEnd int64, source *source, topic connect.Topic, sourceLeader int32, cleaned cleaning) error {
	fetcher, err := source.fetcher(sourceLeader, p.id)
	if err != nil {
		return err
	}
	name := fetcher.clientID()
	p.fetcherID.Store(&name)
	live := p.tenure.cfg.Live.Partition(p.id)
	live.SourceOffset.Store(sourceEnd)
	live.DestinationOffset.Store(start.EndOffset)
	live.GuardedUntilMs.Store(start.GuardedUntilMs)
	stream := p.tenure.engine.Open(produce.StreamConfig{
		Target: target, StartOffset: start.NextOffset, CheckedAt: start.CheckedAt, ReservedOffset: p.progress.ReservedOffset, Leader: start.Leader.ID,
		OneAck: oneAck(w.mirror), GuardedUntilMs: start.GuardedUntilMs, DoubtUntil: p.doubt.until,
		OnAppend: func(end, guardedUntilMs int64) {
			live.DestinationOffset.Store(end)
			live.GuardedUntilMs.Store(guardedUntilMs)
		},
	})
	stream.OnSpace(fetcher.nudge)
	p.leader.Store(&start.Leader)
	defer p.leader.Store(nil)
	s := &session{
		target: target, stream: stream, live: live, queueBytes: p.tenure.cfg.Settings.QueueBytes,
		translator: translator{target: target, producerID: target.ProducerID(), filler: p.tenure.filler, compacted: cleaned.compacted, next: start.NextOffset, previousMs: start.LastTimestampMs},
		nowMs:      func() int64 { return p.tenure.cfg.Clock().UnixMilli() },
		failed:     make(chan struct{}), trim: newTrimming(start.LogStart, p.trimDueMs()), next: start.NextOffset, epochs: slices.Clone(p.progress.Epochs),
		fresh: freshness{copiedAtMs: p.progress.CopiedAtMs},
	}
	fetching := fetcher.add(topic, p.id.Partition, s)
	err = p.watch(w, stream, s, cleaned.noteEvery(), start.Leader.ID)
	fetcher.remove(fetching)
	s.trim.group.Wait()
	s.broken(produce.Faultf(produce.Stale, "%s: the session is over", target))
	if err := p.confirm(stream, target, start.Leader.ID); err != nil {
		p.tenure.log.Debug().Err(err).Msg("at the end of a session")
	}
	end, fault := p.closeStream(stream)
	if end > start.NextOffset {
		p.attempts = 0
	}
	p.progress.Epochs, p.progress.CopiedAtMs = s.epochsBelow(end), s.fresh.at(end)
	if err == nil && fault != nil && p.ctx.Err() == nil {
		err = fault // while closing
	}
	if err != nil {
		live.SourceOffset.Store(-1) // the lag is not known: no number is better than a stale one
	}
	return err
}

// watch waits for the end of a session and extends its reservation meanwhile. Every noteEvery (0: never) it notes that
// the copy has kept up.
func (p *partition) watch(w *wanted, stream *produce.Stream, s *session, noteEvery time.Duration, leader int32) error {
	var noteDue, confirm <-chan time.Time
	if noteEvery > 0 {
		ticker := time.NewTicker(noteEvery)
		defer ticker.Stop()
		noteDue = ticker.C
	}
	if oneAck(w.mirror) {
		ticker := time.NewTicker(confirmPause)
		defer ticker.Stop()
		confirm = ticker.C
	}
	for {
		select {
		case <-confirm:
			if err := p.confirm(stream, s.target, leader); err != nil {
				return err
			}
		case <-stream.Events():
			end, reserved, waiting, fault := stream.Status()
			if fault != nil {
				return fault
			}
			s.wrote(end)
			if !waiting && p.window.enough(end, reserved) {
				continue
			}
			p.progress.CopiedAtMs = s.fresh.at(end)
			set := p.reserve(end, s.live.SourceOffset.Load(), s.epochsBelow(end))
			if set == nil {
				continue
			}
			if err := p.do("reserve offsets", *set); err != nil {
				return err
			}
			stream.Reserve(p.progress.ReservedOffset)
		case <-s.trim.due:
			if err := p.followLogStart(s, stream); err != nil {
				return err
			}
		case <-noteDue:
			end, _, _, _ := stream.Status()
			if s.fresh.at(end) == p.tenure.cfg.Store.View().Progress(p.id).CopiedAtMs {
				continue // nothing was heard of the source
			}
			if err := p.noteCopy(s, end); err != nil {
				return err
			}
		case <-s.failed:
			return s.Fault()
		case <-p.doubted:
			return produce.Faultf(produce.Stale, "%s: the topic has changed on the source or the destination", s.target)
		case <-p.wake:
			if now, ok := p.look(); !ok || now.topic.Desired != w.topic.Desired || now.revision != w.revision {
				return nil
			}
		case <-p.ctx.Done():
			return nil
		}
	}
}

// closeStream ends a stream and waits for the answer to what is in flight. It notes how far the
// copy has come, and what may still reach the log afterwards.
func (p *partition) closeStream(stream *produce.Stream) (end int64, fault *produce.Fault) {
	stream.Close()
	timer := time.NewTimer(p.tenure.cfg.Settings.DrainTimeout)
	defer timer.Stop()
	select {
	case <-stream.Idle():
	case <-timer.C:
		p.unclean(p.progress.ReservedOffset)
	}
	end, _, _, fault = stream.Status()
	p.progress.CopiedOffset = end
	if offset := stream.Unanswered(); offset >= 0 {
		p.unclean(offset + 1) // a batch that begins here may come yet
	}
	return end, fault
}
