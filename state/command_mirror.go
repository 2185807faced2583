package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Limits of what commands can make the state grow to. Far above sense, far below harm.
const (
	maxMirrors          = 1_000
	maxTopics           = 100_000
	maxPendingSourceIDs = 10_000
	maxBrokerConfigs    = 100
)

func (c CreateMirror) decide(d *draft, nowMs int64) ([]record, *Error) {
	if m, ok := d.mirrors.m[c.Name]; ok {
		if maps.Equal(m.Configs, c.Configs) {
			return nil, nil
		}
		return nil, refuse(CodeMirrorExists,
			"Mirror %s already exists with other configs; alter its configs (IncrementalAlterConfigs) to change it.", c.Name)
	}
	if c.Name == "" {
		return nil, refuse(CodeInvalid, "A mirror needs a name.")
	}
	if len(d.mirrors.m) >= maxMirrors {
		return nil, refuse(CodeInvalid, "There are %d mirrors already, which is the limit.", maxMirrors)
	}
	configs := maps.Clone(c.Configs)
	if configs == nil {
		configs = map[string]string{}
	}
	// By the clock, with room for a thousand alters in a millisecond: made again, a mirror has a higher revision than ever.
	return []record{mirrorRecord{c.Name, &Mirror{Name: c.Name, Configs: configs, Revision: nowMs * 1000}}}, nil
}

func (c AlterMirror) decide(d *draft, nowMs int64) ([]record, *Error) {
	m, refused := knownMirror(d, c.Name)
	if refused != nil {
		return nil, refused
	}
	altered := *m
	altered.Configs = maps.Clone(m.Configs)
	maps.Copy(altered.Configs, c.Set)
	for _, key := range c.Delete {
		delete(altered.Configs, key)
	}
	altered.Revision = max(altered.Revision+1, nowMs*1000)
	return []record{mirrorRecord{c.Name, &altered}}, nil
}

func (c SetSourceCluster) decide(d *draft, _ int64) ([]record, *Error) {
	m, refused := knownMirror(d, c.Mirror)
	if refused != nil || m.SourceClusterID == c.ClusterID {
		return nil, refused
	}
	changed := *m
	changed.SourceClusterID = c.ClusterID
	return []record{mirrorRecord{c.Mirror, &changed}}, nil
}

func (c DeleteMirror) decide(d *draft, _ int64) ([]record, *Error) {
	if _, refused := knownMirror(d, c.Name); refused != nil {
		return nil, refused
	}
	var ids []TopicID
	for id, t := range d.topics.m {
		if t.Mirror != c.Name {
			continue
		}
		if d.isReadOnly(t) {
			return nil, refuse(CodeMirrorNotEmpty, "Mirror %s still has topic %s, which is not STOPPED; remove it first.", c.Name, t.Name)
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b TopicID) int { return slices.Compare(a[:], b[:]) })
	var keys []partsKey // those of topics that another mirror is adding at this moment among them
	for key := range d.parts.m {
		if key.mirror == c.Name {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, comparePartsKeys)

	if len(d.former.m)+len(ids) > maxFormer {
		return nil, refuse(CodeInvalid, "%d topics of deleted mirrors are remembered, because there is filler in them; %d more would be "+
			"beyond the limit of %d. Delete topics that are not needed.", len(d.former.m), len(ids), maxFormer)
	}
	records := []record{mirrorRecord{name: c.Name}}
	for _, id := range ids { // first to be remembered, then to be forgotten: both are in one partition of the log
		records = append(append(records, remember(d, d.topics.m[id])...), topicRecord{id: id})
	}
	for _, key := range keys {
		records = append(records, forgetParts(d, key)...)
	}
	return records, nil
}

func (c RememberSourceID) decide(d *draft, _ int64) ([]record, *Error) {
	known, ok := d.sourceIDs.m[c.Name]
	switch {
	case c.Name == "":
		return nil, refuse(CodeInvalid, "A topic needs a name.")
	case c.SourceID.IsZero() && !ok, ok && known == c.SourceID:
		return nil, nil
	case c.SourceID.IsZero():
		return []record{sourceIDRecord{name: c.Name}}, nil
	case !ok && len(d.sourceIDs.m) >= maxPendingSourceIDs:
		return nil, refuse(CodeInvalid, "%d topics created with a source topic id wait to be added to a mirror, which is the limit.", maxPendingSourceIDs)
	}
	return []record{sourceIDRecord{c.Name, &c.SourceID}}, nil
}

func (c KeepBrokerConfig) decide(d *draft, _ int64) ([]record, *Error) {
	_, known := d.brokerConfigs.m[c.Name]
	switch {
	case c.Name == "":
		return nil, refuse(CodeInvalid, "A broker config needs a name.")
	case !known && len(d.brokerConfigs.m) >= maxBrokerConfigs:
		return nil, refuse(CodeInvalid, "%d broker configs are changed already, which is the limit.", maxBrokerConfigs)
	}
	return []record{brokerConfigRecord{c.Name, &keptConfig{c.Previous}}}, nil
}

func (c ForgetBrokerConfig) decide(d *draft, _ int64) ([]record, *Error) {
	if _, known := d.brokerConfigs.m[c.Name]; !known {
		return nil, nil
	}
	return []record{brokerConfigRecord{name: c.Name}}, nil
}

func knownMirror(d *draft, name string) (*Mirror, *Error) {
	m, ok := d.mirrors.m[name]
	if !ok {
		return nil, refuse(CodeUnknownMirror, "Mirror %s does not exist.", name)
	}
	return m, nil
}

// forgetParts is the tombstones of everything stored about the partitions of a topic in a mirror.
func forgetParts(d *draft, key partsKey) (records []record) {
	p := d.parts.m[key]
	if p == nil {
		return nil
	}
	for i := range int32(max(len(p.states), len(p.lastOffset), len(p.progress))) {
		k := partitionKey{key.mirror, key.topic, i}
		if slot(p.states, i) != nil {
			records = append(records, statusRecord{partitionKey: k})
		}
		if slot(p.lastOffset, i) != nil {
			records = append(records, lastOffsetRecord{partitionKey: k})
		}
		if slot(p.progress, i) != nil {
			records = append(records, progressRecord{partitionKey: k})
		}
	}
	return records
}

func comparePartsKeys(a, b partsKey) int {
	return cmp.Or(strings.Compare(a.mirror, b.mirror), slices.Compare(a.topic[:], b.topic[:]))
}
