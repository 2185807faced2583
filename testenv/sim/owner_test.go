package sim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/replicate"
	"kafka-mirror-proxy/state"
)

// gate holds up everything that a process does to the world while the process is stopped (SIGSTOP), and fails it once it
// is dead.
type gate struct {
	mu     sync.Mutex
	frozen chan struct{} // nil while it runs; closed when it goes on
	since  time.Time
	dead   bool
	// leaseless: it has no lease before that, since it stood still for longer than its lease.
	leaseless time.Time
	conns     map[*gatedConn]bool
}

var errDead = errors.New("the process is dead")

// pass waits while the process is stopped. waited says that it had to.
func (g *gate) pass() (waited bool, err error) {
	for {
		g.mu.Lock()
		frozen, dead := g.frozen, g.dead
		g.mu.Unlock()
		if dead {
			return waited, errDead
		}
		if frozen == nil {
			return waited, nil
		}
		waited = true
		<-frozen
	}
}

func (g *gate) freeze() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen == nil && !g.dead {
		g.frozen, g.since = make(chan struct{}), time.Now()
	}
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.frozen == nil {
		return
	}
	if time.Since(g.since) >= lease { // it was lost meanwhile, and may be won back by a heartbeat
		g.leaseless = time.Now().Add(heartbeat)
	}
	close(g.frozen)
	g.frozen = nil
}

func (g *gate) hasLease() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !time.Now().Before(g.leaseless)
}

// kill is SIGKILL: what was written before is on its way, nothing else is.
func (g *gate) kill() {
	g.mu.Lock()
	g.dead = true
	for conn := range g.conns {
		conn.Conn.Close()
	}
	g.mu.Unlock()
	g.thaw()
}

// leaseless says that the process writes to a mirror topic although its lease was over at an earlier moment. (At the same
// moment it may have looked before.) b is what it writes; a frame begins with its size and the key of its API.
func (c *gatedConn) leaseless(b []byte) bool {
	lostAt := c.owner.lostAtNs.Load()
	return c.produces && len(b) > 8 && binary.BigEndian.Uint16(b[4:]) == uint16(kmsg.Produce.Int16()) && lostAt != 0 && time.Now().UnixNano() > lostAt
}

// gatedConn is a connection of a process that can be stopped. A write that had begun when it was stopped goes out when it
// goes on, whatever its deadline: the process looks at no clock between its last check and the system call.
type gatedConn struct {
	net.Conn
	gate     *gate
	owner    *owner
	produces bool // it is for produce requests, which are written frame by frame
}

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if _, gone := c.gate.pass(); gone != nil {
		return 0, gone
	}
	return n, err
}

func (c *gatedConn) Write(b []byte) (int, error) {
	waited, err := c.gate.pass()
	if err != nil {
		return 0, err
	}
	if waited {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
			return 0, err
		}
	} else if c.leaseless(b) {
		c.owner.defied.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *gatedConn) Close() error {
	if waited, err := c.gate.pass(); waited && err == nil {
		time.Sleep(time.Millisecond) // a write that waited, too, goes first
	}
	c.gate.mu.Lock()
	delete(c.gate.conns, c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// dialer connects the process to a cluster; for produce requests, or for all others.
func (o *owner) dialer(c *cluster, produces bool) func(ctx context.Context, addr string) (net.Conn, error) {
	g := &o.gate
	return func(_ context.Context, addr string) (net.Conn, error) {
		if _, err := g.pass(); err != nil {
			return nil, err
		}
		conn, err := c.dial(o.name, addr)
		if err != nil {
			return nil, err
		}
		gated := &gatedConn{Conn: conn, gate: g, owner: o, produces: produces}
		g.mu.Lock()
		g.conns[gated] = true
		g.mu.Unlock()
		return gated, nil
	}
}

// ownership is the state that owners share.
type ownership struct {
	*state.Memory
	mu     sync.Mutex
	random *rand.Rand
}

func newOwnership(seed uint64) *ownership {
	return &ownership{Memory: state.NewMemory(), random: rand.New(rand.NewPCG(seed, 3))}
}

const (
	lease     = 4 * time.Second
	heartbeat = time.Second
)

// owner is a process that replicates while it believes to own the mirrors.
type owner struct {
	name       string
	shared     *ownership
	gate       gate
	holds      atomic.Bool
	generation atomic.Int64
	lostAtNs   atomic.Int64 // when it lost the ownership, 0 while it has it
	defied     atomic.Bool  // it wrote to a mirror topic without the lease
	always     bool         // its lease lies: it believes to own the mirrors whatever happens
	faulty     atomic.Bool  // its writes of the state end in nobody knows what, now and then

	clients             []*kgo.Client
	source, destination *cluster
	cancel              context.CancelFunc
	done                chan error
}

func (o *owner) View() *state.View                                          { return o.shared.Memory.View() }
func (o *owner) Subscribe() (<-chan struct{}, func())                       { return o.shared.Memory.Subscribe() }
func (o *owner) Generation() int64                                          { return o.generation.Load() }
func (o *owner) Destination() *kgo.Client                                   { return o.clients[1] }
func (o *owner) Source(context.Context, *state.Mirror) (*kgo.Client, error) { return o.clients[0], nil }
func (o *owner) DialDestination(ctx context.Context, addr string) (net.Conn, error) {
	return o.dialer(o.destination, true)(ctx, addr)
}

// Lease is looked at by a process that runs: one that stands still finds out when it goes on.
func (o *owner) Lease() bool {
	_, err := o.gate.pass()
	return err == nil && o.holds.Load() && (o.always || o.gate.hasLease())
}

func (o *owner) Do(ctx context.Context, commands ...state.Command) error {
	if _, err := o.gate.pass(); err != nil {
		return err
	}
	if !o.holds.Load() {
		return &state.Error{Code: state.CodeNotOwner, Message: "not the owner"}
	}
	o.shared.mu.Lock()
	unknown := o.faulty.Load() && o.shared.random.IntN(100) == 0
	o.shared.mu.Unlock()
	if err := o.shared.Memory.Do(ctx, commands...); err != nil {
		return err
	}
	if unknown {
		return state.ErrOutcomeUnknown
	}
	return nil
}

func newOwner(t *testing.T, name string, shared *ownership, source, destination *cluster, settings replicate.Settings, log *journal) *owner {
	o := &owner{name: name, shared: shared, source: source, destination: destination, done: make(chan error, 1)}
	o.gate.conns = map[*gatedConn]bool{}
	for _, c := range []*cluster{source, destination} {
		dial := o.dialer(c, false)
		var seeds []string
		for id := range c.brokers {
			seeds = append(seeds, c.host(id)+":9092")
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DisableClientMetrics(), kgo.MetadataMinAge(100*time.Millisecond), kgo.RetryTimeout(5*time.Second),
			kgo.Dialer(func(ctx context.Context, _, addr string) (net.Conn, error) { return dial(ctx, addr) }))
		if err != nil {
			t.Fatal(err)
		}
		o.clients = append(o.clients, client)
	}
	replicator, err := replicate.New(replicate.Config{Store: o, Live: state.NewLive(), Clusters: o, Settings: settings, Log: zerolog.New(log.of(name)).Level(zerolog.DebugLevel)})
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(context.Background())
	go func() {
		err := replicator.Run(ctx)
		for _, client := range o.clients {
			client.Close()
		}
		o.done <- err
	}()
	return o
}

// own makes it the owner, or not any more.
func (o *owner) own(generation int64) {
	o.generation.Store(generation)
	if o.lostAtNs.Store(0); generation == 0 {
		o.lostAtNs.Store(time.Now().UnixNano())
	}
	o.holds.Store(generation != 0)
}

// stop waits for its end.
func (o *owner) stop() error {
	o.gate.thaw()
	o.cancel()
	return <-o.done
}

// journal keeps the last lines of what happened, for a case that fails.
type journal struct {
	mu    sync.Mutex
	lines []string
}

const journalLines = 400

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) >= journalLines {
		j.lines = append(j.lines[:0], j.lines[journalLines/2:]...)
	}
	since := time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) // where the time of a bubble begins
	j.lines = append(j.lines, fmt.Sprintf("%9.3f s  %s", since.Seconds(), fmt.Sprintf(format, args...)))
}

type journalOf struct {
	journal *journal
	name    string
}

func (j *journal) of(name string) journalOf { return journalOf{j, name} }

func (j journalOf) Write(b []byte) (int, error) {
	j.journal.add("%s: %s", j.name, b)
	return len(b), nil
}
