package mirrormsg

import "github.com/twmb/franz-go/pkg/kbin"

// ListMirrorsRequest (key 98) asks for all mirrors.
type ListMirrorsRequest struct {
	Marker
}

// ListMirrorsResponse lists the mirrors the client may describe.
type ListMirrorsResponse struct {
	Status
	Mirrors []ListedMirror
}

// ListedMirror is a mirror's row of the list.
type ListedMirror struct {
	MirrorName      string
	SourceBootstrap string
	SourceClusterID string
	TopicCount      int32
}

func (*ListMirrorsRequest) API() API  { return ListMirrors }
func (*ListMirrorsResponse) API() API { return ListMirrors }

func (*ListMirrorsRequest) NewResponse() Response { return new(ListMirrorsResponse) }

func (m *ListMirrorsRequest) AppendTo(b []byte) []byte { return m.appendTags(b) }

func (m *ListMirrorsRequest) ReadFrom(b []byte) error {
	return decode("ListMirrors request", b, m.readTags)
}

func (m *ListMirrorsResponse) AppendTo(b []byte) []byte {
	b = m.append(b)
	b = appendArray(b, m.Mirrors, func(b []byte, l *ListedMirror) []byte {
		b = kbin.AppendCompactString(b, l.MirrorName)
		b = kbin.AppendCompactString(b, l.SourceBootstrap)
		b = kbin.AppendCompactString(b, l.SourceClusterID)
		b = kbin.AppendInt32(b, l.TopicCount)
		return appendNoTags(b)
	})
	return appendNoTags(b)
}

func (m *ListMirrorsResponse) ReadFrom(b []byte) error {
	return decode("ListMirrors response", b, func(r *reader) {
		m.read(r)
		m.Mirrors = readArray(r, "Mirrors", 8, func(r *reader) (l ListedMirror) {
			l.MirrorName = r.str("Mirrors.MirrorName")
			l.SourceBootstrap = r.str("Mirrors.SourceBootstrap")
			l.SourceClusterID = r.str("Mirrors.SourceClusterId")
			l.TopicCount = r.Int32()
			r.skipTags()
			return l
		})
		r.skipTags()
	})
}
