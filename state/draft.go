package state

import (
	"maps"
	"slices"
)

// draft is a View in the making. It belongs to one goroutine. Maps and partition lists that a view or another draft may
// share are copied before the first change after each view, so the cost of a view is one copy of each map that changed,
// however many changes went into it.
type draft struct {
	loaded   bool
	revision int64
	// born says that the log has had an owner or was meant to get one, see bornRecord.
	born bool

	mirrors       cow[string, *Mirror]
	topics        cow[TopicID, *Topic]
	names         cow[string, []*Topic]
	parts         cow[partsKey, *parts]
	sourceIDs     cow[string, TopicID]
	former        cow[TopicID, string] // names of topics whose mirror was deleted
	brokerConfigs cow[string, keptConfig]
	readOnlyNames cow[string, *Topic]
	readOnlyIDs   cow[TopicID, *Topic]

	fillers        *fillers
	fillersChanged bool

	stateTopicID TopicID
	owner        ownerState

	edition    *edition
	dirtyNames map[string]struct{}
	dirtyIDs   map[TopicID]struct{}
	changed    bool // something that a View shows
}

// edition marks what a draft has made itself since its last view, and may therefore change in place. Not empty, so that
// each has an address of its own.
type edition struct{ _ byte }

// cow is a map that is copied before it is changed unless this draft made the copy itself.
type cow[K comparable, V any] struct {
	m     map[K]V
	owned bool
}

func (c *cow[K, V]) own() {
	if !c.owned {
		if c.m = maps.Clone(c.m); c.m == nil {
			c.m = map[K]V{}
		}
		c.owned = true
	}
}

func (c *cow[K, V]) set(k K, v V) {
	c.own()
	c.m[k] = v
}

func (c *cow[K, V]) remove(k K) {
	if _, ok := c.m[k]; ok {
		c.own()
		delete(c.m, k)
	}
}

func (c *cow[K, V]) share() map[K]V {
	c.owned = false
	return c.m
}

func newDraft() *draft {
	return &draft{edition: new(edition), dirtyNames: map[string]struct{}{}, dirtyIDs: map[TopicID]struct{}{}}
}

// view freezes what there is.
func (d *draft) view() *View {
	d.refreshReadOnly()
	d.refreshFillers()
	d.edition = new(edition)
	d.revision++
	d.changed = false
	return &View{
		loaded:        d.loaded,
		revision:      d.revision,
		mirrors:       d.mirrors.share(),
		topics:        d.topics.share(),
		names:         d.names.share(),
		parts:         d.parts.share(),
		sourceIDs:     d.sourceIDs.share(),
		former:        d.former.share(),
		fillers:       d.fillers,
		brokerConfigs: d.brokerConfigs.share(),
		readOnlyNames: d.readOnlyNames.share(),
		readOnlyIDs:   d.readOnlyIDs.share(),
		stateTopicID:  d.stateTopicID,
		owner:         d.owner,
	}
}

// fork returns a draft with the same content. From then on each of the two can change without the other seeing it.
func (d *draft) fork() *draft {
	revision, changed := d.revision, d.changed
	d.view() // shares every map
	d.revision, d.changed = revision, changed
	f := *d
	f.edition = new(edition)
	f.dirtyNames, f.dirtyIDs = map[string]struct{}{}, map[TopicID]struct{}{}
	return &f
}

// decideAll decides the commands in order, each on what those before it have made, and applies their records. When one
// is refused, the draft is as before.
func (d *draft) decideAll(commands []Command, nowMs int64) ([]record, error) {
	var all, undo []record
	for _, command := range commands {
		records, refused := command.decide(d, nowMs)
		if refused == nil {
			refused = checkSizes(records)
		}
		if refused != nil {
			for _, r := range slices.Backward(undo) {
				r.apply(d)
			}
			return nil, refused
		}
		for _, r := range records {
			undo = append(undo, r.stored(d))
			r.apply(d)
		}
		all = append(all, records...)
	}
	return all, nil
}

func (d *draft) putMirror(m *Mirror) {
	d.mirrors.set(m.Name, m)
	d.changed = true
}

func (d *draft) dropMirror(name string) {
	d.mirrors.remove(name)
	d.changed = true
}

func (d *draft) putTopic(t *Topic) {
	if old, ok := d.topics.m[t.ID]; !ok || old.Name != t.Name {
		d.fillersChanged = true
	}
	d.unname(t.ID)
	d.topics.set(t.ID, t)
	d.names.set(t.Name, append(slices.Clone(d.names.m[t.Name]), t))
	d.touchTopic(t)
}

func (d *draft) dropTopic(id TopicID) {
	d.unname(id)
	d.topics.remove(id)
	d.dirtyIDs[id] = struct{}{}
	d.fillersChanged, d.changed = true, true
}

// unname takes the topic that has this id now out of the names.
func (d *draft) unname(id TopicID) {
	t, ok := d.topics.m[id]
	if !ok {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(d.names.m[t.Name]), func(other *Topic) bool { return other.ID == id })
	if len(rest) == 0 {
		d.names.remove(t.Name)
	} else {
		d.names.set(t.Name, rest)
	}
	d.dirtyNames[t.Name] = struct{}{}
}

func (d *draft) touchTopic(t *Topic) {
	d.dirtyIDs[t.ID] = struct{}{}
	d.dirtyNames[t.Name] = struct{}{}
	d.changed = true
}

// editParts returns the partitions of a topic in a mirror to be changed in place.
func (d *draft) editParts(key partsKey) *parts {
	p := d.parts.m[key]
	switch {
	case p == nil:
		p = &parts{edition: d.edition}
	case p.edition == d.edition:
		d.touchParts(key)
		return p
	default:
		p = &parts{
			edition:    d.edition,
			states:     slices.Clone(p.states),
			lastOffset: slices.Clone(p.lastOffset),
			progress:   slices.Clone(p.progress),
		}
	}
	d.parts.set(key, p)
	d.touchParts(key)
	return p
}

func (d *draft) touchParts(key partsKey) {
	d.changed = true
	if t, ok := d.topics.m[key.topic]; ok {
		d.touchTopic(t)
	}
}

// dropPartsIfEmpty forgets a topic's partitions when the last record of them is gone.
func (d *draft) dropPartsIfEmpty(key partsKey) {
	if p := d.parts.m[key]; p != nil && allNil(p.states) && allNil(p.lastOffset) && allNil(p.progress) {
		d.parts.remove(key)
	}
}

func allNil[T any](slots []*T) bool {
	return !slices.ContainsFunc(slots, func(v *T) bool { return v != nil })
}

// storedParts is the partitions that a key belongs to, for reading only.
func (d *draft) storedParts(k partitionKey) parts {
	if p := d.parts.m[k.parts()]; p != nil {
		return *p
	}
	return parts{}
}

// slot is what a partition has, nil for nothing.
func slot[T any](slots []*T, partition int32) *T {
	if partition < 0 || int(partition) >= len(slots) {
		return nil
	}
	return slots[partition]
}

// putSlot sets the slot of a partition, nil for none.
func putSlot[T any](slots []*T, partition int32, value *T) []*T {
	if value == nil && int(partition) >= len(slots) {
		return slots
	}
	if missing := int(partition) + 1 - len(slots); missing > 0 {
		slots = append(slots, make([]*T, missing)...)
	}
	slots[partition] = value
	return slots
}

func (d *draft) refreshReadOnly() {
	for id := range d.dirtyIDs {
		t := d.topics.m[id]
		if t != nil && !d.isReadOnly(t) {
			t = nil
		}
		putOrRemove(&d.readOnlyIDs, id, t)
	}
	for name := range d.dirtyNames {
		readOnlyOnes := slices.DeleteFunc(slices.Clone(d.names.m[name]), func(t *Topic) bool { return !d.isReadOnly(t) })
		putOrRemove(&d.readOnlyNames, name, preferred(readOnlyOnes))
	}
	clear(d.dirtyIDs)
	clear(d.dirtyNames)
}

// putOrRemove leaves a map alone, and so shared, that says so already.
func putOrRemove[K comparable](c *cow[K, *Topic], k K, t *Topic) {
	switch {
	case t == nil:
		c.remove(k)
	case c.m[k] != t:
		c.set(k, t)
	}
}

func (d *draft) isReadOnly(t *Topic) bool { return readOnly(t, d.parts.m[partsKey{t.Mirror, t.ID}]) }
