package protocol

// RequestHeader is what the proxy reads of a request's header.
type RequestHeader struct {
	Key, Version  int16
	CorrelationID int32
	// BodyOffset is where the body begins, counted from the frame's first byte after the size. It is 0 for keys that are
	// not decoded: where their header ends depends on a version table that we do not want to own.
	BodyOffset int
	Flexible   bool
}

// PeekRequestHeader reads a request header from frame, the bytes after the 4 size bytes (as many as there are by now).
// need > 0 means that at least need bytes must be shown; it is for the caller to compare it with the frame's size.
func PeekRequestHeader(frame []byte) (h RequestHeader, need int, err error) { return h, 0, ErrMalformed }

// SetRequestVersion overwrites the version in a request frame (bytes after the size): for requests that go upstream, body
// unchanged, at another version than the client used.
func SetRequestVersion(frame []byte, version int16) { frame[2], frame[3] = byte(version>>8), byte(version) }

// PeekResponseBody tells where the body of a response begins, counted from the frame's first byte after the size, for the
// keys that are decoded. need as in PeekRequestHeader.
func PeekResponseBody(key, version int16, frame []byte) (bodyOffset, need int, err error) { return 0, 0, ErrMalformed }

// AppendRequestHeader appends the header of a request of a decoded key (no size), with the client id given.
func AppendRequestHeader(dst []byte, key, version int16, correlationID int32, clientID string) []byte { return dst }

// AppendResponseHeader appends the header of a response of a decoded key (no size).
func AppendResponseHeader(dst []byte, key, version int16, correlationID int32) []byte { return dst }
