package proxy

import (
	"encoding/binary"
	"fmt"

	"kafka-mirror-proxy/protocol"
)

// fetched is what the Fetch requests of a connection have named so far. A Fetch answer says its length first, so whether it
// is held, to have filler hidden, must be known before its topics are; and a request within a fetch session (KIP-227) names
// only what changes in it.
type fetched struct {
	// filler: a topic that may hold filler was named, or may have been. It stays so: the session with that topic may go on.
	filler bool
	// sessions: there may be sessions on this connection. All of them were compared with the topics that have the
	// fingerprint fillers.
	sessions bool
	fillers  uint64
}

// fetch answers a Fetch that names our state topic; all others go to the broker. Addresses in
// the answer, where its version has any, are edited in passing. An answer that may hold filler is held.
func (s *Session) fetch(r *request) Decision {
	if d, ok := r.whole(s.limits.RequestBytes); !ok {
		return d
	}
	ours, err := protocol.FetchNames(r.Version, r.body(), s.stateTopic)
	if err != nil {
		return r.closing(CauseMalformed, err)
	}
	if ours {
		body, err := protocol.AppendFetchRefusal(nil, r.Version, r.body(), s.stateTopic)
		if err != nil {
			return r.closing(CauseMalformed, err)
		}
		return s.answer(r, body)
	}
	e := s.entry(r, relay)
	if protocol.HasNodeEndpoints(r.Key, r.Version) {
		e.kind = walk
	}
	if e.fillers, err = s.judge(r); err != nil {
		return r.closing(CauseMalformed, err)
	}
	if s.fetched.filler {
		e.kind = hide
		protocol.LimitFetch(r.Version, r.body(), s.limits.FetchBytes)
	}
	s.queue.push(e)
	return Decision{Verb: Forward, N: r.total}
}

// judge notes what the request names. It returns the fingerprint of the topics that it was compared with.
//
// No session is granted while it is not known what holds filler: once it is, nobody could tell what that session fetches,
// and after a start of the proxy most sessions would be of that kind.
func (s *Session) judge(r *request) (fillers uint64, err error) {
	session := protocol.FetchSessionOf(r.Version, r.body())
	if session == protocol.FetchFirst && !s.policy.Ready() {
		protocol.DenyFetchSession(r.Version, r.body())
		session = protocol.FetchAlone
	}
	f := &s.fetched
	if f.filler {
		return 0, nil
	}
	fillers = s.policy.Fillers() // before the topics: one that is added meanwhile shows in the next
	switch {
	case fillers == 0: // nothing holds any
	case f.sessions && f.fillers != fillers, // a session may fetch the topic that was added
		!f.sessions && session == protocol.FetchNext: // a session that was granted on another connection
		f.filler = true
	default:
		f.filler, err = protocol.FetchNames(r.Version, r.body(), s.filler)
	}
	f.sessions, f.fillers = f.sessions || session != protocol.FetchAlone, fillers
	return fillers, err
}

// overtaken says that topics were added to mirrors since the request of a Fetch answer was judged: it may have waited for
// records of one of them. So may any while the view is out of date.
func (s *Session) overtaken() bool {
	return s.head.key == protocol.KeyFetch && (s.head.kind == relay || s.head.kind == walk) &&
		(s.head.fillers != s.policy.Fillers() || !s.policy.Ready())
}

// hideFiller makes what the client sees of a Fetch answer that is there whole.
func (s *Session) hideFiller(window []byte) Decision {
	offset, need, err := protocol.PeekResponseBody(s.head.key, s.head.version, window[sizeBytes:])
	if err == nil && need > 0 {
		err = fmt.Errorf("%w: header ends beyond the answer", protocol.ErrMalformed)
	}
	if err != nil {
		return s.badFrame(err)
	}
	bodyAt := sizeBytes + offset
	body := window[bodyAt:]
	frame, edited, err := protocol.HideInFetch(window[:bodyAt:bodyAt], s.head.version, body, s.look, s.hide)
	if err == nil && edited {
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-sizeBytes))
		body = frame[bodyAt:]
	}
	if err == nil && protocol.HasNodeEndpoints(s.head.key, s.head.version) {
		err = s.walker.Rewrite(s.head.version, body, s.observe)
	}
	if err != nil {
		return s.badFrame(err)
	}
	s.queue.advance()
	if !edited {
		return Decision{Verb: Forward, N: len(window)}
	}
	return Decision{Verb: Replace, N: len(window), Data: frame}
}
