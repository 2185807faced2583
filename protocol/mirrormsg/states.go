package mirrormsg

import "github.com/twmb/franz-go/pkg/kbin"

// UnknownState is the state byte of a partition the coordinator knows nothing of; in a write it means "no change".
const UnknownState int8 = 16

// UnknownOffset is the last mirrored offset of a partition that has none; in a write it means "no change".
const UnknownOffset int64 = -1

// LastMirroredOffsetsRequest (key 97) asks a source for the offsets up to which it once mirrored from the asking cluster.
type LastMirroredOffsetsRequest struct {
	MirrorName string
	Topics     []TopicPartitions
	Marker
}

// ReadMirrorStatesRequest (key 100) asks a coordinator for partition states.
type ReadMirrorStatesRequest struct {
	MirrorName string
	Topics     []TopicPartitions
	Marker
}

// TopicPartitions names partitions of a topic.
type TopicPartitions struct {
	Name       string
	Partitions []int32
}

// LastMirroredOffsetsResponse answers a LastMirroredOffsetsRequest.
type LastMirroredOffsetsResponse struct {
	Status
	Topics []LastMirroredOffsetsTopic
}

// LastMirroredOffsetsTopic is one topic of the answer.
type LastMirroredOffsetsTopic struct {
	Name       string
	Partitions []LastMirroredOffset
}

// LastMirroredOffset is one partition of the answer.
type LastMirroredOffset struct {
	PartitionIndex     int32
	LastMirroredOffset int64
	ErrorCode          ErrorCode
}

// ReadMirrorStatesResponse answers a ReadMirrorStatesRequest.
type ReadMirrorStatesResponse struct {
	Status
	Topics []ReadMirrorStatesTopic
}

// ReadMirrorStatesTopic is one topic of the answer.
type ReadMirrorStatesTopic struct {
	Name       string
	Partitions []ReadMirrorState
}

// ReadMirrorState is one partition of the answer.
type ReadMirrorState struct {
	PartitionIndex     int32
	LastMirroredOffset int64
	State              int8
	ErrorCode          ErrorCode
}

func (*LastMirroredOffsetsRequest) API() API  { return LastMirroredOffsets }
func (*LastMirroredOffsetsResponse) API() API { return LastMirroredOffsets }
func (*ReadMirrorStatesRequest) API() API     { return ReadMirrorStates }
func (*ReadMirrorStatesResponse) API() API    { return ReadMirrorStates }

func (*LastMirroredOffsetsRequest) NewResponse() Response { return new(LastMirroredOffsetsResponse) }
func (*ReadMirrorStatesRequest) NewResponse() Response    { return new(ReadMirrorStatesResponse) }

func appendTopicPartitions(b []byte, t *TopicPartitions) []byte {
	b = kbin.AppendCompactString(b, t.Name)
	b = appendArray(b, t.Partitions, func(b []byte, p *int32) []byte { return appendNoTags(kbin.AppendInt32(b, *p)) })
	return appendNoTags(b)
}

func readTopicPartitions(r *reader) (t TopicPartitions) {
	t.Name = r.str("Topics.Name")
	t.Partitions = readArray(r, "Topics.Partitions", 4+1, func(r *reader) int32 {
		p := r.Int32()
		r.skipTags()
		return p
	})
	r.skipTags()
	return t
}

func (m *LastMirroredOffsetsRequest) AppendTo(b []byte) []byte {
	b = kbin.AppendCompactString(b, m.MirrorName)
	b = appendArray(b, m.Topics, appendTopicPartitions)
	return m.appendTags(b)
}

func (m *LastMirroredOffsetsRequest) ReadFrom(b []byte) error {
	return decode("LastMirroredOffsets request", b, func(r *reader) {
		m.MirrorName = r.str("MirrorName")
		m.Topics = readArray(r, "Topics", 3, readTopicPartitions)
		m.readTags(r)
	})
}

func (m *ReadMirrorStatesRequest) AppendTo(b []byte) []byte {
	b = kbin.AppendCompactString(b, m.MirrorName)
	b = appendArray(b, m.Topics, appendTopicPartitions)
	return m.appendTags(b)
}

func (m *ReadMirrorStatesRequest) ReadFrom(b []byte) error {
	return decode("ReadMirrorStates request", b, func(r *reader) {
		m.MirrorName = r.str("MirrorName")
		m.Topics = readArray(r, "Topics", 3, readTopicPartitions)
		m.readTags(r)
	})
}

func (m *LastMirroredOffsetsResponse) AppendTo(b []byte) []byte {
	b = m.append(b)
	b = appendArray(b, m.Topics, func(b []byte, t *LastMirroredOffsetsTopic) []byte {
		b = kbin.AppendCompactString(b, t.Name)
		b = appendArray(b, t.Partitions, func(b []byte, p *LastMirroredOffset) []byte {
			b = kbin.AppendInt32(b, p.PartitionIndex)
			b = kbin.AppendInt64(b, p.LastMirroredOffset)
			b = kbin.AppendInt16(b, int16(p.ErrorCode))
			return appendNoTags(b)
		})
		return appendNoTags(b)
	})
	return appendNoTags(b)
}

func (m *LastMirroredOffsetsResponse) ReadFrom(b []byte) error {
	return decode("LastMirroredOffsets response", b, func(r *reader) {
		m.read(r)
		m.Topics = readArray(r, "Topics", 3, func(r *reader) (t LastMirroredOffsetsTopic) {
			t.Name = r.str("Topics.Name")
			t.Partitions = readArray(r, "Topics.Partitions", 4+8+2+1, func(r *reader) (p LastMirroredOffset) {
				p.PartitionIndex = r.Int32()
				p.LastMirroredOffset = r.Int64()
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

func (m *ReadMirrorStatesResponse) AppendTo(b []byte) []byte {
	b = m.append(b)
	b = appendArray(b, m.Topics, func(b []byte, t *ReadMirrorStatesTopic) []byte {
		b = kbin.AppendCompactString(b, t.Name)
		b = appendArray(b, t.Partitions, func(b []byte, p *ReadMirrorState) []byte {
			b = kbin.AppendInt32(b, p.PartitionIndex)
			b = kbin.AppendInt64(b, p.LastMirroredOffset)
			b = kbin.AppendInt8(b, p.State)
			b = kbin.AppendInt16(b, int16(p.ErrorCode))
			return appendNoTags(b)
		})
		return appendNoTags(b)
	})
	return appendNoTags(b)
}

func (m *ReadMirrorStatesResponse) ReadFrom(b []byte) error {
	return decode("ReadMirrorStates response", b, func(r *reader) {
		m.read(r)
		m.Topics = readArray(r, "Topics", 3, func(r *reader) (t ReadMirrorStatesTopic) {
			t.Name = r.str("Topics.Name")
			t.Partitions = readArray(r, "Topics.Partitions", 4+8+1+2+1, func(r *reader) (p ReadMirrorState) {
				p.PartitionIndex = r.Int32()
				p.LastMirroredOffset = r.Int64()
				p.State = r.Int8()
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
