package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kbin"
)

// A key is an int16 type and its fields, a value an int16 version and its fields in the flexible encoding with a tagged
// field section at the end. A field that older readers may ignore becomes a tag; any other change a new version.
const recordVersion = 0

// partitionPlacement is the string a mirror partition is placed by: "<mirror>:<topic id>:<partition>".
func (k partitionKey) placement() string {
	return k.mirror + ":" + k.topic.String() + ":" + strconv.Itoa(int(k.partition))
}

// javaStringHash is String.hashCode: over UTF-16 code units in wrapping int32 arithmetic.
func javaStringHash(s string) (h int32) {
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(unit)
	}
	return h
}

func appendType(b []byte, t recordType) []byte { return kbin.AppendInt16(b, int16(t)) }

func (r mirrorRecord) appendKey(b []byte) []byte {
	return kbin.AppendString(appendType(b, typeMirror), r.name)
}

func (r topicRecord) appendKey(b []byte) []byte {
	return kbin.AppendUuid(appendType(b, typeTopic), r.id)
}

func (k partitionKey) append(b []byte, t recordType) []byte {
	b = kbin.AppendString(appendType(b, t), k.mirror)
	b = kbin.AppendUuid(b, k.topic)
	return kbin.AppendInt32(b, k.partition)
}

func (r statusRecord) appendKey(b []byte) []byte     { return r.append(b, typeStatus) }
func (r lastOffsetRecord) appendKey(b []byte) []byte { return r.append(b, typeLastOffset) }
func (r progressRecord) appendKey(b []byte) []byte   { return r.append(b, typeProgress) }

func (r sourceIDRecord) appendKey(b []byte) []byte {
	return kbin.AppendString(appendType(b, typeSourceID), r.name)
}

func (r formerRecord) appendKey(b []byte) []byte {
	return kbin.AppendUuid(appendType(b, typeFormer), r.id)
}

func (r brokerConfigRecord) appendKey(b []byte) []byte {
	return kbin.AppendString(appendType(b, typeBroker), r.name)
}

func (r ownerRecord) appendKey(b []byte) []byte { return appendType(b, typeOwner) }
func (r bornRecord) appendKey(b []byte) []byte  { return appendType(b, typeBorn) }

func (r syncRecord) appendKey(b []byte) []byte {
	return kbin.AppendString(appendType(b, typeSync), r.instanceID)
}

func appendVersion(b []byte) []byte { return kbin.AppendInt16(b, recordVersion) }
func appendNoTags(b []byte) []byte  { return append(b, 0) }

func (r mirrorRecord) appendValue(b []byte) []byte {
	if r.value == nil {
		return nil
	}
	b = appendVersion(b)
	b = kbin.AppendCompactArrayLen(b, len(r.value.Configs))
	for _, key := range slices.Sorted(maps.Keys(r.value.Configs)) {
		b = kbin.AppendCompactString(b, key)
		b = kbin.AppendCompactString(b, r.value.Configs[key])
		b = appendNoTags(b)
	}
	b = kbin.AppendCompactString(b, r.value.SourceClusterID)
	b = kbin.AppendInt64(b, r.value.Revision)
	return appendNoTags(b)
}

func (r topicRecord) appendValue(b []byte) []byte {
	if r.value == nil {
		return nil
	}
	return appendTags(appendTopic(appendVersion(b), r.value), r.value.tags())
}

// Tags of a topic record.
const tagGuard = 0

func (t *Topic) tags() []tag {
	if t.Guard == GuardNone {
		return nil
	}
	return []tag{{tagGuard, kbin.AppendInt8(nil, int8(t.Guard))}}
}

func (t *Topic) readTag(number uint32, v *kbin.Reader) bool {
	if number == tagGuard {
		t.Guard = Guard(v.Int8())
	}
	return number == tagGuard
}

func appendTopic(b []byte, t *Topic) []byte {
	b = kbin.AppendCompactString(b, t.Mirror)
	b = kbin.AppendCompactString(b, t.Name)
	b = kbin.AppendUuid(b, t.SourceID)
	b = kbin.AppendInt32(b, t.Partitions)
	b = kbin.AppendInt8(b, int8(t.Desired))
	b = kbin.AppendBool(b, t.WasStopped)
	b = kbin.AppendBool(b, t.PauseWhenAdded)
	b = kbin.AppendCompactString(b, t.Engine)
	b = kbin.AppendCompactArrayLen(b, len(t.HandBack))
	for _, key := range slices.Sorted(maps.Keys(t.HandBack)) {
		b = kbin.AppendCompactString(b, key)
		b = kbin.AppendCompactNullableString(b, t.HandBack[key])
		b = appendNoTags(b)
	}
	b = kbin.AppendCompactString(b, t.Error)
	b = kbin.AppendBool(b, t.prior != nil)
	if t.prior != nil {
		b = appendTopic(b, t.prior)
	}
	return b
}

func (r statusRecord) appendValue(b []byte) []byte {
	if r.value == nil {
		return nil
	}
	b = appendVersion(b)
	b = kbin.AppendInt8(b, int8(r.value.Status))
	b = kbin.AppendInt8(b, int8(r.value.Previous))
	b = kbin.AppendInt32(b, r.value.Attempt)
	b = kbin.AppendCompactString(b, r.value.Error)
	b = kbin.AppendBool(b, r.value.Retriable)
	b = kbin.AppendInt64(b, r.value.SinceMs)
	return appendNoTags(b)
}

func (r lastOffsetRecord) appendValue(b []byte) []byte {
	if r.value == nil {
		return nil
	}
	return appendNoTags(kbin.AppendInt64(appendVersion(b), *r.value))
}

func (r progressRecord) appendValue(b []byte) []byte {
	if r.value == nil {
		return nil
	}
	b = appendVersion(b)
	b = kbin.AppendInt64(b, r.value.FillToOffset)
	b = kbin.AppendInt64(b, r.value.ReservedOffset)
	b = kbin.AppendInt64(b, r.value.ReservedBy)
	b = kbin.AppendInt64(b, r.value.UncleanOffset)
	b = kbin.AppendInt64(b, r.value.CopiedOffset)
	b = kbin.AppendCompactArrayLen(b, len(r.value.Epochs))
	for _, run := range r.value.Epochs {
		b = kbin.AppendInt32(b, run.Epoch)
		b = kbin.AppendInt64(b, run.StartOffset)
		b = appendNoTags(b)
	}
	return appendTags(b, r.value.tags())
}

// Tags of a progress record.
const (
	tagCopiedAt = 0
	tagSkipped  = 1
)

func (p *Progress) tags() []tag {
	var tags []tag
	if p.CopiedAtMs != 0 {
		tags = append(tags, tag{tagCopiedAt, kbin.AppendInt64(nil, p.CopiedAtMs)})
	}
	if p.Skipped != (Skipped{}) {
		b := kbin.AppendInt64(nil, p.Skipped.From)
		b = kbin.AppendInt64(b, p.Skipped.To)
		b = kbin.AppendInt64(b, p.Skipped.Records)
		tags = append(tags, tag{tagSkipped, kbin.AppendCompactString(b, p.Skipped.Note)})
	}
	return tags
}

func (p *Progress) readTag(number uint32, v *kbin.Reader) bool {
	switch number {
	case tagCopiedAt:
		p.CopiedAtMs = v.Int64()
	case tagSkipped:
		p.Skipped = Skipped{From: v.Int64(), To: v.Int64(), Records: v.Int64(), Note: v.CompactString()}
	default:
		return false
	}
	return true
}

func (r sourceIDRecord) appendValue(b []byte) []byte {
	if r.value == nil {
		return nil
	}
	return appendNoTags(kbin.AppendUuid(appendVersion(b), *r.value))
}

func (r formerRecord) appendValue(b []byte) []byte {
	if r.name == "" {
		return nil
	}
	return appendNoTags(kbin.AppendCompactString(appendVersion(b), r.name))
}

func (r brokerConfigRecord) appendValue(b []byte) []byte {
	if r.value == nil {
		return nil
	}
	return appendNoTags(kbin.AppendCompactNullableString(appendVersion(b), r.value.previous))
}

func (r ownerRecord) appendValue(b []byte) []byte {
	b = appendVersion(b)
	b = kbin.AppendCompactString(b, r.value.InstanceID)
	b = kbin.AppendCompactString(b, r.value.Address)
	b = kbin.AppendInt64(b, r.value.Generation)
	b = kbin.AppendInt64(b, r.value.Heartbeat)
	b = kbin.AppendBool(b, r.value.Released)
	return appendNoTags(b)
}

func (r syncRecord) appendValue([]byte) []byte { return nil }

func (r bornRecord) appendValue(b []byte) []byte { return appendNoTags(appendVersion(b)) }

// errNewerRecord: the log holds what a later version of this proxy wrote. Going on would mean to act on half the truth.
var errNewerRecord = errors.New("written by a newer version of this proxy; upgrade this one")

// decodeRecord reads a record of __mirror_state; a nil value is a tombstone. It copies what it keeps.
func decodeRecord(key, value []byte) (record, error) {
	k := kbin.Reader{Src: key}
	t := recordType(k.Int16())
	r, err := decodeKey(t, &k)
	if err == nil {
		err = k.Complete()
	}
	if err == nil && len(k.Src) > 0 {
		err = fmt.Errorf("%d bytes too many", len(k.Src))
	}
	if err != nil {
		return nil, fmt.Errorf("key of type %d: %w", t, err)
	}
	if value == nil {
		switch t {
		case typeOwner, typeBorn:
			return nil, fmt.Errorf("key of type %d: a tombstone where there can be none", t)
		}
		return r, nil
	}
	v := kbin.Reader{Src: value}
	if version := v.Int16(); version != recordVersion {
		return nil, fmt.Errorf("value of type %d, version %d where %d is known: %w", t, version, recordVersion, errNewerRecord)
	}
	r = decodeValue(r, &v)
	known := noTag
	switch r := r.(type) {
	case progressRecord:
		known = r.value.readTag
	case topicRecord:
		known = r.value.readTag
	}
	readTags(&v, known)
	if err := v.Complete(); err != nil {
		return nil, fmt.Errorf("value of type %d: %w", t, err)
	}
	if len(v.Src) > 0 {
		return nil, fmt.Errorf("value of type %d: %d bytes too many", t, len(v.Src))
	}
	return r, nil
}

// decodeKey reads the rest of a key and returns the tombstone of it.
func decodeKey(t recordType, k *kbin.Reader) (record, error) {
	switch t {
	case typeMirror:
		return mirrorRecord{name: k.String()}, nil
	case typeTopic:
		return topicRecord{id: k.Uuid()}, nil
	case typeStatus, typeLastOffset, typeProgress:
		key := partitionKey{mirror: k.String(), topic: k.Uuid(), partition: k.Int32()}
		if key.partition < 0 || key.partition > maxPartition {
			return nil, fmt.Errorf("partition %d is out of range", key.partition)
		}
		switch t {
		case typeStatus:
			return statusRecord{partitionKey: key}, nil
		case typeLastOffset:
			return lastOffsetRecord{partitionKey: key}, nil
		}
		return progressRecord{partitionKey: key}, nil
	case typeSourceID:
		return sourceIDRecord{name: k.String()}, nil
	case typeOwner:
		return ownerRecord{}, nil
	case typeSync:
		return syncRecord{instanceID: k.String()}, nil
	case typeBorn:
		return bornRecord{}, nil
	case typeFormer:
		return formerRecord{id: k.Uuid()}, nil
	case typeBroker:
		return brokerConfigRecord{name: k.String()}, nil
	}
	return nil, errNewerRecord
}

func decodeValue(r record, v *kbin.Reader) record {
	switch r := r.(type) {
	case mirrorRecord:
		r.value = &Mirror{Name: r.name, Configs: map[string]string{}}
		for range v.CompactArrayLen() {
			key := v.CompactString()
			r.value.Configs[key] = v.CompactString()
			skipTags(v)
		}
		r.value.SourceClusterID = v.CompactString()
		r.value.Revision = v.Int64()
		return r
	case topicRecord:
		r.value = readTopic(v, r.id, true)
		return r
	case statusRecord:
		r.value = &Partition{
			Status: Status(v.Int8()), Previous: Status(v.Int8()), LastMirroredOffset: -1,
			Attempt: v.Int32(), Error: v.CompactString(), Retriable: v.Bool(), SinceMs: v.Int64(),
		}
		return r
	case lastOffsetRecord:
		offset := v.Int64()
		r.value = &offset
		return r
	case progressRecord:
		r.value = &Progress{
			FillToOffset: v.Int64(), ReservedOffset: v.Int64(), ReservedBy: v.Int64(), UncleanOffset: v.Int64(),
			CopiedOffset: v.Int64(),
		}
		for range v.CompactArrayLen() {
			r.value.Epochs = append(r.value.Epochs, EpochRun{Epoch: v.Int32(), StartOffset: v.Int64()})
			skipTags(v)
		}
		return r
	case sourceIDRecord:
		id := TopicID(v.Uuid())
		r.value = &id
		return r
	case formerRecord:
		r.name = v.CompactString()
		return r
	case brokerConfigRecord:
		r.value = &keptConfig{v.CompactNullableString()}
		return r
	case ownerRecord:
		r.value = ownerState{
			Owner:     Owner{InstanceID: v.CompactString(), Address: v.CompactString(), Generation: v.Int64()},
			Heartbeat: v.Int64(), Released: v.Bool(),
		}
		return r
	}
	return r // the others have no fields
}

// readTopic reads a topic; only the outermost may have a prior one, so that damaged bytes cannot nest without end.
func readTopic(v *kbin.Reader, id TopicID, mayHavePrior bool) *Topic {
	t := &Topic{
		ID: id, Mirror: v.CompactString(), Name: v.CompactString(), SourceID: v.Uuid(), Partitions: v.Int32(),
		Desired: Desired(v.Int8()), WasStopped: v.Bool(), PauseWhenAdded: v.Bool(), Engine: v.CompactString(),
	}
	if n := v.CompactArrayLen(); n > 0 {
		t.HandBack = map[string]*string{}
		for range n {
			key := v.CompactString()
			t.HandBack[key] = v.CompactNullableString()
			skipTags(v)
		}
	}
	t.Error = v.CompactString()
	if v.Bool() && mayHavePrior {
		t.prior = readTopic(v, id, false)
	}
	return t
}

// tag is a tagged field.
type tag struct {
	number uint32
	value  []byte
}

// appendTags appends a tagged field section; the tags are in the order of their numbers.
func appendTags(b []byte, tags []tag) []byte {
	b = kbin.AppendUvarint(b, uint32(len(tags)))
	for _, t := range tags {
		b = kbin.AppendUvarint(b, t.number)
		b = kbin.AppendUvarint(b, uint32(len(t.value)))
		b = append(b, t.value...)
	}
	return b
}

// readTags gives each tagged field to known and leaves out those that it does not know: a later writer's.
func readTags(v *kbin.Reader, known func(number uint32, v *kbin.Reader) bool) {
	for range v.Uvarint() {
		if !v.Ok() {
			return // or a damaged count would keep us here
		}
		number := v.Uvarint()
		field := kbin.Reader{Src: v.Span(int(v.Uvarint()))}
		if v.Ok() && known(number, &field) && (field.Complete() != nil || len(field.Src) > 0) {
			v.Span(len(v.Src) + 1) // damaged, and so is the whole
		}
	}
}

func noTag(uint32, *kbin.Reader) bool { return false }

func skipTags(v *kbin.Reader) { readTags(v, noTag) }
