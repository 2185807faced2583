package state

import (
	"encoding/base64"
	"fmt"
)

// TopicID is a topic's 128-bit id; the zero value means none.
type TopicID [16]byte

// String is the id as Kafka writes it: base64url of the 16 bytes without padding.
func (id TopicID) String() string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// IsZero says that there is no id.
func (id TopicID) IsZero() bool { return id == TopicID{} }

// PartitionID names one mirror partition.
type PartitionID struct {
	Topic     TopicID // of the topic on the destination
	Partition int32
}

// String is "<topic id>-<partition>".
func (p PartitionID) String() string { return fmt.Sprintf("%s-%d", p.Topic, p.Partition) }

// Desired is what the operator asked for a topic. What is reached is the Status of each partition.
type Desired int8

const (
	// DesiredAdding: an Add is under way. The topic is read-only already; the barrier and the check that the topic is
	// empty are not over, so nothing may be mirrored yet.
	DesiredAdding Desired = 1
	// DesiredMirroring: the topic follows its source.
	DesiredMirroring Desired = 2
	// DesiredPaused: the topic stands still and stays read-only.
	DesiredPaused Desired = 3
	// DesiredStopped: the topic was removed; writable once every partition is STOPPED.
	DesiredStopped Desired = 4
)

// String is the lower case name, for logs.
func (d Desired) String() string {
	switch d {
	case DesiredAdding:
		return "adding"
	case DesiredMirroring:
		return "mirroring"
	case DesiredPaused:
		return "paused"
	case DesiredStopped:
		return "stopped"
	}
	return fmt.Sprintf("desired(%d)", int8(d))
}

// Mirror is one source cluster and the configs to reach it.
type Mirror struct {
	Name    string
	Configs map[string]string
	// SourceClusterID is the id the source reported first, "" until then.
	SourceClusterID string
	// Revision grows at every alter, and when a mirror is made again, so that who holds connections knows that they are out of date.
	Revision int64
}

// Topic is one mirror topic.
type Topic struct {
	Mirror, Name string
	// ID is the destination topic's, SourceID the source's (zero for a source that has none).
	ID, SourceID TopicID
	Partitions   int32
	Desired      Desired
	// WasStopped: this Add found the topic STOPPED (or on its way there) in the same mirror, so it may hold records up to
	// each partition's LastMirroredOffset.
	WasStopped bool
	// PauseWhenAdded: a pause came while the topic was still being added; ConfirmTopic honours it.
	PauseWhenAdded bool
	// Engine that mirrors the topic, resolved once at Add.
	Engine string
	// HandBack is the topic configs to set in one step at STOPPED; a nil value deletes the override.
	HandBack map[string]*string
	// Guard says whose ACL keeps everyone but the proxy from writing to the topic at the broker.
	Guard Guard
	// Error is what is wrong with the topic as a whole, "" when nothing is.
	Error string

	// prior is the topic as it was before the Add under way, to be restored by RollbackTopic. Only while DesiredAdding.
	prior *Topic
}

// MirrorNameConfig is the value of the topic config mirror.name: "m", "m.paused" or "m.removed".
func (t *Topic) MirrorNameConfig() string {
	switch {
	case t.Desired == DesiredStopped:
		return t.Mirror + ".removed"
	case t.Desired == DesiredPaused, t.Desired == DesiredAdding && t.PauseWhenAdded:
		return t.Mirror + ".paused"
	}
	return t.Mirror
}

// Partition is the actual state of one mirror partition.
type Partition struct {
	Status, Previous Status
	// LastMirroredOffset is the log end recorded at STOPPED; -1 when there is none.
	LastMirroredOffset int64
	// SinceMs is when Status was entered, Unix milliseconds.
	SinceMs int64
	// Attempt counts the retries of a FAILED partition.
	Attempt int32
	// Error says why the partition is FAILED; Retriable that trying again may help.
	Error     string
	Retriable bool
}

func noPartition() Partition {
	return Partition{Status: Unknown, Previous: Unknown, LastMirroredOffset: -1}
}

// Progress is the replicator's own notebook for one partition.
type Progress struct {
	// FillToOffset is the goal of the leading filler; -1 when there is none. Of a partition that was STOPPED in the middle
	// of it, it is how far the filler came. Below it there is nothing but filler.
	FillToOffset int64
	// ReservedOffset: no batch of the owner ReservedBy starts at or beyond it; -1 when nothing is reserved, which is also
	// what an owner writes when it has stopped the partition cleanly (every request answered).
	ReservedOffset int64
	// ReservedBy is the generation of the owner that made the reservation.
	ReservedBy int64
	// UncleanOffset is the highest reservation of an owner that did not stop cleanly; -1 when there is none, or it is too
	// long ago to matter. Once the log has passed it, nothing such an owner left behind can still be appended, as long as
	// the broker remembers the mirror's producer.
	UncleanOffset int64
	// CopiedOffset: the destination is known to hold the source's records (or filler) up to here, as of the last time that
	// this was noted; -1 when nothing was.
	CopiedOffset int64
	// Epochs are the source's leader epochs of the records below CopiedOffset, by start offset, lowest first. Where they
	// do not reach, the epochs are not known.
	Epochs []EpochRun
	// CopiedAtMs: whatever the source held from CopiedOffset on was still to be read at this moment (Unix milliseconds), as of
	// the last time that this was noted; 0 when it never was.
	CopiedAtMs int64
	// Skipped is what the operator has let pass by mirror.gap.policy=skip.
	Skipped Skipped
}

// Skipped is what a mirror partition lacks of its source, because it was gone before it was copied. The zero value is
// nothing.
type Skipped struct {
	// From and To are the last gap: the destination holds filler at the offsets from From to below To.
	From, To int64
	// Records is how many offsets all gaps had.
	Records int64
	// Note says for the operator what was skipped last.
	Note string
}

// EpochRun says that records from StartOffset on carry the source leader epoch Epoch, until the next run.
type EpochRun struct {
	Epoch       int32
	StartOffset int64
}

func noProgress() Progress {
	return Progress{FillToOffset: -1, ReservedOffset: -1, ReservedBy: 0, UncleanOffset: -1, CopiedOffset: -1}
}

// TakeOver is the progress as the owner of a new generation has to store it before its first write to the partition: a
// reservation that another generation left behind counts as unclean.
func (p Progress) TakeOver(generation int64) Progress {
	if p.ReservedBy == generation {
		return p
	}
	p.UncleanOffset = max(p.UncleanOffset, p.ReservedOffset)
	p.ReservedOffset = -1
	p.ReservedBy = generation
	return p
}

// Owner is the process that owns the mirrors: it alone changes the state and writes to mirror topics.
type Owner struct {
	InstanceID string // "" when nobody owns them
	Address    string // host:port for clients
	Generation int64  // grows with each take-over
}
