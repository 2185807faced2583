package state

import "math"

// recordType is the first field of a key of __mirror_state. 1 and 2 mean what they mean in the KIP (their keys name
// the topic's id and the partition as well, or compaction would keep one record a mirror); from 100 up they are ours.
type recordType int16

const (
	typeLastOffset recordType = 1
	typeStatus     recordType = 2
	typeMirror     recordType = 100
	typeTopic      recordType = 101
	typeProgress   recordType = 102
	typeOwner      recordType = 103
	typeSync       recordType = 104
	typeSourceID   recordType = 105
	typeBorn       recordType = 106
	typeFormer     recordType = 107
	typeBroker     recordType = 108
)

// record is one put or tombstone. Applying is an idempotent put by key: any log that holds the last record of each key,
// with the order per key kept, gives the same content.
type record interface {
	appendKey(b []byte) []byte
	// appendValue appends the value; it returns nil for a tombstone.
	appendValue(b []byte) []byte
	apply(d *draft)
	// stored is the record of the same key as the draft has it now: applying it later undoes what came between.
	stored(d *draft) record
	// placement is the string whose hash chooses the partition of __mirror_state; "" for a record that goes to all.
	placement() string
}

// maxRecordBytes keeps a record well below the broker's default max.message.bytes of 1 MiB.
const maxRecordBytes = 900 << 10

func checkSizes(records []record) *Error {
	for _, r := range records {
		if size := len(r.appendKey(nil)) + len(r.appendValue(nil)); size > maxRecordBytes {
			return refuse(CodeInvalid, "The change needs a record of %d bytes in __mirror_state; the limit is %d.", size, maxRecordBytes)
		}
	}
	return nil
}

type mirrorRecord struct {
	name  string
	value *Mirror // nil in each record: tombstone
}

func (r mirrorRecord) placement() string { return r.name }

func (r mirrorRecord) apply(d *draft) {
	if r.value == nil {
		d.dropMirror(r.name)
		return
	}
	d.putMirror(r.value)
}

func (r mirrorRecord) stored(d *draft) record { return mirrorRecord{r.name, d.mirrors.m[r.name]} }

// topicRecord is keyed by the topic's id alone and lives where the id hashes to, so that a topic that moves to another
// mirror does so in one record.
type topicRecord struct {
	id    TopicID
	value *Topic
}

func (r topicRecord) placement() string { return r.id.String() }

func (r topicRecord) apply(d *draft) {
	if r.value == nil {
		d.dropTopic(r.id)
		return
	}
	d.putTopic(r.value)
}

func (r topicRecord) stored(d *draft) record { return topicRecord{r.id, d.topics.m[r.id]} }

// partitionKey is the key of the records of one mirror partition.
type partitionKey struct {
	mirror    string
	topic     TopicID
	partition int32
}

func (k partitionKey) parts() partsKey { return partsKey{k.mirror, k.topic} }

// statusRecord is the KIP's MirrorPartitionState: everything of a Partition but LastMirroredOffset.
type statusRecord struct {
	partitionKey
	value *Partition
}

func (r statusRecord) apply(d *draft) {
	p := d.editParts(r.parts())
	p.states = putSlot(p.states, r.partition, r.value)
	d.dropPartsIfEmpty(r.parts())
}

func (r statusRecord) stored(d *draft) record {
	p := d.storedParts(r.partitionKey)
	return statusRecord{r.partitionKey, slot(p.states, r.partition)}
}

// lastOffsetRecord is the KIP's LastMirroredOffsets, for one partition.
type lastOffsetRecord struct {
	partitionKey
	value *int64
}

func (r lastOffsetRecord) apply(d *draft) {
	p := d.editParts(r.parts())
	p.lastOffset = putSlot(p.lastOffset, r.partition, r.value)
	d.dropPartsIfEmpty(r.parts())
}

func (r lastOffsetRecord) stored(d *draft) record {
	p := d.storedParts(r.partitionKey)
	return lastOffsetRecord{r.partitionKey, slot(p.lastOffset, r.partition)}
}

type progressRecord struct {
	partitionKey
	value *Progress
}

func (r progressRecord) apply(d *draft) {
	p := d.editParts(r.parts())
	p.progress = putSlot(p.progress, r.partition, r.value)
	d.dropPartsIfEmpty(r.parts())
}

func (r progressRecord) stored(d *draft) record {
	p := d.storedParts(r.partitionKey)
	return progressRecord{r.partitionKey, slot(p.progress, r.partition)}
}

// sourceIDRecord is a source topic id that waits for its topic to be added.
type sourceIDRecord struct {
	name  string
	value *TopicID
}

func (r sourceIDRecord) placement() string { return r.name }

func (r sourceIDRecord) apply(d *draft) {
	d.changed = true
	if r.value == nil {
		d.sourceIDs.remove(r.name)
		return
	}
	d.sourceIDs.set(r.name, *r.value)
}

func (r sourceIDRecord) stored(d *draft) record {
	if id, ok := d.sourceIDs.m[r.name]; ok {
		return sourceIDRecord{r.name, &id}
	}
	return sourceIDRecord{name: r.name}
}

// brokerConfigRecord is what a cluster-wide broker config of the destination was before the owner changed it.
type brokerConfigRecord struct {
	name  string
	value *keptConfig
}

type keptConfig struct {
	previous *string // nil: it was not set
}

func (r brokerConfigRecord) placement() string { return r.name }

func (r brokerConfigRecord) apply(d *draft) {
	d.changed = true
	if r.value == nil {
		d.brokerConfigs.remove(r.name)
		return
	}
	d.brokerConfigs.set(r.name, *r.value)
}

func (r brokerConfigRecord) stored(d *draft) record {
	if kept, ok := d.brokerConfigs.m[r.name]; ok {
		return brokerConfigRecord{r.name, &kept}
	}
	return brokerConfigRecord{name: r.name}
}

// ownerState is the last word of an owner.
type ownerState struct {
	Owner
	// Heartbeat counts the owner's heartbeats, so that one differs from the one before.
	Heartbeat int64
	// Released: the owner ended and left nothing behind.
	Released bool
}

func (o ownerState) public() Owner {
	if o.Released {
		return Owner{Generation: o.Generation}
	}
	return o.Owner
}

// ownerRecord is the owner's heartbeat: one key for all.
type ownerRecord struct{ value ownerState }

const ownerPlacement = "owner"

func (r ownerRecord) placement() string { return ownerPlacement }

func (r ownerRecord) apply(d *draft) {
	if d.owner.public() != r.value.public() {
		d.changed = true // a mere heartbeat is not worth a view
	}
	d.owner = r.value
}

func (r ownerRecord) stored(d *draft) record { return ownerRecord{d.owner} }

// syncRecord is what a proxy writes to every state partition: when it has read it back it has read everything before it
// too. It says nothing and is written as a tombstone, so that compaction leaves none behind.
type syncRecord struct{ instanceID string }

func (r syncRecord) placement() string { return "" }
func (r syncRecord) apply(*draft)      {}

func (r syncRecord) stored(*draft) record { return r }

// bornRecord is written before the first owner of a log asks for its producer id. A log without one on a cluster that
// knows our transactional id is not a new one: it has lost what it held.
type bornRecord struct{}

func (r bornRecord) placement() string { return ownerPlacement }
func (r bornRecord) apply(d *draft)    { d.born = true }

func (r bornRecord) stored(*draft) record { return r }

// maxPartition bounds a partition number, so that a damaged record cannot make us allocate without end.
const maxPartition = 1 << 20

// placePartition is the partition of __mirror_state, out of n, for a placement string: abs of Java's String.hashCode,
// as the KIP's coordinator does it, where abs of the smallest number is 0.
func placePartition(placement string, n int32) int32 {
	h := javaStringHash(placement)
	if h == math.MinInt32 {
		return 0
	}
	if h < 0 {
		h = -h
	}
	return h % n
}
