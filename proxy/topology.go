package proxy

import (
	"errors"
	"fmt"
	"net"
	"sort"
	"strconv"
	"sync"
)

const maxPort = 65535

// addresses is the formula of what clients are told: broker n is at the advertised host, port of
// the bootstrap listener + 1 + n. It needs no state, so that it is the same after every
// restart and on every proxy, and clients with cached addresses come back.
type addresses struct {
	host      string
	basePort  int
	nodePorts map[int32]int
}

// port returns an error that names node and port when there is none.
func (a addresses) port(nodeID int32) (int, error) {
	port, chosen := a.nodePorts[nodeID]
	if !chosen {
		port = a.basePort + 1 + int(nodeID)
	}
	if port < 1 || port > maxPort {
		return 0, fmt.Errorf("broker %d would be at port %d, which is not between 1 and %d: choose one with node-ports", nodeID, port, maxPort)
	}
	return port, nil
}

// address is what clients are told. A broker without a port gets port 0, which nobody can
// dial: better than the address of another broker, or an upstream one.
func (a addresses) address(nodeID int32) (host string, port int32) {
	if nodeID < 0 {
		return "", -1
	}
	p, err := a.port(nodeID)
	if err != nil {
		return a.host, 0
	}
	return a.host, int32(p)
}

func (b Broker) dialAddress() string { return net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))) }

// topology is the destination's brokers and the listeners that stand for them. Any goroutine may
// call it.
type topology struct {
	addresses
	bindHost string
	// serve is called with each listener that was bound, under the lock.
	serve func(nodeID int32, listener net.Listener)

	mu        sync.RWMutex
	brokers   map[int32]Broker
	listeners map[int32]net.Listener
	problems  map[int32]error
	closed    bool
}

func newTopology(a addresses, bindHost string, serve func(int32, net.Listener)) *topology {
	return &topology{addresses: a, bindHost: bindHost, serve: serve,
		brokers: map[int32]Broker{}, listeners: map[int32]net.Listener{}, problems: map[int32]error{}}
}

// observe learns one broker from an answer and binds its listener before the client that gets
// the answer can dial it. It costs a look under a read lock when nothing is new.
func (t *topology) observe(b Broker) {
	if b.ID < 0 || b.Host == "" || b.Port <= 0 {
		return // a fenced broker, say: its address is known to no one
	}
	t.mu.RLock()
	known := t.brokers[b.ID] == b
	t.mu.RUnlock()
	if known {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.brokers[b.ID] = b
	t.bind(b.ID)
}

// set makes brokers the whole cluster.
func (t *topology) set(brokers []Broker) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.problems)
	t.brokers = make(map[int32]Broker, len(brokers))
	for _, b := range brokers {
		t.brokers[b.ID] = b
	}
	for id, listener := range t.listeners {
		if _, stays := t.brokers[id]; !stays {
			listener.Close()
			delete(t.listeners, id)
		}
	}
	for _, b := range brokers {
		t.bind(b.ID)
	}
	return t.problem()
}

// retry binds what could not be bound.
func (t *topology) retry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.problems {
		t.bind(id)
	}
}

// bind is called with the lock held.
func (t *topology) bind(nodeID int32) {
	if _, bound := t.listeners[nodeID]; bound || t.closed {
		return
	}
	delete(t.problems, nodeID)
	port, err := t.port(nodeID)
	if err != nil {
		t.problems[nodeID] = err
		return
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(t.bindHost, strconv.Itoa(port)))
	if err != nil {
		t.problems[nodeID] = fmt.Errorf("listen at port %d for broker %d: %w", port, nodeID, err)
		return
	}
	t.listeners[nodeID] = listener
	t.serve(nodeID, listener)
}

// problem joins the problems in the order of the node ids. Called with the lock held.
func (t *topology) problem() error {
	ids := make([]int32, 0, len(t.problems))
	for id := range t.problems {
		ids = append(ids, id)
	}
	sort.Slice(ids, func(i, j int) bool { return ids[i] < ids[j] })
	errs := make([]error, len(ids))
	for i, id := range ids {
		errs[i] = t.problems[id]
	}
	return errors.Join(errs...)
}

// all returns the brokers by id, and the joined problems.
func (t *topology) all() ([]Broker, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	brokers := make([]Broker, 0, len(t.brokers))
	for _, b := range t.brokers {
		brokers = append(brokers, b)
	}
	sort.Slice(brokers, func(i, j int) bool { return brokers[i].ID < brokers[j].ID })
	return brokers, t.problem()
}

func (t *topology) broker(nodeID int32) (Broker, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	b, ok := t.brokers[nodeID]
	return b, ok
}

// close closes the listeners and binds no more.
func (t *topology) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for id, listener := range t.listeners {
		listener.Close()
		delete(t.listeners, id)
	}
}
