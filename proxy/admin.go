package proxy

import (
	"fmt"

	"kafka-mirror-proxy/enforce"
	"kafka-mirror-proxy/protocol"
)

// admin takes a request apart where a part of it is not the broker's. One that could change what a mirror topic is made of
// waits for the view and holds a token, like a produce.
func (s *Session) admin(r *request) Decision {
	if d, ok := r.whole(s.limits.AdminBytes); !ok {
		return d
	}
	token, ready := s.gate.Enter(), s.policy.Ready()
	p := &askedPolicy{Policy: s.policy}
	split, err := protocol.SplitAdmin(r.Key, r.Version, r.body(), p)
	if p.asked && !ready {
		token.Exit()
		if d, ok := s.loaded(func() Decision { return r.closing(CauseNotReady, errNotLoaded) }); !ok {
			return d
		}
		return s.admin(r)
	}
	e := s.entry(r, relay)
	if e.token = token; !p.asked || err != nil || !split.Unchanged() && split.Upstream == nil { // nothing for the gate to wait for
		token.Exit()
		e.token = enforce.Token{}
	}
	switch {
	case err != nil:
		return r.closing(CauseMalformed, err)
	case split.Unchanged():
		s.queue.push(e)
		return Decision{Verb: Forward, N: r.total}
	case len(split.Local) > s.limits.LocalBytes:
		e.token.Exit()
		return r.closing(CauseFrameLength, fmt.Errorf("%d bytes for the proxy where at most %d are taken", len(split.Local), s.limits.LocalBytes))
	case split.Upstream != nil:
		c := &call{merge: split.Merge}
		if split.Local != nil {
			c = s.call(r, split.Local, split.Merge)
		}
		return s.merging(r, split.UpstreamVersion, split.Upstream, e, c)
	case split.Local != nil:
		return s.local(r, split.Local, split.Merge)
	}
	body, err := split.Merge(nil, nil)
	if err != nil {
		return r.closing(CauseMalformed, err)
	}
	return s.answer(r, body)
}

// askedPolicy notes whether it was asked about something that only a loaded view knows.
type askedPolicy struct {
	*enforce.Policy
	asked bool
}

func (p *askedPolicy) ReadOnlyTopic(topic string) (mirror string, readOnly bool) {
	p.asked = true
	return p.Policy.ReadOnlyTopic(topic)
}

func (p *askedPolicy) StateTopicID(id [16]byte) bool {
	p.asked = true
	return p.Policy.StateTopicID(id)
}
