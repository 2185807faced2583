package mirrormsg

import "github.com/twmb/franz-go/pkg/kbin"

// DescribeMirrorsRequest (key 99) asks for the partitions of mirrors; no names means all mirrors.
type DescribeMirrorsRequest struct {
	MirrorNames []string
	// IncludeAuthorizedOperations has no effect: the answer has no field for them.
	IncludeAuthorizedOperations bool
	Marker
}

// DescribeMirrorsResponse holds what this listener reports of the mirrors. The Java client asks every broker, merges, drops
// a mirror whose ErrorCode is not 0 and ignores the top-level code.
type DescribeMirrorsResponse struct {
	Status
	Mirrors []DescribedMirror
}

// DescribedMirror is one mirror.
type DescribedMirror struct {
	ErrorCode  ErrorCode
	MirrorName string
	Topics     []DescribedTopic
	// Ext is ours: set it only when the request WantsExtensions. Not written when nil.
	Ext *MirrorExt
}

// MirrorExt is what the reference's message has no field for.
type MirrorExt struct {
	SourceBootstrap string
	SourceClusterID string
	Engine          string // the engine resolved for the mirror, "" when none is yet
	LastError       string // the most recent trouble of the mirror as a whole, "" for none
}

// DescribedTopic is one topic of a mirror.
type DescribedTopic struct {
	TopicName  string
	Partitions []DescribedPartition
}

// DescribedPartition is one partition. Offsets and lag are -1 where unknown; State is the state's name.
type DescribedPartition struct {
	PartitionIndex    int32
	SourceOffset      int64
	DestinationOffset int64
	Lag               int64
	State             string
	// Ext is ours: set it only when the request WantsExtensions. Not written when nil.
	Ext *PartitionExt
}

// PartitionExt is what the reference's message has no field for.
type PartitionExt struct {
	ErrorMessage string // why the partition is in its state, "" when there is nothing to say
	Engine       string
	Owner        string // the proxy that replicates the partition
	StateSinceMs int64  // Unix milliseconds, -1 unknown
	Attempt      int32  // tries made to leave the state, 0 for none
	LastError    string // the most recent trouble, also one that is over
	LagMs        int64  // age of the oldest record not yet mirrored, -1 unknown
	// OffsetGuard says what keeps records from standing at wrong offsets: "sequence", the broker refuses them at this moment, or
	// "detection", they are found afterwards; "" unknown.
	OffsetGuard string
}

func (*DescribeMirrorsRequest) API() API  { return DescribeMirrors }
func (*DescribeMirrorsResponse) API() API { return DescribeMirrors }

func (*DescribeMirrorsRequest) NewResponse() Response { return new(DescribeMirrorsResponse) }

func (m *DescribeMirrorsRequest) AppendTo(b []byte) []byte {
	b = appendStrings(b, m.MirrorNames)
	b = kbin.AppendBool(b, m.IncludeAuthorizedOperations)
	return m.appendTags(b)
}

func (m *DescribeMirrorsRequest) ReadFrom(b []byte) error {
	return decode("DescribeMirrors request", b, func(r *reader) {
		m.MirrorNames = readStrings(r, "MirrorNames")
		m.IncludeAuthorizedOperations = r.Bool()
		m.readTags(r)
	})
}

func (m *DescribeMirrorsResponse) AppendTo(b []byte) []byte {
	b = m.append(b)
	b = appendArray(b, m.Mirrors, func(b []byte, d *DescribedMirror) []byte {
		b = kbin.AppendInt16(b, int16(d.ErrorCode))
		b = kbin.AppendCompactString(b, d.MirrorName)
		b = appendArray(b, d.Topics, func(b []byte, t *DescribedTopic) []byte {
			b = kbin.AppendCompactString(b, t.TopicName)
			b = appendArray(b, t.Partitions, appendDescribedPartition)
			return appendNoTags(b)
		})
		return d.Ext.appendTags(b)
	})
	return appendNoTags(b)
}

func appendDescribedPartition(b []byte, p *DescribedPartition) []byte {
	b = kbin.AppendInt32(b, p.PartitionIndex)
	b = kbin.AppendInt64(b, p.SourceOffset)
	b = kbin.AppendInt64(b, p.DestinationOffset)
	b = kbin.AppendInt64(b, p.Lag)
	b = kbin.AppendCompactString(b, p.State)
	return p.Ext.appendTags(b)
}

func (e *MirrorExt) appendTags(b []byte) []byte {
	if e == nil {
		return appendNoTags(b)
	}
	b = append(b, 4)
	b = appendTag(b, tagMirrorSourceBootstrap, appendText(nil, e.SourceBootstrap))
	b = appendTag(b, tagMirrorSourceClusterID, appendText(nil, e.SourceClusterID))
	b = appendTag(b, tagMirrorEngine, appendText(nil, e.Engine))
	return appendTag(b, tagMirrorLastError, appendText(nil, e.LastError))
}

func (e *PartitionExt) appendTags(b []byte) []byte {
	if e == nil {
		return appendNoTags(b)
	}
	b = append(b, 8)
	b = appendTag(b, tagPartitionErrorMessage, appendText(nil, e.ErrorMessage))
	b = appendTag(b, tagPartitionEngine, appendText(nil, e.Engine))
	b = appendTag(b, tagPartitionOwner, appendText(nil, e.Owner))
	b = appendTag(b, tagPartitionStateSinceMs, kbin.AppendInt64(nil, e.StateSinceMs))
	b = appendTag(b, tagPartitionAttempt, kbin.AppendInt32(nil, e.Attempt))
	b = appendTag(b, tagPartitionLastError, appendText(nil, e.LastError))
	b = appendTag(b, tagPartitionLagMs, kbin.AppendInt64(nil, e.LagMs))
	return appendTag(b, tagPartitionGuard, appendText(nil, e.OffsetGuard))
}

func (m *DescribeMirrorsResponse) ReadFrom(b []byte) error {
	return decode("DescribeMirrors response", b, func(r *reader) {
		m.read(r)
		m.Mirrors = readArray(r, "Mirrors", 5, func(r *reader) (d DescribedMirror) {
			d.ErrorCode = ErrorCode(r.Int16())
			d.MirrorName = r.str("Mirrors.MirrorName")
			d.Topics = readArray(r, "Mirrors.Topics", 3, func(r *reader) (t DescribedTopic) {
				t.TopicName = r.str("Mirrors.Topics.TopicName")
				t.Partitions = readArray(r, "Mirrors.Topics.Partitions", 4+3*8+2, readDescribedPartition)
				r.skipTags()
				return t
			})
			d.Ext = readMirrorExt(r)
			return d
		})
		r.skipTags()
	})
}

func readDescribedPartition(r *reader) (p DescribedPartition) {
	p.PartitionIndex = r.Int32()
	p.SourceOffset = r.Int64()
	p.DestinationOffset = r.Int64()
	p.Lag = r.Int64()
	p.State = r.str("Mirrors.Topics.Partitions.State")
	p.Ext = readPartitionExt(r)
	return p
}

// readMirrorExt returns nil when none of our tags is there; a tag that is missing reads as its field's default.
func readMirrorExt(r *reader) (ext *MirrorExt) {
	e := MirrorExt{}
	r.tags(func(tag uint32, value *reader) bool {
		switch tag {
		case tagMirrorSourceBootstrap:
			e.SourceBootstrap = value.str("SourceBootstrap")
		case tagMirrorSourceClusterID:
			e.SourceClusterID = value.str("SourceClusterId")
		case tagMirrorEngine:
			e.Engine = value.str("Engine")
		case tagMirrorLastError:
			e.LastError = value.str("LastError")
		default:
			return false
		}
		ext = &e
		return true
	})
	return ext
}

// readPartitionExt returns nil when none of our tags is there; a tag that is missing reads as its field's default.
func readPartitionExt(r *reader) (ext *PartitionExt) {
	e := PartitionExt{StateSinceMs: -1, LagMs: -1}
	r.tags(func(tag uint32, value *reader) bool {
		switch tag {
		case tagPartitionErrorMessage:
			e.ErrorMessage = value.str("ErrorMessage")
		case tagPartitionEngine:
			e.Engine = value.str("Engine")
		case tagPartitionOwner:
			e.Owner = value.str("Owner")
		case tagPartitionStateSinceMs:
			e.StateSinceMs = value.Int64()
		case tagPartitionAttempt:
			e.Attempt = value.Int32()
		case tagPartitionLastError:
			e.LastError = value.str("LastError")
		case tagPartitionLagMs:
			e.LagMs = value.Int64()
		case tagPartitionGuard:
			e.OffsetGuard = value.str("Guard")
		default:
			return false
		}
		ext = &e
		return true
	})
	return ext
}
