package replicate

import (
	"fmt"

	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

const (
	configGapPolicy = "mirror.gap.policy"
	gapPolicySkip   = "skip"
)

// skipsGaps says that the operator lets a mirror go on where the source has deleted what was not copied.
func skipsGaps(m *state.Mirror) bool { return m.Configs[configGapPolicy] == gapPolicySkip }

// gapFault stops a partition before a gap.
func (p *partition) gapFault(target produce.Target, start produce.Start) error {
	p.tenure.cfg.Live.Partition(p.id).GapRecords.Store(start.NextOffset - start.FillFrom)
	return produce.Faultf(produce.Refused, "%s has a gap: the destination ends at offset %d and the source begins at %d; the records at offsets %d to %d were deleted on the source before they were copied (mirror.gap.policy=fail). "+
		"Set mirror.gap.policy=skip to go on behind them, with filler in their place, or remove the topic from the mirror, recreate it, and add it again",
		target, start.FillFrom, start.NextOffset, start.FillFrom, start.NextOffset-1)
}

// crossGap writes filler at the offsets of the source's records that were deleted there before they were copied. Before
// that it is noted, for the operator and for whoever goes on after a crash: to that one it is a gap again, up to where the
// source begins then. The partition is looked at again afterwards.
func (p *partition) crossGap(w *wanted, target produce.Target, start produce.Start, log produce.SourceLog) error {
	from, to := start.FillFrom, start.NextOffset
	p.tenure.log.Warn().Str("mirror", target.Mirror).Str("topic", target.Topic).Int32("partition", target.Partition).
		Int64("fromOffset", from).Int64("toOffset", to-1).
		Msg("the source has deleted records before they were copied; filler takes their place (mirror.gap.policy=skip)")
	progress := p.progress
	progress.Skipped = skipGap(progress.Skipped, target, from, to)
	progress.ReservedOffset, progress.ReservedBy = max(to, progress.ReservedOffset), p.tenure.generation
	// Which leader epochs the records in the gap had nobody knows.
	progress.CopiedOffset, progress.Epochs = start.EndOffset, nil
	// MIRRORING at once: for a topic that is mirrored again the log must end where it was handed over, which it soon does not.
	commands := append(enterMirroring(p.id, w.have.Status), state.SetProgress{Partition: p.id, Progress: progress})
	if err := p.do("note the gap", commands...); err != nil {
		return err
	}
	// As in a hole that compaction leaves, the timestamp is that of the record before.
	timestampMs := start.LastTimestampMs
	if start.EndOffset == start.LogStart {
		var err error
		if timestampMs, err = p.leadingTimestamp(log, to); err != nil {
			return err
		}
	}
	_, err := p.writeFiller(w, target, start, to, timestampMs)
	return err
}

// skipGap adds a gap to what was skipped; one that goes on from within the last one is the same, which has grown.
func skipGap(skipped state.Skipped, target produce.Target, from, to int64) state.Skipped {
	if from < skipped.From || from > skipped.To || skipped.To == 0 {
		skipped.From, skipped.To = from, from
	}
	skipped.Records += max(to-skipped.To, 0)
	skipped.To = max(skipped.To, to)
	skipped.Note = fmt.Sprintf("%s lacks the source's records at offsets %d to %d, which were deleted there before they were copied; filler is in their place (mirror.gap.policy=skip)",
		target, skipped.From, skipped.To-1)
	return skipped
}
