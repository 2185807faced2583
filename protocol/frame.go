package protocol

import "github.com/twmb/franz-go/pkg/kbin"

// RequestHeader is what the proxy reads of a request's header.
type RequestHeader struct {
	Key, Version  int16
	CorrelationID int32
	// BodyOffset is where the body begins, counted from the frame's first byte after the size. It is 0 for keys that are
	// not decoded: where their header ends depends on a version table that we do not want to own.
	BodyOffset int
	Flexible   bool
}

// requestHeaderBytes is what every request has: key, version, correlation id.
const requestHeaderBytes = 8

// PeekRequestHeader reads a request header from frame, the bytes after the 4 size bytes (as many as there are by now).
// need > 0 means that at least need bytes must be shown; it is for the caller to compare it with the frame's size. h.Key,
// Version and CorrelationID are set as soon as 8 bytes are there.
func PeekRequestHeader(frame []byte) (h RequestHeader, need int, err error) {
	if len(frame) < requestHeaderBytes {
		return h, requestHeaderBytes, nil
	}
	c := cursor{b: frame}
	h.Key, h.Version, h.CorrelationID = c.int16(), c.int16(), c.int32()
	if _, known := lookup(h.Key); !known && !isMirrorKey(h.Key) {
		return h, 0, nil
	}
	if h.Version < 0 {
		return h, 0, unsupported(h.Key, h.Version)
	}
	h.Flexible = Flexible(h.Key, h.Version)
	c.nullableString() // the client id stays in the old encoding in flexible headers too
	c.flexible = h.Flexible
	c.tags()
	if need, err = c.partial("request header"); need > 0 || err != nil {
		return h, need, err
	}
	h.BodyOffset = c.pos
	return h, 0, nil
}

// SetRequestVersion overwrites the version in a request frame (bytes after the size): for requests that go upstream, body
// unchanged, at another version than the client used.
func SetRequestVersion(frame []byte, version int16) {
	frame[2], frame[3] = byte(version>>8), byte(version)
}

// PeekResponseBody tells where the body of a response begins, counted from the frame's first byte after the size, for the
// keys that are decoded. need as in PeekRequestHeader.
func PeekResponseBody(key, version int16, frame []byte) (bodyOffset, need int, err error) {
	c := cursor{b: frame, flexible: flexibleResponseHeader(key, version)}
	c.int32()
	c.tags()
	if need, err = c.partial("response header"); need > 0 || err != nil {
		return 0, need, err
	}
	return c.pos, 0, nil
}

// flexibleResponseHeader: the header of an ApiVersions answer has no tags at any version, because a client reads it before
// it knows what the broker speaks (KIP-511).
func flexibleResponseHeader(key, version int16) bool {
	return key != KeyApiVersions && Flexible(key, version)
}

// AppendResponseHeader appends the header of a response of a decoded key (no size).
func AppendResponseHeader(dst []byte, key, version int16, correlationID int32) []byte {
	dst = kbin.AppendInt32(dst, correlationID)
	if flexibleResponseHeader(key, version) {
		dst = append(dst, 0)
	}
	return dst
}
