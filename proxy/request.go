package proxy

import (
	"encoding/binary"
	"fmt"

	"kafka-mirror-proxy/enforce"
	"kafka-mirror-proxy/protocol"
)

// sizeBytes is the length that goes before each frame.
const sizeBytes = 4

// request is one request frame at the front of the window.
type request struct {
	protocol.RequestHeader
	window []byte // from the size bytes on, as far as there
	total  int    // of the frame with its size bytes
}

// body is what is there of the body.
func (r *request) body() []byte { return r.window[min(sizeBytes+r.BodyOffset, len(r.window)):] }

// whole returns false and how to go on when the frame is not there whole yet or has more than
// maxBytes after its size.
func (r *request) whole(maxBytes int) (Decision, bool) {
	if r.total-sizeBytes > maxBytes {
		return r.closing(CauseFrameLength, fmt.Errorf("%d bytes where at most %d are taken", r.total-sizeBytes, maxBytes)), false
	}
	if len(r.window) < r.total {
		return Decision{Verb: NeedMore, N: r.total}, false
	}
	return Decision{}, true
}

func (r *request) closing(cause Cause, err error) Decision {
	return Decision{Verb: Close, Cause: cause, Err: fmt.Errorf("%s v%d: %w", protocol.KeyName(r.Key), r.Version, err)}
}

// OnRequest decides about the request frame that begins with window's first byte.
func (s *Session) OnRequest(window []byte) Decision {
	var r request
	if d, ok := s.peek(window, &r); !ok {
		return d
	}
	if space := s.queue.room(); space != nil {
		return Decision{Verb: Wait, Until: space}
	}
	action := enforce.ActionFor(r.Key, r.Version)
	if action == enforce.Local && !s.mirrors() {
		action = enforce.Relay // somebody else's meaning of the key
	}
	if action != enforce.Relay && action != enforce.Local {
		if d, ok := s.supported(&r); !ok {
			return d
		}
	}
	d := s.decide(action, &r)
	if d.Verb == Forward || d.Verb == Replace || d.Verb == Discard {
		s.holding, s.expired = nil, false
		s.metrics.request(r.Key)
	}
	return d
}

// peek reads the size and the header, and returns false and how to go on when it cannot.
func (s *Session) peek(window []byte, r *request) (Decision, bool) {
	if len(window) < sizeBytes {
		return Decision{Verb: NeedMore, N: sizeBytes}, false
	}
	size := int32(binary.BigEndian.Uint32(window))
	if size <= 0 || int(size) > s.limits.RequestBytes {
		cause, err := CauseFrameLength, fmt.Errorf("request of %d bytes, at most %d are taken", size, s.limits.RequestBytes)
		if (window[0] == 0x16 || window[0] == 0x15) && window[1] == 0x03 { // handshake or alert, of TLS 1.x
			cause, err = CauseTLS, fmt.Errorf("%w (request of %d bytes)", errTLS, size)
		}
		return Decision{Verb: Close, Cause: cause, Err: err}, false
	}
	r.total = sizeBytes + int(size)
	r.window = window[:min(len(window), r.total)]
	header, need, err := protocol.PeekRequestHeader(r.window[sizeBytes:])
	if err == nil && need > int(size) {
		err = fmt.Errorf("%w: header ends beyond the request", protocol.ErrMalformed)
	}
	if err != nil {
		return Decision{Verb: Close, Cause: CauseMalformed, Err: fmt.Errorf("request header: %w", err)}, false
	}
	if need > 0 {
		return Decision{Verb: NeedMore, N: sizeBytes + need}, false
	}
	r.RequestHeader = header
	return Decision{}, true
}

// supported returns false and how to answer versions that could not be read or edited. A
// broker closes the connection on all of them but ApiVersions, which is how versions are found.
func (s *Session) supported(r *request) (Decision, bool) {
	lowest, highest, known := protocol.Versions(r.Key)
	if s.mirrors() && (r.Key == protocol.KeyFindCoordinator || r.Key == protocol.KeyCreateTopics) {
		highest++ // the versions that came with mirrors: v7 and v8
	}
	switch {
	case !known || r.Version >= lowest && r.Version <= highest:
		return Decision{}, true
	case r.Key == protocol.KeyApiVersions && r.Version > highest:
		return s.answer(r, protocol.AppendApiVersionsRefusal(nil)), false
	}
	return r.closing(CauseUnsupported, fmt.Errorf("%w: v%d to v%d are", protocol.ErrUnsupportedVersion, lowest, highest)), false
}

func (s *Session) decide(action enforce.Action, r *request) Decision {
	switch action {
	case enforce.Relay:
		return s.forwardWhole(r, relay)
	case enforce.Edit:
		return s.forwardWhole(r, edit)
	case enforce.Local:
		if d, ok := r.whole(s.limits.LocalBytes); !ok {
			return d
		}
		return s.local(r, r.body(), nil)
	case enforce.Refuse:
		return r.closing(CauseUnsupported, protocol.ErrUnsupportedVersion)
	}
	switch r.Key {
	case protocol.KeyProduce:
		return s.produce(r)
	case protocol.KeyAddPartitionsToTxn:
		return s.transaction(r, s.refuseAddPartitions)
	case protocol.KeyWriteTxnMarkers:
		return s.transaction(r, protocol.RefuseTxnMarkers)
	case protocol.KeyInitProducerID, protocol.KeyAddOffsetsToTxn, protocol.KeyEndTxn, protocol.KeyTxnOffsetCommit:
		return s.transactionalID(r)
	case protocol.KeyFetch:
		return s.fetch(r)
	case protocol.KeyShareFetch:
		return s.shareFetch(r)
	case protocol.KeyFindCoordinator:
		return s.findCoordinator(r)
	}
	return s.admin(r)
}

func (s *Session) entry(r *request, kind entryKind) entry {
	return entry{key: r.Key, version: r.Version, correlation: r.CorrelationID, kind: kind}
}

// forward passes the request on as it is.
func (s *Session) forward(r *request, kind entryKind) Decision {
	s.queue.push(s.entry(r, kind))
	return Decision{Verb: Forward, N: r.total}
}

// forwardWhole passes the request on as it is, a large one only when it is there: a broker takes the memory for what a
// request claims to have before its bytes come, and few claims of that size fill it. Large produces go by forward.
func (s *Session) forwardWhole(r *request, kind entryKind) Decision {
	if r.total > s.limits.LocalBytes {
		if d, ok := r.whole(sizeBytes + s.limits.RequestBytes); !ok {
			return d
		}
	}
	return s.forward(r, kind)
}

// answer swallows the request and answers it with a body that is there already.
func (s *Session) answer(r *request, body []byte) Decision {
	e := s.entry(r, local)
	e.call = &call{body: body}
	s.queue.push(e)
	return Decision{Verb: Discard, N: r.total}
}

// local swallows the request and has the handler answer body.
func (s *Session) local(r *request, body []byte, merge func(upstream, local []byte) ([]byte, error)) Decision {
	e := s.entry(r, local)
	e.call = s.call(r, body, merge)
	s.queue.push(e)
	return Decision{Verb: Discard, N: r.total, Call: e.call}
}

func (s *Session) call(r *request, body []byte, merge func(upstream, local []byte) ([]byte, error)) *call {
	c := &call{request: s.peer, done: make(chan struct{}), merge: merge}
	c.request.Key, c.request.Version, c.request.CorrelationID = r.Key, r.Version, r.CorrelationID
	c.request.Body = body
	return c
}

// merging sends body in the request's place, at another version where that differs.
func (s *Session) merging(r *request, version int16, body []byte, e entry, c *call) Decision {
	e.kind, e.call = merge, c
	s.queue.push(e)
	frame := make([]byte, 0, sizeBytes+r.BodyOffset+len(body))
	frame = binary.BigEndian.AppendUint32(frame, uint32(r.BodyOffset+len(body)))
	frame = append(frame, r.window[sizeBytes:sizeBytes+r.BodyOffset]...)
	protocol.SetRequestVersion(frame[sizeBytes:], version)
	d := Decision{Verb: Replace, N: r.total, Data: append(frame, body...)}
	if c.done != nil {
		d.Call = c
	}
	return d
}

// loaded returns false and how to go on while the view is not loaded: wait first, then
// whatever late answers.
func (s *Session) loaded(late func() Decision) (Decision, bool) {
	if s.policy.Ready() {
		return Decision{}, true
	}
	if !s.expired && s.holding == nil {
		s.holding = s.hold()
		s.expired = s.holding == nil
	}
	if !s.expired {
		select {
		case <-s.holding:
			s.expired = true
		default:
			return Decision{Verb: Wait, Until: s.holding}, false
		}
	}
	return late(), false
}

// shareFetch does the same for a ShareFetch.
func (s *Session) shareFetch(r *request) Decision {
	if d, ok := r.whole(s.limits.RequestBytes); !ok {
		return d
	}
	refusal, err := protocol.RefuseShareFetch(r.Version, r.body(), s.stateTopic)
	switch {
	case err != nil:
		return r.closing(CauseMalformed, err)
	case refusal != nil:
		return s.answer(r, refusal)
	}
	return s.forward(r, edit)
}

// findCoordinator answers the mirror coordinator here and passes all else on, at a version that the
// broker knows: the bytes are the same.
func (s *Session) findCoordinator(r *request) Decision {
	if d, ok := r.whole(s.limits.LocalBytes); !ok {
		return d
	}
	keyType, err := protocol.PeekFindCoordinator(r.Version, r.body())
	if err != nil {
		return r.closing(CauseMalformed, err)
	}
	if keyType == protocol.CoordinatorTypeMirror && s.mirrors() {
		return s.local(r, r.body(), nil)
	}
	version := protocol.DowngradeFindCoordinator(r.Version, int16(s.findCoordinatorMax.Load()))
	protocol.SetRequestVersion(r.window[sizeBytes:], version)
	return s.forward(r, edit)
}
