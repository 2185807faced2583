package state

// Command is a change somebody asks for. The structs below are the commands there are.
type Command interface {
	// decide is pure: it looks at the model and returns the records that carry the command out (none when there is
	// nothing to do), or why it is refused. nowMs is the time in Unix milliseconds.
	decide(d *draft, nowMs int64) ([]record, *Error)
}

// CreateMirror makes a mirror. One that exists with the same configs is a success, with others CodeMirrorExists.
type CreateMirror struct {
	Name    string
	Configs map[string]string
}

// AlterMirror sets and deletes configs and counts up the revision.
type AlterMirror struct {
	Name   string
	Set    map[string]string
	Delete []string
}

// DeleteMirror forgets a mirror and all its topics; CodeMirrorNotEmpty while one of them is not STOPPED. That there may be
// filler in those topics stays known until ForgetTopic.
type DeleteMirror struct{ Name string }

// SetSourceCluster records the id that the source cluster reported.
type SetSourceCluster struct{ Mirror, ClusterID string }

// AddTopic begins to add a topic: DesiredAdding, read-only from here on. CodeTopicInMirror when the topic is in a mirror
// and was not removed from it; CodeBeingRemoved when another mirror has not stopped it yet.
type AddTopic struct {
	Mirror, Name string
	ID, SourceID TopicID
	Partitions   int32
	Engine       string
	Guard        Guard
	HandBack     map[string]*string
}

// ConfirmTopic ends an Add well: the topic is mirrored from here on (or paused, if that was asked meanwhile). An error
// when the topic is not being added any more, because it was removed meanwhile or rolled back by a new owner.
type ConfirmTopic struct{ ID TopicID }

// RollbackTopic ends an Add that did not work out: the topic is again what it was before. Nothing happens when the topic
// is not being added.
type RollbackTopic struct{ ID TopicID }

// RemoveTopic asks to stop mirroring a topic and to make it writable. A topic that is still being added is rolled back.
type RemoveTopic struct{ Mirror, Name string }

// PauseTopic asks to stop copying for a while. Pausing a paused topic is a success.
type PauseTopic struct{ Mirror, Name string }

// ResumeTopic takes a pause back.
type ResumeTopic struct{ Mirror, Name string }

// MovePartition records what has become of a partition; CodeBadTransition when CanMove says no. Error, Retriable and
// Attempt replace what was there.
type MovePartition struct {
	Partition          PartitionID
	To                 Status
	LastMirroredOffset int64 // -1 keeps what is recorded
	Error              string
	Retriable          bool
	Attempt            int32
}

// SetProgress records the replicator's progress.
type SetProgress struct {
	Partition PartitionID
	Progress  Progress
}

// GrowTopic records that the topic has more partitions.
type GrowTopic struct {
	ID         TopicID
	Partitions int32
}

// SetTopicError records what is wrong with a topic as a whole, "" that nothing is any more.
type SetTopicError struct {
	ID    TopicID
	Error string
}

// ForgetTopic drops everything about a topic: it is gone on the destination.
type ForgetTopic struct{ ID TopicID }

// KeepBrokerConfig records what a cluster-wide broker config of the destination was before the owner changes it; nil that
// it was not set.
type KeepBrokerConfig struct {
	Name     string
	Previous *string
}

// ForgetBrokerConfig records that a cluster-wide broker config is again what it was, or somebody else's business.
type ForgetBrokerConfig struct{ Name string }

// RememberSourceID records the source topic id that a topic was created with, until the topic is added to a mirror. The
// zero id forgets it.
type RememberSourceID struct {
	Name     string
	SourceID TopicID
}
