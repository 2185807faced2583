package replicate

import (
	"slices"

	"kafka-mirror-proxy/state"
)

// maxEpochRuns bounds what is kept of a partition. Only the last run below the end of the copy is asked for, unless the
// destination has lost the end of its log.
const maxEpochRuns = 8

// appendEpoch notes that records from an offset on carry a source leader epoch.
func appendEpoch(runs []state.EpochRun, start int64, epoch int32) []state.EpochRun {
	if n := len(runs); n > 0 && runs[n-1].Epoch == epoch {
		return runs
	}
	if n := len(runs) - (maxEpochRuns - 1); n > 0 {
		runs = slices.Delete(runs, 0, n)
	}
	return append(runs, state.EpochRun{Epoch: epoch, StartOffset: start})
}

// epochsBelow is a copy of the runs that begin below an offset.
func epochsBelow(runs []state.EpochRun, end int64) []state.EpochRun {
	n := len(runs)
	for n > 0 && runs[n-1].StartOffset >= end {
		n--
	}
	return slices.Clone(runs[:n])
}

// lastEpoch is the source leader epoch of the last record that the runs know of; -1 when they know none.
func lastEpoch(runs []state.EpochRun) int32 {
	if len(runs) == 0 {
		return -1
	}
	return runs[len(runs)-1].Epoch
}

// resumedEpochs is what is known of the records below the end of the destination's log: what was recorded, which goes
// as far as the copy is known to have come; or the epoch that the source shows for the last record.
func resumedEpochs(progress *state.Progress, end int64, tailEpoch int32) []state.EpochRun {
	if end <= progress.CopiedOffset {
		if runs := epochsBelow(progress.Epochs, end); len(runs) > 0 {
			return runs
		}
	}
	if tailEpoch < 0 {
		return nil
	}
	return []state.EpochRun{{Epoch: tailEpoch, StartOffset: end - 1}}
}
