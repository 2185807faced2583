package mirrormsg

import "github.com/twmb/franz-go/pkg/kbin"

// WriteMirrorStatesRequest (key 101) reports partition states to a coordinator.
type WriteMirrorStatesRequest struct {
	MirrorName string
	Topics     []WriteMirrorStatesTopic
	// RemovedTopics is ignored by the reference.
	RemovedTopics []string
	Marker
}

// WriteMirrorStatesTopic is one topic of the request.
type WriteMirrorStatesTopic struct {
	Name       string
	Partitions []WriteMirrorState
}

// WriteMirrorState is one partition of the request.
type WriteMirrorState struct {
	PartitionIndex     int32
	LastMirroredOffset int64 // UnknownOffset: no change
	State              int8  // UnknownState: no change
}

// WriteMirrorStatesResponse answers a WriteMirrorStatesRequest.
type WriteMirrorStatesResponse struct {
	Status
	Topics []WriteMirrorStatesResultTopic
}

// WriteMirrorStatesResultTopic is one topic of the answer.
type WriteMirrorStatesResultTopic struct {
	Name       string
	Partitions []WriteMirrorStateResult
}

// WriteMirrorStateResult is one partition of the answer.
type WriteMirrorStateResult struct {
	PartitionIndex int32
	ErrorCode      ErrorCode
}

func (*WriteMirrorStatesRequest) API() API  { return WriteMirrorStates }
func (*WriteMirrorStatesResponse) API() API { return WriteMirrorStates }

func (*WriteMirrorStatesRequest) NewResponse() Response { return new(WriteMirrorStatesResponse) }

func (m *WriteMirrorStatesRequest) AppendTo(b []byte) []byte {
	b = kbin.AppendCompactString(b, m.MirrorName)
	b = appendArray(b, m.Topics, func(b []byte, t *WriteMirrorStatesTopic) []byte {
		b = kbin.AppendCompactString(b, t.Name)
		b = appendArray(b, t.Partitions, func(b []byte, p *WriteMirrorState) []byte {
			b = kbin.AppendInt32(b, p.PartitionIndex)
			b = kbin.AppendInt64(b, p.LastMirroredOffset)
			b = kbin.AppendInt8(b, p.State)
			return appendNoTags(b)
		})
		return appendNoTags(b)
	})
	b = appendStrings(b, m.RemovedTopics)
	return m.appendTags(b)
}

func (m *WriteMirrorStatesRequest) ReadFrom(b []byte) error {
	return decode("WriteMirrorStates request", b, func(r *reader) {
		m.MirrorName = r.str("MirrorName")
		m.Topics = readArray(r, "Topics", 3, func(r *reader) (t WriteMirrorStatesTopic) {
			t.Name = r.str("Topics.Name")
			t.Partitions = readArray(r, "Topics.Partitions", 4+8+1+1, func(r *reader) (p WriteMirrorState) {
				p.PartitionIndex = r.Int32()
				p.LastMirroredOffset = r.Int64()
				p.State = r.Int8()
				r.skipTags()
				return p
			})
			r.skipTags()
			return t
		})
		m.RemovedTopics = readStrings(r, "RemovedTopics")
		m.readTags(r)
	})
}

func (m *WriteMirrorStatesResponse) AppendTo(b []byte) []byte {
	b = m.append(b)
	b = appendArray(b, m.Topics, func(b []byte, t *WriteMirrorStatesResultTopic) []byte {
		b = kbin.AppendCompactString(b, t.Name)
		b = appendArray(b, t.Partitions, func(b []byte, p *WriteMirrorStateResult) []byte {
			b = kbin.AppendInt32(b, p.PartitionIndex)
			b = kbin.AppendInt16(b, int16(p.ErrorCode))
			return appendNoTags(b)
		})
		return appendNoTags(b)
	})
	return appendNoTags(b)
}

func (m *WriteMirrorStatesResponse) ReadFrom(b []byte) error {
	return decode("WriteMirrorStates response", b, func(r *reader) {
		m.read(r)
		m.Topics = readArray(r, "Topics", 3, func(r *reader) (t WriteMirrorStatesResultTopic) {
			t.Name = r.str("Topics.Name")
			t.Partitions = readArray(r, "Topics.Partitions", 4+2+1, func(r *reader) (p WriteMirrorStateResult) {
				p.PartitionIndex = r.Int32()
				p.ErrorCode = ErrorCode(r.Int16())
				r.skipTags()
				return p
			})
			r.skipTags()
			return t
		})
		r.skipTags()
	})
}
