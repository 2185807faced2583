package proxy

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"kafka-mirror-proxy/enforce"
)

// patrolInterval is how often the patrol looks at all connections.
const patrolInterval = time.Second

// pieceBytes is what is passed on between two signs of life of a passage.
const pieceBytes = 1 << 20

// passage tells the patrol whether one half of a connection is at a peer's mercy, and whether it gets
// on. A deadline could not: one at a write by splice(2) loses bytes, and one at the read of a request
// neither catches a client that sends a byte now and then nor spares one that is only slow.
type passage struct {
	steps atomic.Uint64 // odd while the half is at a peer's mercy; grows with all that moves

	// the patrol's
	seen  uint64
	since time.Time
}

func (p *passage) begin() { p.steps.Add(1) }
func (p *passage) moved() { p.steps.Add(2) }
func (p *passage) end()   { p.steps.Add(1) }

func (p *passage) underWay() bool { return p.steps.Load()&1 == 1 }

// stuck is for how long the patrol has seen it not get on.
func (p *passage) stuck(now time.Time) time.Duration {
	steps := p.steps.Load()
	if steps != p.seen || steps&1 == 0 {
		p.seen, p.since = steps, now
	}
	return now.Sub(p.since)
}

var (
	errHoldsUp = errors.New("a topic is being added to a mirror, which waits for this client to finish a produce or to read its answers")
	errStalled = errors.New("not a piece of a frame could be passed on")
)

// patrol ends the connections that hold up others. While a barrier waits, who holds a token because
// it does not finish a produce, or does not read the answers before that of the produce, has
// Limits.Barrier; a produce that the broker has whole is waited for. Whoever else is stuck within a
// frame has Limits.Stalled. One goroutine calls it.
func (e *netEngine) patrol(gate *enforce.Gate, now time.Time) {
	barrier := gate.Waiting() >= e.limits.Barrier
	e.mu.Lock()
	defer e.mu.Unlock()
	for l := range e.links {
		stuck := max(l.sending.stuck(now), l.giving.stuck(now))
		switch {
		case stuck >= e.limits.Stalled:
			l.record(CauseStalled, errStalled)
			l.cancel()
		case barrier && (l.sending.underWay() || l.giving.underWay()) && l.session.HoldsUp():
			l.evict()
		}
	}
}

// evict ends the connection as if the client had gone: in the middle of its request when it sends
// one, so that the token is free at once.
func (l *link) evict() {
	l.record(CauseHoldsUp, errHoldsUp)
	if tcp, ok := l.client.(*net.TCPConn); ok && !l.giving.underWay() {
		_ = tcp.CloseRead() // fails on a closed socket only
		return
	}
	l.client.Close()
}

func (e *netEngine) enlist(l *link) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.links[l] = struct{}{}
}

func (e *netEngine) strike(l *link) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.links, l)
}

// pass sends the next n bytes of s to sink. See source.passTo.
func (l *link) pass(p *passage, s *source, sink net.Conn, n int) (sent int64, sinkFailed bool, err error) {
	p.begin()
	defer p.end()
	for {
		piece := min(n, pieceBytes)
		moved, sinkFailed, err := s.passTo(sink, piece)
		sent += moved
		if n -= piece; err != nil || n == 0 {
			return sent, sinkFailed, err
		}
		p.moved()
	}
}
