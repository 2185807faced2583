package mirrormsg

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopicsVersion is the CreateTopics version that carries MirrorInfo. Its answer has the bytes of version 7.
const CreateTopicsVersion int16 = 8

// stockCreateTopicsVersion is what a stock cluster speaks: version 8 without MirrorInfo.
const stockCreateTopicsVersion int16 = 7

// MirrorInfo is the structure that CreateTopics v8 adds to a topic.
type MirrorInfo struct {
	TopicID [16]byte
}

// SourceTopicID returns the id of the source's topic, false for an ordinary topic: no MirrorInfo (nil), or the zero id,
// which is what clients send by default.
func (m *MirrorInfo) SourceTopicID() ([16]byte, bool) {
	if m == nil || m.TopicID == ([16]byte{}) {
		return [16]byte{}, false
	}
	return m.TopicID, true
}

// CreateTopicsV8Request is CreateTopics v8: a request as version 7 has it, and one MirrorInfo a topic. It is a kmsg.Request
// that is only ever sent as version 8: a lower one would drop MirrorInfo without a word.
type CreateTopicsV8Request struct {
	// Request has Version 7, ready to be sent to a stock cluster.
	Request *kmsg.CreateTopicsRequest
	// MirrorInfo has as many elements as Request.Topics; nil is null on the wire. Topics beyond its end have none.
	MirrorInfo []*MirrorInfo
}

func (m *CreateTopicsV8Request) mirrorInfo(topic int) *MirrorInfo {
	if topic < len(m.MirrorInfo) {
		return m.MirrorInfo[topic]
	}
	return nil
}

// AppendTo appends the version 8 body.
func (m *CreateTopicsV8Request) AppendTo(b []byte) []byte {
	req := m.Request
	b = kbin.AppendCompactArrayLen(b, len(req.Topics))
	for i := range req.Topics {
		t := &req.Topics[i]
		b = kbin.AppendCompactString(b, t.Topic)
		b = kbin.AppendInt32(b, t.NumPartitions)
		b = kbin.AppendInt16(b, t.ReplicationFactor)
		b = appendArray(b, t.ReplicaAssignment, func(b []byte, a *kmsg.CreateTopicsRequestTopicReplicaAssignment) []byte {
			b = kbin.AppendInt32(b, a.Partition)
			b = appendArray(b, a.Replicas, func(b []byte, id *int32) []byte { return kbin.AppendInt32(b, *id) })
			return appendKmsgTags(b, &a.UnknownTags)
		})
		b = appendArray(b, t.Configs, func(b []byte, c *kmsg.CreateTopicsRequestTopicConfig) []byte {
			b = kbin.AppendCompactString(b, c.Name)
			b = kbin.AppendCompactNullableString(b, c.Value)
			return appendKmsgTags(b, &c.UnknownTags)
		})
		if info := m.mirrorInfo(i); info == nil {
			b = kbin.AppendInt8(b, -1)
		} else {
			b = kbin.AppendInt8(b, 1)
			b = kbin.AppendUuid(b, info.TopicID)
			b = appendNoTags(b)
		}
		b = appendKmsgTags(b, &t.UnknownTags)
	}
	b = kbin.AppendInt32(b, req.TimeoutMillis)
	b = kbin.AppendBool(b, req.ValidateOnly)
	return appendKmsgTags(b, &req.UnknownTags)
}

// ReadFrom decodes a version 8 body. Tagged fields are kept, for they go on to the cluster; those of MirrorInfo have no
// place in version 7 and are skipped.
func (m *CreateTopicsV8Request) ReadFrom(b []byte) error {
	return decode("CreateTopics request", b, func(r *reader) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version = stockCreateTopicsVersion
		m.Request, m.MirrorInfo = req, nil
		// A topic takes at least: its name 1, partitions 4, replication factor 2, two counts, the marker and its tags.
		req.Topics = readArray(r, "Topics", 1+4+2+2+1+1, func(r *reader) kmsg.CreateTopicsRequestTopic {
			topic, info := readCreatableTopic(r)
			m.MirrorInfo = append(m.MirrorInfo, info)
			return topic
		})
		req.TimeoutMillis = r.Int32()
		req.ValidateOnly = r.Bool()
		req.UnknownTags = r.keepTags()
	})
}

func readCreatableTopic(r *reader) (t kmsg.CreateTopicsRequestTopic, info *MirrorInfo) {
	t.Topic = r.str("Topics.Name")
	t.NumPartitions = r.Int32()
	t.ReplicationFactor = r.Int16()
	t.ReplicaAssignment = readArray(r, "Topics.Assignments", 4+1+1,
		func(r *reader) (a kmsg.CreateTopicsRequestTopicReplicaAssignment) {
			a.Partition = r.Int32()
			a.Replicas = readArray(r, "Topics.Assignments.BrokerIds", 4, func(r *reader) int32 { return r.Int32() })
			a.UnknownTags = r.keepTags()
			return a
		})
	t.Configs = readArray(r, "Topics.Configs", 3, func(r *reader) (c kmsg.CreateTopicsRequestTopicConfig) {
		c.Name = r.str("Topics.Configs.Name")
		c.Value = r.nullableStr("Topics.Configs.Value")
		c.UnknownTags = r.keepTags()
		return c
	})
	switch marker := r.Int8(); {
	case marker == 1:
		info = &MirrorInfo{TopicID: r.Uuid()}
		r.skipTags()
	case marker != -1 && r.ok():
		r.fail("Topics.MirrorInfo: marker %d is neither -1 nor 1", marker)
	}
	t.UnknownTags = r.keepTags()
	return t, info
}

// ReadCreateTopicsV8 decodes a version 8 body into the request to send to a stock cluster (Version 7) and the MirrorInfo
// of each of its topics, nil for null.
func ReadCreateTopicsV8(body []byte) (*kmsg.CreateTopicsRequest, []*MirrorInfo, error) {
	var m CreateTopicsV8Request
	if err := m.ReadFrom(body); err != nil {
		return nil, nil, err
	}
	return m.Request, m.MirrorInfo, nil
}

// keepTags reads a tagged-field section and returns all of it.
func (r *reader) keepTags() (tags kmsg.Tags) {
	r.tags(func(tag uint32, value *reader) bool {
		// A copy, for the input may be a buffer that is used again.
		tags.Set(tag, append([]byte(nil), value.Src...))
		value.Src = nil
		return true
	})
	return tags
}

func appendKmsgTags(b []byte, tags *kmsg.Tags) []byte {
	return tags.AppendEach(kbin.AppendUvarint(b, uint32(tags.Len())))
}
