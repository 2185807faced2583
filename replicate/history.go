package replicate

import (
	"context"

	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// checkHistory says with nil that the source still has the last record before end with the leader epoch that it was copied with. A
// source that went on from an earlier point of its log (an unclean leader election) holds other records there, under
// another epoch, and maybe more of them. Fetches from version 12 on ask this themselves; at the begin of each session,
// and so after each change of the source's leader, it is asked for all.
func checkHistory(ctx context.Context, target produce.Target, source produce.SourceLog, epochs []state.EpochRun, end int64) error {
	epoch, upTo := lastKnownEpoch(epochs, end)
	if epoch < 0 {
		return nil
	}
	known, endOffset, err := source.EpochEnd(ctx, epoch)
	switch {
	case err != nil:
		return produce.Because(produce.Retry, err, "ask the source of %s where its leader epoch %d ends", target, epoch)
	case known < 0 || endOffset < 0:
		return nil // it keeps no epochs
	case known == epoch && endOffset >= upTo:
		return nil
	}
	from := min(endOffset, end-1)
	for _, run := range epochs { // records of an epoch that the source does not have are not there
		if run.Epoch > known {
			from = min(from, run.StartOffset)
			break
		}
	}
	return historyRewritten(target.String(), known, endOffset, from)
}

// historyRewritten is the fault of a source that has lost records which were copied, from an offset on.
func historyRewritten(partition string, epoch int32, endOffset, from int64) *produce.Fault {
	return produce.Faultf(produce.Quarantined, "%s has diverged: the source has rewritten its history (leader epoch %d ends at offset %d there); the destination holds records from offset %d on that the source does not have. "+
		"Compare both, then recreate the topic or remove it from the mirror", partition, epoch, endOffset, from)
}

// tellLostTail says in the log that the destination's log is shorter than what was copied. What is missing is copied again.
func (p *partition) tellLostTail(target produce.Target, end int64) {
	if copied := p.progress.CopiedOffset; end < copied {
		p.tenure.log.Warn().Str("mirror", target.Mirror).Str("topic", target.Topic).Int32("partition", target.Partition).
			Int64("fromOffset", end).Int64("toOffset", copied-1).
			Msg("the destination has lost the end of its log (an unclean leader election?); it is copied again from the source")
	}
}
