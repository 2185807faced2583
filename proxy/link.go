package proxy

import (
	"context"
	"errors"
	"io"
	"time"
)

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// record keeps the first cause of the end.
func (l *link) record(cause Cause, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != CauseNone || cause == CauseNone {
		return
	}
	l.cause, l.err = cause, err
	if l.ctx.Err() != nil && cause.routine() {
		l.cause, l.err = CauseDrain, context.Cause(l.ctx)
	}
}

// close closes both sockets. With a produce unanswered the broker's is reset, so that what is still
// in our kernel never gets there.
func (l *link) close() {
	unanswered := l.session.Unanswered()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.grace != nil {
		l.grace.Stop()
	}
	l.client.Close()
	if l.broker == nil {
		return
	}
	if tcp, ok := l.broker.(interface{ SetLinger(int) error }); ok && unanswered {
		_ = tcp.SetLinger(0) // fails on a closed socket only
	}
	l.broker.Close()
}

// abandon says that the client is gone. Answers are read on while a produce is unanswered, but
// not for ever.
func (l *link) abandon() {
	unanswered := l.session.Abandon()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return
	}
	l.gone = true
	l.client.Close()
	if !unanswered {
		l.cancel()
		return
	}
	l.setGrace()
}

// endSoon bounds what is left of the connection.
func (l *link) endSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setGrace()
}

func (l *link) setGrace() {
	if l.grace == nil {
		l.grace = time.AfterFunc(l.limits.UnansweredGrace, l.cancel)
	}
}

func (l *link) isGone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gone
}

// drain has the request half end at the next boundary between requests.
func (l *link) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draining = true
	if l.reading {
		_ = l.client.SetReadDeadline(time.Unix(1, 0)) // fails on a closed socket only
	}
}

// beginRead and endRead are around the reads that drain may interrupt: those that wait for a request,
// none of which has been passed on yet.
func (l *link) beginRead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = !l.draining
	return l.reading
}

func (l *link) endRead() (draining bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = false
	return l.draining
}
