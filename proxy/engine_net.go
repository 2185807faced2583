package proxy

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"kafka-mirror-proxy/enforce"
)

// netEngine is the Engine on blocking connections: two goroutines a connection, one for each
// direction. Blocking is the backpressure: a peer that does not read is not read for, and the
// kernel's windows close by themselves.
type netEngine struct {
	limits            Limits
	handler           LocalHandler
	calls             chan struct{} // one token a call that runs
	requests, answers *buffers
	metrics           *Metrics
	// draining ends when connections must take no more requests.
	draining context.Context

	mu    sync.Mutex
	links map[*link]struct{} // those that are served, for the patrol
}

func newNetEngine(draining context.Context, limits Limits, handler LocalHandler, metrics *Metrics) *netEngine {
	return &netEngine{
		limits: limits, handler: handler, metrics: metrics, draining: draining,
		calls:    make(chan struct{}, limits.LocalCalls),
		links:    map[*link]struct{}{},
		requests: newBuffers(limits.WindowBytes, limits.HeldBytes, &metrics.heldBytes),
		answers:  newBuffers(limits.WindowBytes, limits.HeldBytes, &metrics.heldBytes),
	}
}

// link is one client connection. The request half runs on Serve's goroutine and owns in and
// dial; the response half runs on its own, from the dial on, and owns out. What both write is below
// mu. Either half ends the other by closing the sockets.
type link struct {
	*netEngine
	session   *Session
	ctx       context.Context
	cancel    context.CancelFunc
	client    net.Conn
	in        *source
	dial      func(context.Context) (net.Conn, error)
	out       *source
	responded chan struct{}
	sending   passage // of the request half, to the broker
	giving    passage // of the response half, to the client

	mu       sync.Mutex
	broker   net.Conn
	closed   bool
	reading  bool // the request half reads between decisions and may be interrupted
	draining bool
	gone     bool // nobody reads the answers
	grace    *time.Timer
	cause    Cause
	err      error
}

var _ Engine = (*netEngine)(nil)

// Serve implements Engine.
func (e *netEngine) Serve(ctx context.Context, client net.Conn, dial func(context.Context) (net.Conn, error), session *Session) (Cause, error) {
	ctx, cancel := context.WithCancel(ctx)
	l := &link{netEngine: e, session: session, ctx: ctx, cancel: cancel, client: client,
		in: newSource(client, e.requests), dial: dial, responded: make(chan struct{})}
	closing := context.AfterFunc(ctx, l.close)
	draining := context.AfterFunc(e.draining, l.drain)
	e.enlist(l)
	cut := l.serve()
	e.strike(l)
	l.close() // before Die, so that it knows what was unanswered
	cancel()
	closing()
	draining()
	l.in.window.release()
	cut.Exit() // its request never was whole at the broker
	l.letGo(session.Die())
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause, l.err
}

// serve runs both halves to their end. It returns the token of a request that was cut off.
func (l *link) serve() (cut enforce.Token) {
	end := l.takeRequests()
	l.record(end.cause, end.err)
	switch {
	case l.out == nil:
		return cut
	case end.brokerGone:
		// Answers that it sent before may still be there to read, and then its end.
		l.session.EndRequests()
		l.endSoon()
	case end.clientGone:
		if end.cut {
			cut = l.session.CutRequest()
		}
		l.abandon()
	default:
		l.session.EndRequests()
	}
	<-l.responded
	return cut
}

// letGo exits the tokens of produces that were never answered. See doc.go for what the grace is
// worth.
func (l *link) letGo(tokens []enforce.Token) {
	if len(tokens) == 0 {
		return
	}
	exit := func() {
		for _, token := range tokens {
			token.Exit()
		}
	}
	if l.out == nil { // nothing was ever sent
		exit()
		return
	}
	time.AfterFunc(l.limits.UnansweredGrace, exit)
}

// requestsEnd is how the request half ended. Neither flag: what is due can still be answered.
type requestsEnd struct {
	cause      Cause
	err        error
	clientGone bool
	cut        bool // within a request that is partly sent
	brokerGone bool
}

func (l *link) takeRequests() requestsEnd {
	if err := l.client.SetReadDeadline(time.Now().Add(l.limits.FirstHeader)); err != nil {
		return requestsEnd{cause: CauseClientLost, err: err, clientGone: true}
	}
	decided := 0 // bytes at the front of the window to pass on
	for {
		d := l.session.OnRequest(l.in.window.bytes()[decided:])
		if d.Verb == Forward && d.Data == nil && d.N <= l.in.window.len()-decided {
			if l.out == nil {
				if end := l.connect(); end != nil {
					return *end
				}
			}
			decided += d.N // one write for a run of requests
			continue
		}
		if end := l.doRequest(d, decided); end != nil {
			return *end
		}
		decided = 0
	}
}

// doRequest passes decided bytes on and carries d out. It returns nil to go on.
func (l *link) doRequest(d Decision, decided int) *requestsEnd {
	if d.Verb == Forward {
		decided += d.N
	}
	if l.out == nil && d.Verb != NeedMore && d.Verb != Close {
		if end := l.connect(); end != nil {
			return end
		}
	}
	if end := l.send(decided, d.Verb == Forward); end != nil {
		return end
	}
	switch d.Verb {
	case NeedMore:
		return l.readRequests(d.N)
	case Wait:
		select {
		case <-d.Until:
		case <-l.ctx.Done():
			return &requestsEnd{cause: CauseDrain, brokerGone: true}
		}
		return nil
	case Close:
		return &requestsEnd{cause: d.Cause, err: d.Err}
	}
	if d.Call != nil && !l.start(d.Call) {
		return &requestsEnd{cause: CauseDrain, brokerGone: true}
	}
	if len(d.Data) > 0 {
		if err := l.write(&l.sending, l.out.conn, d.Data); err != nil {
			return &requestsEnd{cause: CauseBrokerLost, err: err, brokerGone: true}
		}
		l.metrics.requestBytes.Add(int64(len(d.Data)))
	}
	if d.Verb == Forward {
		return nil
	}
	if err := l.in.drop(d.N); err != nil {
		return &requestsEnd{cause: CauseClientLost, err: err, clientGone: true}
	}
	return nil
}

// send passes n bytes on. pushed says that the last of them belong to a request that is in the
// queue already.
func (l *link) send(n int, pushed bool) *requestsEnd {
	if n == 0 {
		return nil
	}
	if l.in.window.held > 0 {
		defer l.limitWrite(l.out.conn)()
	}
	sent, brokerFailed, err := l.pass(&l.sending, l.in, l.out.conn, n)
	l.metrics.requestBytes.Add(sent)
	switch {
	case err == nil:
		return nil
	case brokerFailed:
		return &requestsEnd{cause: CauseBrokerLost, err: err, brokerGone: true}
	}
	return &requestsEnd{cause: CauseClientLost, err: err, clientGone: true, cut: pushed}
}

func (l *link) readRequests(need int) *requestsEnd {
	if !l.beginRead() {
		return &requestsEnd{cause: CauseDrain}
	}
	err := l.in.fill(l.ctx, need, l.limits.Held)
	draining := l.endRead()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && draining:
		return &requestsEnd{cause: CauseDrain}
	case errors.Is(err, os.ErrDeadlineExceeded) && l.out == nil:
		return &requestsEnd{cause: CauseHeaderTimeout, clientGone: true}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return &requestsEnd{cause: CauseHeldTimeout, err: err, clientGone: true}
	case errors.Is(err, errOverBudget):
		return &requestsEnd{cause: CauseFrameLength, err: err}
	case isEOF(err) && l.in.window.len() == 0:
		return &requestsEnd{cause: CauseClientClosed}
	case isEOF(err):
		return &requestsEnd{cause: CauseClientLost, err: err}
	}
	return &requestsEnd{cause: CauseClientLost, err: err, clientGone: true}
}

// connect dials the broker and starts the response half.
func (l *link) connect() *requestsEnd {
	dialing, cancel := context.WithTimeout(l.ctx, l.limits.Dial)
	defer cancel()
	broker, err := l.dial(dialing)
	if err != nil {
		l.metrics.dialFailures.Inc()
		return &requestsEnd{cause: CauseDial, err: err}
	}
	l.mu.Lock()
	l.broker = broker
	closed := l.closed
	l.mu.Unlock()
	if closed {
		broker.Close()
		return &requestsEnd{cause: CauseDrain}
	}
	if err := l.client.SetReadDeadline(time.Time{}); err != nil {
		broker.Close()
		return &requestsEnd{cause: CauseClientLost, err: err}
	}
	l.out = newSource(broker, l.answers)
	past := time.Unix(1, 0)
	l.session.Wakes(
		func() { _ = broker.SetReadDeadline(past) }, // fails on a closed socket only, which needs no wake
		func() { _ = broker.SetReadDeadline(time.Time{}) },
	)
	go func() {
		defer close(l.responded)
		cause, err := l.giveAnswers()
		l.record(cause, err)
		l.out.window.release()
		l.cancel()
	}()
	return nil
}

// start runs a call once there is room for it. Its body may be the window's until then.
func (l *link) start(c *call) bool {
	select {
	case l.calls <- struct{}{}:
	case <-l.ctx.Done():
		return false
	}
	c.request.Body = slices.Clone(c.request.Body)
	go func() {
		defer func() { <-l.calls }()
		ctx, cancel := context.WithTimeout(l.ctx, l.limits.LocalCall)
		defer cancel()
		c.run(ctx, l.handler)
	}()
	return true
}

// giveAnswers is the response half.
func (l *link) giveAnswers() (Cause, error) {
	decided := 0
	for {
		d := l.session.OnResponse(l.out.window.bytes()[decided:])
		if d.Verb == Forward && d.N <= l.out.window.len()-decided {
			decided += d.N
			continue
		}
		if d.Verb == Forward {
			decided += d.N
		}
		if !l.give(decided) {
			return CauseClientLost, nil // recorded with its error
		}
		decided = 0
		switch d.Verb {
		case NeedMore, Wait:
			if l.session.Written() {
				continue
			}
			if cause, err := l.awaitAnswer(d); cause != CauseNone {
				return cause, err
			}
		case Replace, Discard:
			l.giveOwn(d.Data)
			if err := l.out.drop(d.N); err != nil {
				return CauseBrokerLost, err
			}
		case Close:
			l.session.Written()
			return d.Cause, d.Err
		}
	}
}

// awaitAnswer reads the broker, or waits for an answer made here.
func (l *link) awaitAnswer(d Decision) (Cause, error) {
	if d.Verb == Wait {
		l.giving.begin() // what waits behind the answer waits too
		defer l.giving.end()
		select {
		case <-d.Until:
		case <-l.ctx.Done():
			return CauseDrain, nil
		}
		return CauseNone, nil
	}
	idle := l.out.window.len() == 0 // between frames
	err := l.out.fill(l.ctx, d.N, l.limits.Held)
	switch {
	case err == nil:
		return CauseNone, nil
	case errors.Is(err, os.ErrDeadlineExceeded) && idle && d.N == 1:
		return CauseNone, nil // woken: look at the queue again
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return CauseHeldTimeout, err
	case errors.Is(err, errOverBudget):
		return CauseBrokerFrame, err
	case isEOF(err) && l.out.window.len() == 0:
		return CauseBrokerClosed, nil
	}
	return CauseBrokerLost, err
}

// give passes n bytes to the client. It returns false when the connection is over.
func (l *link) give(n int) bool {
	if n == 0 {
		return true
	}
	if l.isGone() {
		if err := l.out.drop(n); err != nil {
			l.record(CauseBrokerLost, err)
			return false
		}
		return true
	}
	if l.out.window.held > 0 {
		defer l.limitWrite(l.client)()
	}
	sent, clientFailed, err := l.pass(&l.giving, l.out, l.client, n)
	l.metrics.responseBytes.Add(sent)
	if err == nil {
		return true
	}
	if !clientFailed {
		l.record(CauseBrokerLost, err)
		return false
	}
	l.record(CauseClientLost, err)
	l.abandon()
	return !l.out.lost && l.give(n-int(sent))
}

// giveOwn sends bytes that were made here.
func (l *link) giveOwn(data []byte) {
	if len(data) == 0 || l.isGone() {
		return
	}
	if err := l.write(&l.giving, l.client, data); err != nil {
		l.record(CauseClientLost, err)
		l.abandon()
		return
	}
	l.metrics.responseBytes.Add(int64(len(data)))
}

func (l *link) write(p *passage, conn net.Conn, data []byte) error {
	p.begin()
	defer p.end()
	if len(data) > l.limits.WindowBytes {
		defer l.limitWrite(conn)()
	}
	_, err := conn.Write(data)
	return err
}

// limitWrite bounds the writes to conn until the returned function is called.
func (l *link) limitWrite(conn net.Conn) (end func()) {
	if err := conn.SetWriteDeadline(time.Now().Add(l.limits.Held)); err != nil {
		return func() {} // closed: the write fails by itself
	}
	return func() { _ = conn.SetWriteDeadline(time.Time{}) }
}
