package mirrormsg

import "github.com/twmb/franz-go/pkg/kbin"

// Message is a body: what follows the request or response header.
type Message interface {
	// AppendTo appends the body to b.
	AppendTo(b []byte) []byte
	// ReadFrom decodes the whole of b, replacing what the message held; the message keeps no reference to b. Errors wrap
	// ErrMalformed and leave the message in no particular state.
	ReadFrom(b []byte) error
}

// Request is a request of one of the mirror APIs.
type Request interface {
	Message
	API() API
	// NewResponse returns the answer's empty form, with the reference's defaults.
	NewResponse() Response
	// WantsExtensions reports whether the answer may carry our tagged fields.
	WantsExtensions() bool
}

// Response is the answer to a Request.
type Response interface {
	Message
	API() API
	// TopLevel returns the fields that begin every answer.
	TopLevel() *Status
}

// Status begins the answer of every mirror API. Java clients read nothing else of most of them.
type Status struct {
	ThrottleTimeMs int32
	ErrorCode      ErrorCode
	ErrorMessage   *string
}

// TopLevel returns s itself, for the Response that embeds it.
func (s *Status) TopLevel() *Status { return s }

func (s *Status) append(b []byte) []byte {
	b = kbin.AppendInt32(b, s.ThrottleTimeMs)
	b = kbin.AppendInt16(b, int16(s.ErrorCode))
	return appendNullableText(b, s.ErrorMessage)
}

func (s *Status) read(r *reader) {
	s.ThrottleTimeMs = r.Int32()
	s.ErrorCode = ErrorCode(r.Int16())
	s.ErrorMessage = r.nullableStr("ErrorMessage")
}

// NewRequest returns the empty request of an API, nil for an API that does not exist.
func NewRequest(api API) Request {
	switch api {
	case CreateMirror:
		return new(CreateMirrorRequest)
	case AddTopicsToMirror, RemoveTopicsFromMirror, PauseMirrorTopics, ResumeMirrorTopics:
		return &TopicsRequest{Op: api}
	case LastMirroredOffsets:
		return new(LastMirroredOffsetsRequest)
	case ListMirrors:
		return new(ListMirrorsRequest)
	case DescribeMirrors:
		return new(DescribeMirrorsRequest)
	case ReadMirrorStates:
		return new(ReadMirrorStatesRequest)
	case WriteMirrorStates:
		return new(WriteMirrorStatesRequest)
	case DeleteMirror:
		return new(DeleteMirrorRequest)
	default:
		return nil
	}
}
