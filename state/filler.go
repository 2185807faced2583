package state

import "hash/fnv"

// maxFormer bounds the topics that are remembered after their mirror.
const maxFormer = maxTopics

// formerRecord remembers a topic whose mirror was deleted: filler stays in its log. A topic that is added again keeps its
// record, so that a rollback of that add, or its end in another deleted mirror, loses nothing.
type formerRecord struct {
	id   TopicID
	name string // "": tombstone
}

func (r formerRecord) placement() string { return r.id.String() }

func (r formerRecord) apply(d *draft) {
	if r.name == "" {
		d.former.remove(r.id)
	} else {
		d.former.set(r.id, r.name)
	}
	d.fillersChanged, d.changed = true, true
}

func (r formerRecord) stored(d *draft) record { return formerRecord{r.id, d.former.m[r.id]} }

// remember returns the record that keeps a topic in mind when its mirror forgets it, none when there is one.
func remember(d *draft, t *Topic) []record {
	if d.former.m[t.ID] == t.Name {
		return nil
	}
	return []record{formerRecord{t.ID, t.Name}}
}

// fillers is the topics whose logs may hold filler: those that are in a mirror, and those that were. It is never changed,
// but made anew where a topic comes or goes.
type fillers struct {
	ids   map[TopicID]struct{}
	names map[string]struct{}
	// fingerprint is the same for the same set, and for another one is another.
	fingerprint uint64
}

func (d *draft) refreshFillers() {
	if d.fillers != nil && !d.fillersChanged {
		return
	}
	d.fillersChanged = false
	f := &fillers{ids: map[TopicID]struct{}{}, names: map[string]struct{}{}}
	for id, name := range d.former.m {
		f.add(id, name)
	}
	for id, t := range d.topics.m {
		if d.former.m[id] != t.Name {
			f.add(id, t.Name)
		}
	}
	d.fillers = f
}

// add adds a pair that is not there yet. The hashes are summed, since a set has no order.
func (f *fillers) add(id TopicID, name string) {
	f.ids[id] = struct{}{}
	f.names[name] = struct{}{}
	hash := fnv.New64a()
	hash.Write(id[:])
	hash.Write([]byte(name))
	f.fingerprint += hash.Sum64()
}

// MayHoldFiller says whether a topic of this name is or was in a mirror, without allocating.
func (v *View) MayHoldFiller(name []byte) bool {
	if v.fillers == nil {
		return false
	}
	_, ok := v.fillers.names[string(name)]
	return ok
}

// MayHoldFillerID says so by the destination's topic id.
func (v *View) MayHoldFillerID(id [16]byte) bool {
	if v.fillers == nil {
		return false
	}
	_, ok := v.fillers.ids[id]
	return ok
}

// Fillers is a fingerprint of the topics that MayHoldFiller is true for: 0 while there is none, and another number as soon
// as one comes or goes.
func (v *View) Fillers() uint64 {
	if v.fillers == nil {
		return 0
	}
	return v.fillers.fingerprint
}

// Former is the names of the topics that were in a mirror and are in none, by id.
func (v *View) Former() map[TopicID]string {
	former := map[TopicID]string{}
	for id, name := range v.former {
		if _, ok := v.topics[id]; !ok {
			former[id] = name
		}
	}
	return former
}
