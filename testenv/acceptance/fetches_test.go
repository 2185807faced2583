package acceptance

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchWatch stands between clients and a proxy and sees what they fetch. A client's position is the offset that it asks
// for: not every client tells its own, and one that spins has no idea that it does.
type fetchWatch struct {
	t         *testing.T
	first     int // port of the bootstrap listener, here and at the proxy
	listeners []net.Listener

	mu      sync.Mutex
	clients map[string]fetched // by client id
	links   map[net.Conn]struct{}
	closed  bool
	ended   sync.WaitGroup
}

// fetched is what a client has asked for in partition 0 of the one topic that it reads.
type fetched struct {
	requests int
	offset   int64
	arrived  int // how many requests it had sent when it first asked for that offset
}

// watchHost is where the watch listens, on the ports that the proxy has at 127.0.0.1. A proxy that advertises this host sends
// its clients here.
const watchHost = "127.0.0.2"

// watchFetches starts a proxy with args whose clients come by way of the watch.
func watchFetches(t *testing.T, args ...string) (*proxy, *fetchWatch) {
	t.Helper()
	p := startProxy(t, append([]string{"--advertised-host", watchHost}, args...)...)
	w := &fetchWatch{t: t, first: p.ports.First, clients: map[string]fetched{}, links: map[net.Conn]struct{}{}}
	t.Cleanup(w.close)
	for port := w.first; port < w.first+adminPort; port++ {
		listener, err := net.Listen("tcp", net.JoinHostPort(watchHost, strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		w.listeners = append(w.listeners, listener)
		w.ended.Go(func() { w.accept(listener, port) })
	}
	return p, w
}

// Address is where clients bootstrap from.
func (w *fetchWatch) Address() string { return net.JoinHostPort(watchHost, strconv.Itoa(w.first)) }

// Of is what the client of that id has asked for so far.
func (w *fetchWatch) Of(clientID string) fetched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clients[clientID]
}

func (w *fetchWatch) close() {
	w.mu.Lock()
	w.closed = true
	for _, listener := range w.listeners {
		listener.Close()
	}
	for link := range w.links {
		link.Close()
	}
	w.mu.Unlock()
	w.ended.Wait()
}

func (w *fetchWatch) accept(listener net.Listener, port int) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			client.Close() // there is no such broker
			continue
		}
		if !w.keep(client, server) {
			return
		}
		w.ended.Go(func() { defer w.drop(client, server); _, _ = io.Copy(client, server) })
		w.ended.Go(func() {
			defer w.drop(client, server)
			if err := w.forward(server, client); err != nil {
				w.t.Errorf("a request that the watch cannot read: %v", err)
			}
		})
	}
}

// keep remembers connections for close, which it may be too late for.
func (w *fetchWatch) keep(links ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, link := range links {
		w.links[link] = struct{}{}
		if w.closed {
			link.Close()
		}
	}
	return !w.closed
}

func (w *fetchWatch) drop(links ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, link := range links {
		link.Close()
		delete(w.links, link)
	}
}

// forward passes requests on, each after a look at it. A connection that ends is no error.
func (w *fetchWatch) forward(server io.Writer, client io.Reader) error {
	requests := bufio.NewReader(client)
	for {
		var size [4]byte
		if _, err := io.ReadFull(requests, size[:]); err != nil {
			return nil
		}
		frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
		copy(frame, size[:])
		if _, err := io.ReadFull(requests, frame[4:]); err != nil {
			return nil
		}
		if err := w.look(frame[4:]); err != nil {
			return err
		}
		if _, err := server.Write(frame); err != nil {
			return nil
		}
	}
}

// look reads the header of a request (key, version, correlation id, client id), and the body of a Fetch.
func (w *fetchWatch) look(frame []byte) error {
	const fixed = 10
	request := kmsg.NewPtrFetchRequest()
	if len(frame) < fixed || int16(binary.BigEndian.Uint16(frame)) != request.Key() {
		return nil
	}
	request.SetVersion(int16(binary.BigEndian.Uint16(frame[2:])))
	length := max(0, int(int16(binary.BigEndian.Uint16(frame[8:]))))
	clientID, body := string(frame[fixed:fixed+length]), frame[fixed+length:]
	if request.IsFlexible() {
		body = body[1:] // no client sends tags
	}
	if err := request.ReadFrom(body); err != nil {
		return fmt.Errorf("Fetch v%d of %s: %w", request.Version, clientID, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.clients[clientID]
	seen.requests++
	for _, topic := range request.Topics { // a session names a partition again only when its offset changes
		for _, partition := range topic.Partitions {
			if seen.arrived == 0 || seen.offset != partition.FetchOffset {
				seen.offset, seen.arrived = partition.FetchOffset, seen.requests
			}
		}
	}
	w.clients[clientID] = seen
	return nil
}
