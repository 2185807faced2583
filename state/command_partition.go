package state

import "slices"

func (c MovePartition) decide(d *draft, nowMs int64) ([]record, *Error) {
	t, refused := knownPartition(d, c.Partition)
	if refused != nil {
		return nil, refused
	}
	if c.LastMirroredOffset < -1 {
		return nil, refuse(CodeInvalid, "The last mirrored offset %d of %s-%d is negative.", c.LastMirroredOffset, t.Name, c.Partition.Partition)
	}
	key := partitionKey{t.Mirror, t.ID, c.Partition.Partition}
	before := d.parts.m[key.parts()].partition(key.partition)
	if !CanMove(before.Status, c.To) {
		return nil, refuse(CodeBadTransition, "Partition %s-%d cannot go from %s to %s.", t.Name, key.partition, before.Status, c.To)
	}
	after := before
	after.Error, after.Retriable, after.Attempt = c.Error, c.Retriable, c.Attempt
	if c.To != before.Status {
		after.Status, after.Previous, after.SinceMs = c.To, before.Status, nowMs
	}
	after.LastMirroredOffset = -1 // not part of this record
	before.LastMirroredOffset = -1
	var records []record
	// The offset first: a reader that sees STOPPED should find it.
	if c.LastMirroredOffset >= 0 {
		records = append(records, lastOffsetRecord{key, &c.LastMirroredOffset})
	}
	if after != before {
		records = append(records, statusRecord{key, &after})
	}
	return records, nil
}

func (c SetProgress) decide(d *draft, _ int64) ([]record, *Error) {
	t, refused := knownPartition(d, c.Partition)
	if refused != nil {
		return nil, refused
	}
	p := c.Progress
	p.Epochs = slices.Clone(p.Epochs)
	key := partitionKey{t.Mirror, t.ID, c.Partition.Partition}
	// What an earlier owner has to say comes too late: it would hide a reservation of a later one.
	if stored := d.parts.m[key.parts()].progressOf(key.partition); stored.ReservedBy > p.ReservedBy {
		return nil, refuse(CodeNotOwner, "The progress of %s-%d was written by a later owner (%d, not %d).", t.Name, key.partition, stored.ReservedBy, p.ReservedBy)
	}
	return []record{progressRecord{key, &p}}, nil
}

func knownPartition(d *draft, p PartitionID) (*Topic, *Error) {
	t, refused := knownTopic(d, p.Topic)
	if refused != nil {
		return nil, refused
	}
	if p.Partition < 0 || p.Partition >= t.Partitions {
		return nil, refuse(CodeInvalid, "Topic %s has %d partitions; there is no partition %d.", t.Name, t.Partitions, p.Partition)
	}
	return t, nil
}
