package replicate

import (
	"slices"

	"kafka-mirror-proxy/state"
)

// maxEpochRuns bounds what is kept of a partition. Only the last run below the end of the copy is asked for, unless the
// destination has lost the end of its log.
const maxEpochRuns = 8

// appendEpoch notes that records from an offset on carry a source leader epoch, -1 when that is not known. Epochs only grow,
// so what is not known between two records of one epoch belongs to it.
func appendEpoch(runs []state.EpochRun, start int64, epoch int32) []state.EpochRun {
	n := len(runs)
	switch {
	case n == 0 && epoch < 0, n > 0 && runs[n-1].Epoch == epoch:
		return runs
	case n > 1 && runs[n-1].Epoch < 0 && runs[n-2].Epoch == epoch:
		return runs[:n-1]
	}
	if more := n - (maxEpochRuns - 1); more > 0 {
		runs = slices.Delete(runs, 0, more)
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

// lastEpoch is the source leader epoch of the last record; -1 when it is not known.
func lastEpoch(runs []state.EpochRun) int32 {
	if len(runs) == 0 {
		return -1
	}
	return runs[len(runs)-1].Epoch
}

// lastKnownEpoch is the epoch of the last record below end of which it is known, and the offset behind it at most; -1 for both
// when there is none.
func lastKnownEpoch(runs []state.EpochRun, end int64) (epoch int32, upTo int64) {
	for _, run := range slices.Backward(runs) {
		if run.Epoch >= 0 {
			return run.Epoch, end
		}
		end = run.StartOffset
	}
	return -1, -1
}

// resumedEpochs is what is known of the records below the end of the destination's log: what was recorded, which goes
// as far as the copy is known to have come; and the epoch that the source shows for the last record. Of what lies between
// nothing is known, as of a hole.
func resumedEpochs(progress *state.Progress, end int64, tailEpoch int32) []state.EpochRun {
	if end <= progress.CopiedOffset {
		if runs := epochsBelow(progress.Epochs, end); len(runs) > 0 {
			return runs
		}
	}
	var runs []state.EpochRun
	if copied := progress.CopiedOffset; end > copied && len(progress.Epochs) > 0 {
		runs = epochsBelow(progress.Epochs, copied)
		runs = appendEpoch(runs, copied, -1)
	}
	if tailEpoch >= 0 {
		runs = appendEpoch(runs, end-1, tailEpoch)
	}
	return runs
}
