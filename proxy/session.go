package proxy

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"kafka-mirror-proxy/enforce"
	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/protocol/batch"
)

// shared is what all sessions of a server have in common. All of it may be called at any time.
type shared struct {
	policy  *enforce.Policy
	gate    *enforce.Gate
	limits  Limits
	metrics *Metrics
	// observe is the address for clients of a broker that the answer names with its own
	// client address, which is worth learning; address is that for every other kind.
	observe, address protocol.AddressOf
	// hold returns what to wait for until the view is loaded or it took too long; nil when
	// too many wait already.
	hold func() <-chan struct{}
	// refuse are the verdicts in the form that package protocol asks for.
	refuse, notLeader, loading protocol.RefuseTopic
	stateTopic                 func(protocol.TopicRef) bool
	// filler says whether a topic is known to hold filler perhaps; look whether it has to be looked for, which is so
	// for any topic while that is not known.
	filler, look func(protocol.TopicRef) bool
	hide         protocol.HideRecords
}

func newShared(policy *enforce.Policy, gate *enforce.Gate, limits Limits, metrics *Metrics) (*shared, error) {
	hider, err := batch.NewHider(batch.HiderConfig{
		Coders: runtime.GOMAXPROCS(0), CacheBytes: limits.CachedBytes, CachedBytes: &metrics.cachedBytes, HiddenBatches: &metrics.hiddenBatches})
	if err != nil {
		return nil, err
	}
	always := func(code int16, message string) protocol.RefuseTopic {
		return func(protocol.TopicRef) (int16, string, bool) { return code, message, true }
	}
	const notLoaded = "The proxy has not loaded the mirrors' state yet."
	return &shared{
		policy: policy, gate: gate, limits: limits, metrics: metrics,
		refuse: func(t protocol.TopicRef) (int16, string, bool) {
			refusal, refused := verdict(policy, t)
			return refusal.Code, refusal.Message, refused
		},
		// Every client takes these two codes for "ask again": producers refresh metadata on the
		// first, transaction managers send again on the second.
		notLeader: always(protocol.CodeNotLeaderOrFollower, notLoaded),
		loading:   always(protocol.CodeCoordinatorLoadInProgress, notLoaded),
		stateTopic: func(t protocol.TopicRef) bool {
			if t.ByID {
				return policy.StateTopicID(t.ID)
			}
			return policy.StateTopic(t.Name)
		},
		filler: policy.MayHoldFiller,
		look:   func(t protocol.TopicRef) bool { return !policy.Ready() || policy.MayHoldFiller(t) },
		hide: func(out []byte, t protocol.TopicRef, partition int32, records []byte) ([]byte, bool) {
			place := batch.Place{Topic: t.Name, Partition: partition}
			if t.ByID {
				place.Topic = t.ID[:]
			}
			return hider.AppendVisible(out, place, records)
		},
	}, nil
}

func verdict(policy *enforce.Policy, t protocol.TopicRef) (enforce.Refusal, bool) {
	if t.ByID {
		return policy.ProduceID(t.ID)
	}
	return policy.Produce(t.Name)
}

// Session is one client connection as a pure object: it is shown bytes and answers with
// verbs; it does no I/O and reads no clock. OnRequest and the fields below "request half" belong to the
// goroutine that reads the client, OnResponse and Written to the one that reads the broker; the
// queue is between both. Each half is shown the bytes from the first one not passed, replaced
// or discarded on; how they were cut on the way makes no difference.
type Session struct {
	*shared
	peer  LocalRequest // NodeID, Client and Dialect of this connection
	queue queue
	// findCoordinatorMax is the broker's own highest version, learnt from its ApiVersions
	// answer by the response half, used by the request half.
	findCoordinatorMax atomic.Int32

	// request half
	holding <-chan struct{} // of the frame at the front of the window
	expired bool            // that wait is over
	fetched fetched

	// response half
	head    entry
	walking bool
	walker  protocol.FetchWalker
}

func newSession(s *shared, nodeID int32, client, dialect string) *Session {
	session := &Session{
		shared: s,
		peer:   LocalRequest{NodeID: nodeID, Client: client, Dialect: dialect},
		queue:  newQueue(s.limits.InFlight),
	}
	// Brokers of our own age know version 6. A client that never asked for versions gets that.
	session.findCoordinatorMax.Store(6)
	return session
}

// Wakes sets how the read of the broker is interrupted and how that is taken back. Both run
// under the queue's lock and must not call the session.
func (s *Session) Wakes(wake, unwake func()) { s.queue.wake, s.queue.unwake = wake, unwake }

// Written says that everything decided by OnResponse has been sent. It returns whether an entry
// is done with by that; the caller must then ask OnResponse again before it reads.
func (s *Session) Written() bool { return s.queue.pop() }

// EndRequests says that the client sends no more; what is due is still answered.
func (s *Session) EndRequests() { s.queue.end() }

// CutRequest says that the last request was not passed on whole and never will be. Its token
// is to be exited once the broker's connection is closed.
func (s *Session) CutRequest() enforce.Token { return s.queue.cut() }

// Abandon says that the client is gone: answers are swallowed from now on. It returns whether a
// produce is still unanswered; if none is, nothing more needs to be read from the broker.
func (s *Session) Abandon() (unanswered bool) { return s.queue.abandon() }

// Unanswered says whether a produce waits for its answer.
func (s *Session) Unanswered() bool { return s.queue.unanswered() }

// HoldsUp says whether the barrier that runs waits for this connection.
func (s *Session) HoldsUp() bool { return s.queue.waited() }

// Die returns the tokens of produces whose answers never came. Both halves must have ended.
func (s *Session) Die() []enforce.Token { return s.queue.die() }

// call is an answer, or a part of one, that is made here.
type call struct {
	request LocalRequest
	// done is closed when body and err are set; nil when they were at once.
	done chan struct{}
	body []byte
	err  error
	// merge makes the answer of the broker's part (nil when it has none) and body.
	merge func(upstream, local []byte) ([]byte, error)
}

func (c *call) ready() bool {
	if c.done == nil {
		return true
	}
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// run asks the handler. The request's body must be the call's own by now.
func (c *call) run(ctx context.Context, handler LocalHandler) {
	defer close(c.done)
	defer func() {
		// A bug in an answer must cost one connection, not the proxy that all clients share.
		if p := recover(); p != nil {
			c.err = fmt.Errorf("panic: %v", p)
		}
	}()
	c.body, c.err = handler.Handle(ctx, c.request)
	c.request.Body = nil
}

var (
	errTLS        = errors.New("TLS bytes on a plain port?")
	errUnaskedFor = errors.New("the broker sent bytes that nobody asked for")
)
