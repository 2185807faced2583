package state

import (
	"maps"
	"slices"
	"strings"
)

// View is an immutable snapshot of the state, for any number of goroutines. Everything that its methods return by
// pointer, map or slice is shared: read only.
type View struct {
	loaded   bool
	revision int64

	mirrors map[string]*Mirror
	topics  map[TopicID]*Topic
	// names holds more than one topic for a name only while a tail has read the record of a recreated topic but not yet
	// the tombstone of the old one.
	names     map[string][]*Topic
	parts     map[partsKey]*parts
	sourceIDs map[string]TopicID
	former    map[TopicID]string
	fillers   *fillers

	brokerConfigs map[string]keptConfig

	// The verdict of the produce path, computed once a change.
	readOnlyNames map[string]*Topic
	readOnlyIDs   map[TopicID]*Topic

	stateTopicID TopicID
	owner        ownerState
}

// partsKey finds the partitions of a topic in one mirror. The mirror is part of it because a topic that another mirror
// adds after this one stopped it starts afresh, and gets its old state back if that Add is rolled back.
type partsKey struct {
	mirror string
	topic  TopicID
}

// parts is the stored partitions of a topic by partition number; nil where there is no record. The Partition of a slot
// is kept as its two records (the KIP's types 1 and 2).
type parts struct {
	edition    *edition
	states     []*Partition // LastMirroredOffset is not used here
	lastOffset []*int64
	progress   []*Progress
}

// Loaded says that the view shows the whole stored state. Until then nothing may be concluded from what it lacks.
func (v *View) Loaded() bool { return v.loaded }

// unloaded is the same view, not to be relied on.
func (v *View) unloaded() *View {
	u := *v
	u.loaded = false
	return &u
}

// Revision grows with every new view of a store.
func (v *View) Revision() int64 { return v.revision }

// Mirror finds a mirror by name.
func (v *View) Mirror(name string) (*Mirror, bool) {
	m, ok := v.mirrors[name]
	return m, ok
}

// Mirrors lists the mirrors by name.
func (v *View) Mirrors() []*Mirror {
	return slices.SortedFunc(maps.Values(v.mirrors), func(a, b *Mirror) int { return strings.Compare(a.Name, b.Name) })
}

// Topic finds a mirror topic by name, stopped ones included.
func (v *View) Topic(name string) (*Topic, bool) {
	t := preferred(v.names[name])
	return t, t != nil
}

// TopicByID finds a mirror topic by the destination's topic id, stopped ones included.
func (v *View) TopicByID(id TopicID) (*Topic, bool) {
	t, ok := v.topics[id]
	return t, ok
}

// TopicsOf lists the topics of a mirror by name, stopped ones included.
func (v *View) TopicsOf(mirror string) []*Topic {
	return v.sortedTopics(func(t *Topic) bool { return t.Mirror == mirror })
}

// Adding lists the topics whose Add has not ended. When the owner that began it is gone, the next one rolls them back.
func (v *View) Adding() []*Topic {
	return v.sortedTopics(func(t *Topic) bool { return t.Desired == DesiredAdding })
}

func (v *View) sortedTopics(keep func(*Topic) bool) []*Topic {
	var topics []*Topic
	for _, t := range v.topics {
		if keep(t) {
			topics = append(topics, t)
		}
	}
	slices.SortFunc(topics, compareTopics)
	return topics
}

func compareTopics(a, b *Topic) int {
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return slices.Compare(a.ID[:], b.ID[:])
}

// preferred is the topic that counts among those of one name: one that is not removed before one that is.
func preferred(topics []*Topic) *Topic {
	var best *Topic
	for _, t := range topics {
		switch {
		case best == nil,
			best.Desired == DesiredStopped && t.Desired != DesiredStopped,
			(best.Desired == DesiredStopped) == (t.Desired == DesiredStopped) && compareTopics(t, best) < 0:
			best = t
		}
	}
	return best
}

// Partition is the actual state of a partition; Status Unknown and offset -1 when there is none.
func (v *View) Partition(p PartitionID) Partition {
	if t, ok := v.topics[p.Topic]; ok {
		return v.parts[partsKey{t.Mirror, t.ID}].partition(p.Partition)
	}
	return noPartition()
}

// Progress is the replicator's progress of a partition; -1 everywhere when there is none.
func (v *View) Progress(p PartitionID) Progress {
	if t, ok := v.topics[p.Topic]; ok {
		return v.parts[partsKey{t.Mirror, t.ID}].progressOf(p.Partition)
	}
	return noProgress()
}

// ReadOnly says that clients must not write to the topic: it is not removed, or not every partition is STOPPED.
func (v *View) ReadOnly(t *Topic) bool { return readOnly(t, v.parts[partsKey{t.Mirror, t.ID}]) }

func readOnly(t *Topic, p *parts) bool {
	return t.Desired != DesiredStopped || !p.allStopped(t.Partitions)
}

// ReadOnlyName finds a read-only topic by name, without allocating.
func (v *View) ReadOnlyName(name []byte) (*Topic, bool) {
	t, ok := v.readOnlyNames[string(name)]
	return t, ok
}

// ReadOnlyID finds a read-only topic by the destination's topic id, without allocating.
func (v *View) ReadOnlyID(id [16]byte) (*Topic, bool) {
	t, ok := v.readOnlyIDs[id]
	return t, ok
}

// HasReadOnly says that there is a read-only topic at all.
func (v *View) HasReadOnly() bool { return len(v.readOnlyIDs) > 0 }

// SourceIDOf is the source topic id that a topic was created with and that waits for the topic to be added.
func (v *View) SourceIDOf(name string) (TopicID, bool) {
	id, ok := v.sourceIDs[name]
	return id, ok
}

// KeptBrokerConfig is what a cluster-wide broker config of the destination was before the owner changed it, nil for not
// set; kept is false for one that is as it was.
func (v *View) KeptBrokerConfig(name string) (previous *string, kept bool) {
	config, kept := v.brokerConfigs[name]
	return config.previous, kept
}

// CreatedFrom is the name of the topic that was created with a source topic id and waits to be added.
func (v *View) CreatedFrom(sourceID TopicID) (name string, ok bool) {
	for name, id := range v.sourceIDs {
		if id == sourceID {
			return name, true
		}
	}
	return "", false
}

// StateTopicID is the id of __mirror_state on the destination, once known.
func (v *View) StateTopicID() (TopicID, bool) { return v.stateTopicID, !v.stateTopicID.IsZero() }

// Owner is who owns the mirrors as far as this view shows; without InstanceID and Address when nobody does.
func (v *View) Owner() Owner { return v.owner.public() }

func (p *parts) partition(i int32) Partition {
	result := noPartition()
	if p == nil {
		return result
	}
	if state := slot(p.states, i); state != nil {
		result = *state
		result.LastMirroredOffset = -1
	}
	if offset := slot(p.lastOffset, i); offset != nil {
		result.LastMirroredOffset = *offset
	}
	return result
}

func (p *parts) progressOf(i int32) Progress {
	if p != nil {
		if progress := slot(p.progress, i); progress != nil {
			return *progress
		}
	}
	return noProgress()
}

func (p *parts) allStopped(partitions int32) bool {
	if p == nil || int(partitions) > len(p.states) {
		return false
	}
	for _, s := range p.states[:partitions] {
		if s == nil || s.Status != Stopped {
			return false
		}
	}
	return true
}
