package state

import "maps"

func (c AddTopic) decide(d *draft, _ int64) ([]record, *Error) {
	if _, refused := knownMirror(d, c.Mirror); refused != nil {
		return nil, refused
	}
	if c.Name == "" || c.ID.IsZero() || c.Partitions < 1 || c.Partitions > maxPartition {
		return nil, refuse(CodeInvalid, "Topic %q with id %s and %d partitions cannot be added.", c.Name, c.ID, c.Partitions)
	}
	// Both, by id and by name: a topic that was recreated since has the name with another id.
	same, byID := d.topics.m[c.ID]
	named := preferred(d.names.m[c.Name])
	for _, t := range []*Topic{same, named} {
		switch {
		case t == nil:
		case t.Desired != DesiredStopped:
			return nil, refuse(CodeTopicInMirror, "Topic %s is already in mirror %s.", t.Name, t.Mirror)
		case d.isReadOnly(t): // its configs are about to be given back
			return nil, refuse(CodeBeingRemoved, "Topic %s is still being removed from mirror %s; add it when it is STOPPED.", t.Name, t.Mirror)
		}
	}
	if !byID && len(d.topics.m) >= maxTopics {
		return nil, refuse(CodeInvalid, "There are %d mirror topics already, which is the limit.", maxTopics)
	}
	t := &Topic{
		Mirror: c.Mirror, Name: c.Name, ID: c.ID, SourceID: c.SourceID, Partitions: c.Partitions,
		Desired: DesiredAdding, Engine: c.Engine, Guard: c.Guard, HandBack: maps.Clone(c.HandBack),
	}
	if byID {
		t.WasStopped = same.Mirror == c.Mirror
		t.prior = same
	}
	records := []record{topicRecord{c.ID, t}}
	for _, old := range d.names.m[c.Name] {
		if old.ID != c.ID { // its topic is gone on the destination: this one has its name
			records = append(records, forgetTopic(d, old)...)
		}
	}
	return records, nil
}

func (c ConfirmTopic) decide(d *draft, _ int64) ([]record, *Error) {
	t, refused := knownTopic(d, c.ID)
	if refused != nil {
		return nil, refused
	}
	if t.Desired != DesiredAdding {
		if t.Desired == DesiredStopped {
			return nil, refuse(CodeBeingRemoved, "Topic %s was removed from mirror %s while it was being added.", t.Name, t.Mirror)
		}
		return nil, nil
	}
	confirmed := *t
	confirmed.prior, confirmed.PauseWhenAdded = nil, false
	confirmed.Desired = DesiredMirroring
	if t.PauseWhenAdded {
		confirmed.Desired = DesiredPaused
	}
	records := []record{topicRecord{t.ID, &confirmed}}
	if t.prior != nil && t.prior.Mirror != t.Mirror {
		records = append(records, forgetParts(d, partsKey{t.prior.Mirror, t.ID})...)
	}
	if _, ok := d.sourceIDs.m[t.Name]; ok {
		records = append(records, sourceIDRecord{name: t.Name})
	}
	return records, nil
}

func (c RollbackTopic) decide(d *draft, _ int64) ([]record, *Error) {
	t, ok := d.topics.m[c.ID]
	if !ok || t.Desired != DesiredAdding {
		return nil, nil
	}
	return rollback(d, t), nil
}

// rollback undoes an Add under way: back to what was before, or nothing when that was in a mirror deleted since.
func rollback(d *draft, t *Topic) []record {
	if t.prior == nil {
		return forgetTopic(d, t)
	}
	if _, ok := d.mirrors.m[t.prior.Mirror]; !ok {
		return append(remember(d, t.prior), forgetTopic(d, t)...)
	}
	records := []record{topicRecord{t.ID, t.prior}}
	if t.prior.Mirror != t.Mirror {
		records = append(records, forgetParts(d, partsKey{t.Mirror, t.ID})...)
	}
	return records
}

func (c RemoveTopic) decide(d *draft, _ int64) ([]record, *Error) {
	t, refused := mirroredTopic(d, c.Mirror, c.Name)
	switch {
	case refused != nil:
		return nil, refused
	case t.Mirror != c.Mirror:
		return nil, notInMirror(t, c.Mirror)
	case t.Desired == DesiredStopped:
		return nil, refuse(CodeTopicNotInMirror, "Topic %s was already removed from mirror %s.", t.Name, t.Mirror)
	case t.Desired == DesiredAdding:
		return rollback(d, t), nil // nothing of it was mirrored yet
	}
	return want(t, DesiredStopped), nil
}

func (c PauseTopic) decide(d *draft, _ int64) ([]record, *Error) {
	t, refused := mirroredTopic(d, c.Mirror, c.Name)
	switch {
	case refused != nil:
		return nil, refused
	case t.Desired == DesiredStopped:
		return nil, refuse(CodeBeingRemoved, "Topic %s was removed from mirror %s.", t.Name, t.Mirror)
	case t.Mirror != c.Mirror:
		return nil, notInMirror(t, c.Mirror)
	case t.Desired == DesiredPaused:
		return nil, nil
	case t.Desired == DesiredAdding:
		return pauseWhenAdded(t, true), nil
	}
	return want(t, DesiredPaused), nil
}

func (c ResumeTopic) decide(d *draft, _ int64) ([]record, *Error) {
	t, refused := mirroredTopic(d, c.Mirror, c.Name)
	pausedEarly := t != nil && t.Desired == DesiredAdding && t.PauseWhenAdded
	switch {
	case refused != nil:
		return nil, refused
	case t.Desired != DesiredPaused && !pausedEarly:
		return nil, refuse(CodeNotPaused, "Topic %s is not paused.", t.Name)
	case t.Mirror != c.Mirror:
		return nil, notInMirror(t, c.Mirror)
	case pausedEarly:
		return pauseWhenAdded(t, false), nil
	}
	return want(t, DesiredMirroring), nil
}

func want(t *Topic, desired Desired) []record {
	changed := *t
	changed.Desired = desired
	return []record{topicRecord{t.ID, &changed}}
}

func pauseWhenAdded(t *Topic, pause bool) []record {
	changed := *t
	changed.PauseWhenAdded = pause
	return []record{topicRecord{t.ID, &changed}}
}

func (c GrowTopic) decide(d *draft, _ int64) ([]record, *Error) {
	t, refused := knownTopic(d, c.ID)
	switch {
	case refused != nil:
		return nil, refused
	case c.Partitions == t.Partitions:
		return nil, nil
	case c.Partitions < t.Partitions || c.Partitions > maxPartition:
		return nil, refuse(CodeInvalid, "Topic %s has %d partitions; it cannot become one of %d.", t.Name, t.Partitions, c.Partitions)
	}
	changed := *t
	changed.Partitions = c.Partitions
	return []record{topicRecord{t.ID, &changed}}, nil
}

func (c SetTopicError) decide(d *draft, _ int64) ([]record, *Error) {
	t, refused := knownTopic(d, c.ID)
	if refused != nil || t.Error == c.Error {
		return nil, refused
	}
	changed := *t
	changed.Error = c.Error
	return []record{topicRecord{t.ID, &changed}}, nil
}

func (c ForgetTopic) decide(d *draft, _ int64) ([]record, *Error) {
	var records []record
	if _, ok := d.former.m[c.ID]; ok {
		records = append(records, formerRecord{id: c.ID})
	}
	if t, ok := d.topics.m[c.ID]; ok {
		records = append(records, forgetTopic(d, t)...)
	}
	return records, nil
}

func forgetTopic(d *draft, t *Topic) []record {
	records := append([]record{topicRecord{id: t.ID}}, forgetParts(d, partsKey{t.Mirror, t.ID})...)
	if t.prior != nil && t.prior.Mirror != t.Mirror {
		records = append(records, forgetParts(d, partsKey{t.prior.Mirror, t.ID})...)
	}
	return records
}

func knownTopic(d *draft, id TopicID) (*Topic, *Error) {
	t, ok := d.topics.m[id]
	if !ok {
		return nil, refuse(CodeTopicNotInMirror, "No mirror topic has the id %s.", id)
	}
	return t, nil
}

// mirroredTopic finds the topic that an operator names. That a topic is in no mirror at all has the code of an unknown
// mirror, as in the reference.
func mirroredTopic(d *draft, mirror, name string) (*Topic, *Error) {
	if _, refused := knownMirror(d, mirror); refused != nil {
		return nil, refused
	}
	t := preferred(d.names.m[name])
	if t == nil {
		return nil, refuse(CodeUnknownMirror, "Topic %s is in no mirror.", name)
	}
	return t, nil
}

func notInMirror(t *Topic, mirror string) *Error {
	return refuse(CodeTopicNotInMirror, "Topic %s is in mirror %s, not in mirror %s.", t.Name, t.Mirror, mirror)
}
