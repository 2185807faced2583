package mirrormsg

import "github.com/twmb/franz-go/pkg/kbin"

// NoStateValidation is the StateValidationOffset of a client that does not use the check.
const NoStateValidation int64 = -1

// DeleteMirrorRequest (key 104) deletes a mirror whose topics are all stopped; the bytes are those of the later snapshot's
// DeleteClusterMirror.
type DeleteMirrorRequest struct {
	MirrorName string
	// StateValidationOffset is the metadata offset at which a broker checked the states before it asks its controller;
	// clients send NoStateValidation.
	StateValidationOffset int64
	Marker
}

// DeleteMirrorResponse answers a DeleteMirrorRequest.
type DeleteMirrorResponse struct {
	Status
}

func (*DeleteMirrorRequest) API() API  { return DeleteMirror }
func (*DeleteMirrorResponse) API() API { return DeleteMirror }

func (*DeleteMirrorRequest) NewResponse() Response { return new(DeleteMirrorResponse) }

func (m *DeleteMirrorRequest) AppendTo(b []byte) []byte {
	b = kbin.AppendCompactString(b, m.MirrorName)
	b = kbin.AppendInt64(b, m.StateValidationOffset)
	return m.appendTags(b)
}

func (m *DeleteMirrorRequest) ReadFrom(b []byte) error {
	return decode("DeleteMirror request", b, func(r *reader) {
		m.MirrorName = r.str("MirrorName")
		m.StateValidationOffset = r.Int64()
		m.readTags(r)
	})
}

func (m *DeleteMirrorResponse) AppendTo(b []byte) []byte {
	return appendNoTags(m.append(b))
}

func (m *DeleteMirrorResponse) ReadFrom(b []byte) error {
	return decode("DeleteMirror response", b, func(r *reader) {
		m.read(r)
		r.skipTags()
	})
}
