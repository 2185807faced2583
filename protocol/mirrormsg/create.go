package mirrormsg

import "github.com/twmb/franz-go/pkg/kbin"

// CreateMirrorRequest (key 94) creates a mirror from its configs.
type CreateMirrorRequest struct {
	MirrorName string
	Config     []MirrorConfig
	Marker
}

// MirrorConfig is one config of a mirror; a null value asks for the default.
type MirrorConfig struct {
	Name  string
	Value *string
}

// CreateMirrorResponse answers a CreateMirrorRequest. On success the reference's message is empty, not null.
type CreateMirrorResponse struct {
	Status
}

func (*CreateMirrorRequest) API() API  { return CreateMirror }
func (*CreateMirrorResponse) API() API { return CreateMirror }

// NewResponse returns the success answer.
func (*CreateMirrorRequest) NewResponse() Response {
	return &CreateMirrorResponse{Status{ErrorMessage: new(string)}}
}

func (m *CreateMirrorRequest) AppendTo(b []byte) []byte {
	b = kbin.AppendCompactString(b, m.MirrorName)
	b = appendArray(b, m.Config, func(b []byte, c *MirrorConfig) []byte {
		b = kbin.AppendCompactString(b, c.Name)
		b = kbin.AppendCompactNullableString(b, c.Value)
		return appendNoTags(b)
	})
	return m.appendTags(b)
}

func (m *CreateMirrorRequest) ReadFrom(b []byte) error {
	return decode("CreateMirror request", b, func(r *reader) {
		m.MirrorName = r.str("MirrorName")
		m.Config = readArray(r, "Config", 3, func(r *reader) (c MirrorConfig) {
			c.Name = r.str("Config.Name")
			c.Value = r.nullableStr("Config.Value")
			r.skipTags()
			return c
		})
		m.readTags(r)
	})
}

func (m *CreateMirrorResponse) AppendTo(b []byte) []byte {
	return appendNoTags(m.append(b))
}

func (m *CreateMirrorResponse) ReadFrom(b []byte) error {
	return decode("CreateMirror response", b, func(r *reader) {
		m.read(r)
		r.skipTags()
	})
}
