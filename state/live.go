package state

import (
	"sync"
	"sync/atomic"
)

// Live is a board of figures that change too often to be stored: the replicator writes them, the mirror APIs and the
// metrics read them. Its methods may be called from any goroutine. Whoever forgets a partition removes it here too.
type Live struct {
	mu         sync.RWMutex
	partitions map[PartitionID]*LivePartition
	errors     map[string]string // by mirror, only those with something wrong
	warnings   map[string]string // by mirror, only those that go on without something
}

// LivePartition is the figures of one partition.
type LivePartition struct {
	// SourceOffset and DestinationOffset are the high watermarks; -1 while unknown.
	SourceOffset, DestinationOffset atomic.Int64
	// GuardedUntilMs is until when (Unix milliseconds) the destination's broker is sure to refuse what the mirror did not
	// mean to append at the log's end; 0 when it does not, and a record at a wrong offset can only be found
	// afterwards, -1 while unknown.
	GuardedUntilMs atomic.Int64
	// LaggingSinceMs is the moment (Unix milliseconds) from which on the destination has been behind; 0 when it is not.
	LaggingSinceMs atomic.Int64
	// InDoubt: nothing is written until what was sent earlier, and never answered, cannot arrive any more.
	InDoubt atomic.Bool
	// OpenTransactionOffset: the copy waits at this offset for a transaction of the source to end; -1 when it does not.
	OpenTransactionOffset atomic.Int64
	// LastFetchMs is when the source last answered a fetch (Unix milliseconds); 0 before the first.
	LastFetchMs atomic.Int64
	// GapRecords is how many records the source has deleted before they were copied, while the partition stands before them;
	// 0 when there are none.
	GapRecords atomic.Int64
}

// What keeps the mirror's records at their offsets, as LivePartition.Guard says.
const (
	GuardSequence  = "sequence"
	GuardDetection = "detection"
)

// Guard is GuardSequence while the destination's broker is sure to refuse what would stand at a wrong offset,
// GuardDetection while that could only be found afterwards, and "" while that is not known.
func (p *LivePartition) Guard(nowMs int64) string {
	switch until := p.GuardedUntilMs.Load(); {
	case until < 0:
		return ""
	case until > nowMs:
		return GuardSequence
	}
	return GuardDetection
}

// NewLive returns an empty board.
func NewLive() *Live {
	return &Live{partitions: map[PartitionID]*LivePartition{}, errors: map[string]string{}, warnings: map[string]string{}}
}

// Partition returns the figures of a partition, made when there are none.
func (l *Live) Partition(p PartitionID) *LivePartition {
	if lp, ok := l.Get(p); ok {
		return lp
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lp := l.partitions[p]
	if lp == nil {
		lp = &LivePartition{}
		lp.SourceOffset.Store(-1)
		lp.DestinationOffset.Store(-1)
		lp.OpenTransactionOffset.Store(-1)
		lp.GuardedUntilMs.Store(-1)
		l.partitions[p] = lp
	}
	return lp
}

// Get returns the figures of a partition if there are any.
func (l *Live) Get(p PartitionID) (*LivePartition, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	lp, ok := l.partitions[p]
	return lp, ok
}

// Remove forgets a partition.
func (l *Live) Remove(p PartitionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.partitions, p)
}

// SetMirrorError says what is wrong with the connection to a mirror's source; "" means that it is fine.
func (l *Live) SetMirrorError(mirror, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note(l.errors, mirror, text)
}

// SetMirrorWarning says what a mirror goes on without; "" means nothing.
func (l *Live) SetMirrorWarning(mirror, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	note(l.warnings, mirror, text)
}

// MirrorWarning is the text of SetMirrorWarning.
func (l *Live) MirrorWarning(mirror string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.warnings[mirror]
}

func note(notes map[string]string, mirror, text string) {
	if text == "" {
		delete(notes, mirror)
		return
	}
	notes[mirror] = text
}

// MirrorError is the text of SetMirrorError, "" when all is fine.
func (l *Live) MirrorError(mirror string) string {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.errors[mirror]
}
