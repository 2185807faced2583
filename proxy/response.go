package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"

	"kafka-mirror-proxy/protocol"
)

// maxProbeBytes bounds the answer to a probe, which lists API keys.
const maxProbeBytes = 1 << 20

// correlationBytes begin every answer.
const correlationBytes = 4

var errNoAnswer = errors.New("no answer to merge with")

// OnResponse decides about the broker's bytes in window, or about an answer that is made here. Data
// of its decisions stays valid until the next call.
func (s *Session) OnResponse(window []byte) Decision {
	for {
		if s.walking {
			if d, more := s.walkOn(window); more {
				return d
			}
			s.walking = false
			s.queue.advance()
		}
		switch s.queue.next(&s.head) {
		case lookOver:
			return Decision{Verb: Close, Cause: CauseClientClosed}
		case lookIdle:
			if len(window) > 0 {
				return Decision{Verb: Close, Cause: CauseBrokerFrame, Err: errUnaskedFor}
			}
			return Decision{Verb: NeedMore, N: 1}
		case lookNoOne:
			if s.head.kind == local {
				s.queue.advance()
				continue
			}
			return s.swallow(window, s.limits.ResponseBytes)
		}
		if s.head.kind == local {
			return s.localAnswer()
		}
		return s.brokerAnswer(window)
	}
}

// frame reads size and correlation id of the answer to the head entry, and returns false and
// how to go on when it cannot.
func (s *Session) frame(window []byte, maxBytes int) (total int, d Decision, ok bool) {
	if len(window) < sizeBytes+correlationBytes {
		return 0, Decision{Verb: NeedMore, N: sizeBytes + correlationBytes}, false
	}
	size := int32(binary.BigEndian.Uint32(window))
	if size < correlationBytes || int(size) > maxBytes {
		return 0, s.badFrame(fmt.Errorf("answer of %d bytes, at most %d are taken", size, maxBytes)), false
	}
	if got := int32(binary.BigEndian.Uint32(window[sizeBytes:])); got != s.head.correlation {
		return 0, s.badFrame(fmt.Errorf("correlation id %d, %d is next", got, s.head.correlation)), false
	}
	return sizeBytes + int(size), Decision{}, true
}

func (s *Session) badFrame(err error) Decision {
	return Decision{Verb: Close, Cause: CauseBrokerFrame,
		Err: fmt.Errorf("answer to %s v%d: %w", protocol.KeyName(s.head.key), s.head.version, err)}
}

// swallow drops the answer.
func (s *Session) swallow(window []byte, maxBytes int) Decision {
	total, d, ok := s.frame(window, maxBytes)
	if !ok {
		return d
	}
	s.queue.advance()
	return Decision{Verb: Discard, N: total}
}

func (s *Session) brokerAnswer(window []byte) Decision {
	kind := s.head.kind
	if s.overtaken() {
		kind = hide
	}
	switch kind {
	case probe:
		return s.swallow(window, maxProbeBytes)
	case relay:
		total, d, ok := s.frame(window, s.limits.ResponseBytes)
		if !ok {
			return d
		}
		s.queue.advance()
		return Decision{Verb: Forward, N: total}
	case walk:
		return s.walkFrom(window)
	case hide:
		total, d, ok := s.frame(window, s.limits.ResponseBytes)
		if ok && len(window) < total {
			d, ok = Decision{Verb: NeedMore, N: total}, false
		}
		if !ok {
			return d
		}
		return s.hideFiller(window[:total])
	}
	total, d, ok := s.frame(window, s.limits.EditBytes)
	if !ok {
		return d
	}
	if c := s.head.call; c != nil && !c.ready() {
		return Decision{Verb: Wait, Until: c.done}
	}
	if len(window) < total {
		return Decision{Verb: NeedMore, N: total}
	}
	return s.rewrite(window[:total])
}

// rewrite edits or merges an answer that is there whole.
func (s *Session) rewrite(window []byte) Decision {
	offset, need, err := protocol.PeekResponseBody(s.head.key, s.head.version, window[sizeBytes:])
	if err == nil && need > 0 {
		err = fmt.Errorf("%w: header ends beyond the answer", protocol.ErrMalformed)
	}
	if err != nil {
		return s.badFrame(err)
	}
	body := window[sizeBytes+offset:]
	var edited []byte
	if c := s.head.call; c != nil {
		if c.err != nil {
			return s.localFailed(c.err)
		}
		edited, err = c.merge(body, c.body)
	} else {
		edited, err = s.edit(body)
	}
	if err != nil {
		return s.badFrame(err)
	}
	s.queue.advance()
	if len(edited) == len(body) && (len(body) == 0 || &edited[0] == &body[0]) {
		return Decision{Verb: Forward, N: len(window)}
	}
	frame := make([]byte, 0, sizeBytes+offset+len(edited))
	frame = binary.BigEndian.AppendUint32(frame, uint32(offset+len(edited)))
	frame = append(frame, window[sizeBytes:sizeBytes+offset]...)
	return Decision{Verb: Replace, N: len(window), Data: append(frame, edited...)}
}

// edit is the one place that says how each answer is edited.
func (s *Session) edit(body []byte) ([]byte, error) {
	version := s.head.version
	switch s.head.key {
	case protocol.KeyProduce:
		return protocol.EditProduceResponse(version, body, s.observe)
	case protocol.KeyMetadata:
		return protocol.EditMetadata(version, body, s.observe)
	case protocol.KeyFindCoordinator:
		return protocol.EditFindCoordinator(version, body, s.observe)
	case protocol.KeyShareFetch:
		return protocol.EditShareFetch(version, body, s.observe, s.look, s.hide)
	case protocol.KeyShareAcknowledge:
		return protocol.EditShareAcknowledge(version, body, s.observe)
	case protocol.KeyDescribeCluster: // may list controllers
		return protocol.EditDescribeCluster(version, body, s.address)
	case protocol.KeyDescribeQuorum: // lists controllers' listeners
		return protocol.EditDescribeQuorum(version, body, s.address)
	case protocol.KeyApiVersions:
		edited, upstream, err := protocol.EditApiVersions(version, body, s.mirrors())
		if err == nil && upstream.FindCoordinator >= 0 {
			s.findCoordinatorMax.Store(int32(upstream.FindCoordinator))
		}
		return edited, err
	}
	return nil, fmt.Errorf("no edit for %s", protocol.KeyName(s.head.key))
}

// mirrors says whether the mirror APIs are offered on this connection.
func (s *Session) mirrors() bool { return s.peer.Dialect != DialectNone }

// localAnswer sends an answer that was made here, when it is.
func (s *Session) localAnswer() Decision {
	c := s.head.call
	if !c.ready() {
		return Decision{Verb: Wait, Until: c.done}
	}
	body, err := c.body, c.err
	if err == nil && body == nil {
		err = errNoAnswer
	}
	if err == nil && c.merge != nil {
		body, err = c.merge(nil, body)
	}
	if err != nil {
		return s.localFailed(err)
	}
	s.queue.advance()
	frame := make([]byte, sizeBytes, sizeBytes+correlationBytes+1+len(body))
	frame = protocol.AppendResponseHeader(frame, s.head.key, s.head.version, s.head.correlation)
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-sizeBytes))
	return Decision{Verb: Replace, Data: frame}
}

func (s *Session) localFailed(err error) Decision {
	return Decision{Verb: Close, Cause: CauseLocal,
		Err: fmt.Errorf("answer %s v%d: %w", protocol.KeyName(s.head.key), s.head.version, err)}
}

// walkFrom begins the walk over a Fetch answer: its size and header pass as they are.
func (s *Session) walkFrom(window []byte) Decision {
	total, d, ok := s.frame(window, s.limits.ResponseBytes)
	if !ok {
		return d
	}
	shown := window[sizeBytes:min(len(window), total)]
	offset, need, err := protocol.PeekResponseBody(s.head.key, s.head.version, shown)
	if err == nil && sizeBytes+need > total {
		err = fmt.Errorf("%w: header ends beyond the answer", protocol.ErrMalformed)
	}
	if err == nil && need > 0 {
		return Decision{Verb: NeedMore, N: sizeBytes + need}
	}
	if err == nil {
		err = s.walker.Reset(s.head.version, total-sizeBytes-offset, s.observe)
	}
	if err != nil {
		return s.badFrame(err)
	}
	s.walking = true
	return Decision{Verb: Forward, N: sizeBytes + offset}
}

// walkOn goes on with it; more is false when the answer is over.
func (s *Session) walkOn(window []byte) (d Decision, more bool) {
	step, n, err := s.walker.Next(window)
	switch {
	case err != nil:
		return s.badFrame(err), true
	case step == protocol.FetchNeed:
		return Decision{Verb: NeedMore, N: n}, true
	case step == protocol.FetchPass:
		return Decision{Verb: Forward, N: n}, true
	}
	return Decision{}, false
}
