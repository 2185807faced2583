package sim

import (
	"slices"

	"kafka-mirror-proxy/protocol/batch"
)

// stored is a batch as it stands in a log.
type stored struct {
	base, last int64
	raw        batch.Batch
	// producers is what the leader remembers of producers after this batch (destination only). Never changed, only replaced.
	producers map[int64]producer
}

type epochStart struct {
	epoch int32
	start int64
}

// partitionLog is a partition's log as its leader has it. The cluster's mutex guards it.
type partitionLog struct {
	leader  int32
	epoch   int32
	epochs  []epochStart
	batches []stored
	start   int64 // log start offset
	end     int64 // log end offset
	hw      int64 // high watermark
	changed chan struct{}
}

func newLog(start int64) partitionLog {
	return partitionLog{start: start, end: start, hw: start, epochs: []epochStart{{0, start}}, changed: make(chan struct{})}
}

// notify wakes whoever waits for a change.
func (l *partitionLog) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *partitionLog) put(s stored) {
	batch.SetBaseOffset(s.raw, s.base)
	batch.SetLeaderEpoch(s.raw, l.epoch)
	l.batches = append(l.batches, s)
	l.end = s.last + 1
}

// find is the index of the first batch that ends at or behind an offset.
func (l *partitionLog) find(offset int64) int {
	i, _ := slices.BinarySearchFunc(l.batches, offset, func(s stored, offset int64) int {
		switch {
		case s.last < offset:
			return -1
		case s.base > offset:
			return 1
		}
		return 0
	})
	return i
}

// read is whole batches from the one that holds an offset on, one at least, as far as they begin below end.
func (l *partitionLog) read(offset, end int64, mostBytes int) []byte {
	var out []byte
	for _, s := range l.batches[l.find(offset):] {
		if s.base >= end || len(out) > 0 && len(out)+len(s.raw) > mostBytes {
			break
		}
		out = append(out, s.raw...)
	}
	return out
}

// cut drops whole batches from the one that holds offset on, and what is known of epochs there.
func (l *partitionLog) cut(offset int64) {
	i := l.find(offset)
	if i < len(l.batches) {
		offset = min(offset, l.batches[i].base)
	}
	l.batches = slices.Clip(l.batches[:i]) // readers may still hold what follows
	l.end = max(offset, l.start)
	l.hw = min(l.hw, l.end)
	for len(l.epochs) > 0 && l.epochs[len(l.epochs)-1].start >= l.end {
		l.epochs = l.epochs[:len(l.epochs)-1]
	}
}

// elect makes a broker the leader, with a new epoch.
func (l *partitionLog) elect(leader int32) {
	l.leader = leader
	l.epoch++
	if n := len(l.epochs); n > 0 && l.epochs[n-1].start >= l.end { // an epoch without a record
		l.epochs = l.epochs[:n-1]
	}
	l.epochs = append(l.epochs, epochStart{l.epoch, l.end})
	l.notify()
}

// epochEnd is OffsetForLeaderEpoch (LeaderEpochFileCache.endOffsetFor).
func (l *partitionLog) epochEnd(epoch int32) (int32, int64) {
	if len(l.epochs) == 0 || epoch > l.epochs[len(l.epochs)-1].epoch {
		return -1, -1
	}
	if epoch == l.epochs[len(l.epochs)-1].epoch {
		return epoch, l.end
	}
	known, end := epoch, l.end
	for i := len(l.epochs) - 1; i >= 0 && l.epochs[i].epoch > epoch; i-- {
		end = l.epochs[i].start
		if i > 0 && l.epochs[i-1].epoch <= epoch {
			known = l.epochs[i-1].epoch
		}
	}
	return known, end
}
