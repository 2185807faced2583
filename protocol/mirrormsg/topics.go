package mirrormsg

import "github.com/twmb/franz-go/pkg/kbin"

// TopicsRequest is the request of AddTopicsToMirror (95), RemoveTopicsFromMirror (96), PauseMirrorTopics (102) and
// ResumeMirrorTopics (103), which have the same bytes.
type TopicsRequest struct {
	// Op says which of the four; it is not in the body, so set it before ReadFrom.
	Op         API
	MirrorName string
	Topics     []TopicRef
	Marker

	// ReplicationFactor, AddTopicsToMirror only and ours, is that of topics the call creates: -1 for the cluster's
	// default, 0 when the request does not say. Not written when 0.
	ReplicationFactor int16
	// Patterns, ours, are regular expressions beside the names. Not written when empty.
	Patterns []string
}

// TopicRef names a topic. Clients leave TopicID zero; servers must not check it.
type TopicRef struct {
	TopicID   [16]byte
	TopicName string
}

// TopicsResponse answers a TopicsRequest.
type TopicsResponse struct {
	Op API
	Status
	MirrorName string
	Topics     []TopicResult
}

// TopicResult is the outcome for one topic.
type TopicResult struct {
	Name      string
	ErrorCode ErrorCode
	// ErrorMessage is ours: set it only when the request WantsExtensions. Not written when nil.
	ErrorMessage *string
}

// API returns Op.
func (m *TopicsRequest) API() API { return m.Op }

// API returns Op.
func (m *TopicsResponse) API() API { return m.Op }

func (m *TopicsRequest) NewResponse() Response { return &TopicsResponse{Op: m.Op} }

func (m *TopicsRequest) AppendTo(b []byte) []byte {
	b = kbin.AppendCompactString(b, m.MirrorName)
	b = appendArray(b, m.Topics, func(b []byte, t *TopicRef) []byte {
		b = kbin.AppendUuid(b, t.TopicID)
		b = kbin.AppendCompactString(b, t.TopicName)
		return appendNoTags(b)
	})
	return m.appendTopicsTags(b)
}

func (m *TopicsRequest) appendTopicsTags(b []byte) []byte {
	count := len(b)
	b = append(b, 0)
	if m.Extended {
		b[count]++
		b = appendTag(b, tagMarker, nil)
	}
	if m.takesReplicationFactor() && m.ReplicationFactor != 0 {
		b[count]++
		b = appendTag(b, tagReplicationFactor, kbin.AppendInt16(nil, m.ReplicationFactor))
	}
	if len(m.Patterns) > 0 {
		b[count]++
		b = appendTag(b, tagPatterns, appendStrings(nil, m.Patterns))
	}
	return b
}

func (m *TopicsRequest) takesReplicationFactor() bool { return m.Op == AddTopicsToMirror }

func (m *TopicsRequest) ReadFrom(b []byte) error {
	return decode(m.Op.String()+" request", b, func(r *reader) {
		m.MirrorName = r.str("MirrorName")
		m.Topics = readArray(r, "Topics", 16+2, func(r *reader) (t TopicRef) {
			t.TopicID = r.Uuid()
			t.TopicName = r.str("Topics.TopicName")
			r.skipTags()
			return t
		})
		m.Extended, m.ReplicationFactor, m.Patterns = false, 0, nil
		r.tags(m.readTag)
	})
}

func (m *TopicsRequest) readTag(tag uint32, value *reader) bool {
	switch {
	case tag == tagReplicationFactor && m.takesReplicationFactor():
		m.ReplicationFactor = value.Int16()
		// 0 is how this struct says "not given": a client that does give it must not get the default instead.
		if value.ok() && m.ReplicationFactor == 0 {
			value.fail("replication factor is 0")
		}
	case tag == tagPatterns:
		m.Patterns = readStrings(value, "Patterns")
	default:
		return m.readMarker(tag, value)
	}
	return true
}

func (m *TopicsResponse) AppendTo(b []byte) []byte {
	b = m.append(b)
	b = kbin.AppendCompactString(b, m.MirrorName)
	b = appendArray(b, m.Topics, func(b []byte, t *TopicResult) []byte {
		b = kbin.AppendCompactString(b, t.Name)
		b = kbin.AppendInt16(b, int16(t.ErrorCode))
		if t.ErrorMessage == nil {
			return appendNoTags(b)
		}
		return appendTag(append(b, 1), tagTopicErrorMessage, appendText(nil, *t.ErrorMessage))
	})
	return appendNoTags(b)
}

func (m *TopicsResponse) ReadFrom(b []byte) error {
	return decode(m.Op.String()+" response", b, func(r *reader) {
		m.read(r)
		m.MirrorName = r.str("MirrorName")
		m.Topics = readArray(r, "Topics", 4, func(r *reader) (t TopicResult) {
			t.Name = r.str("Topics.Name")
			t.ErrorCode = ErrorCode(r.Int16())
			r.tags(func(tag uint32, value *reader) bool {
				if tag != tagTopicErrorMessage {
					return false
				}
				message := value.str("Topics.ErrorMessage")
				t.ErrorMessage = &message
				return true
			})
			return t
		})
		r.skipTags()
	})
}
