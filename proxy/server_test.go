package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafka-mirror-proxy/enforce"
	"kafka-mirror-proxy/testenv"
)

func TestAddressesAreAFormula(t *testing.T) {
	a := addresses{host: "proxy", basePort: 9094, nodePorts: map[int32]int{1000: 7001, 2: 0, 3: 70000}}
	for _, test := range []struct {
		id   int32
		host string
		port int32
	}{
		{-1, "", -1}, {0, "proxy", 9095}, {7, "proxy", 9102}, {1000, "proxy", 7001},
		{100_000, "proxy", 0}, {1<<31 - 1, "proxy", 0}, {2, "proxy", 0}, {3, "proxy", 0},
	} {
		if host, port := a.address(test.id); host != test.host || port != test.port {
			t.Errorf("node %d is at %s:%d, want %s:%d", test.id, host, port, test.host, test.port)
		}
	}
	if _, err := a.port(100_000); err == nil || !strings.Contains(err.Error(), "broker 100000 would be at port 109095") {
		t.Errorf("error %v", err)
	}
}

func TestBadConfigs(t *testing.T) {
	store := mirroredStore(t)
	gate := enforce.NewGate()
	good := Config{Listen: "127.0.0.1:0", Policy: enforce.NewPolicy(store.View, gate, 0), Gate: gate, Local: &listHandler{}, Metrics: newMetrics(t)}
	taken := newScripted(t, func(*net.TCPConn) {})
	for name, change := range map[string]func(*Config){
		"no port":         func(c *Config) { c.Listen = "localhost" },
		"any host":        func(c *Config) { c.Listen = ":0" },
		"any IPv6 host":   func(c *Config) { c.Listen = "[::]:0" },
		"port is taken":   func(c *Config) { c.Listen = taken.listener.Addr().String() },
		"without a gate":  func(c *Config) { c.Gate = nil },
		"without metrics": func(c *Config) { c.Metrics = nil },
	} {
		cfg := good
		change(&cfg)
		if server, err := New(cfg); err == nil {
			server.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestListenersFollowTheCluster(t *testing.T) {
	first, second := newScripted(t, named1("first")), newScripted(t, named1("second"))
	server := startServer(t, mirroredStore(t).View, nil, first.broker(0), second.broker(2))
	ask := func(addr string) string {
		conn := dialTo(t, addr)
		defer conn.Close()
		send(t, conn, opaque(1, 0))
		return string(receive(t, conn)[8:])
	}
	if got := ask(server.node(0)) + ask(server.node(2)); got != "firstsecond" {
		t.Errorf("brokers answer %q", got)
	}
	// bootstrap takes turns, and passes over a broker that is down
	if err := server.SetBrokers([]Broker{first.broker(0), {ID: 1, Host: "127.0.0.1", Port: int32(testenv.FreePorts(t, 1))}, second.broker(2)}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for range 12 {
		seen[ask(server.Addr())]++
	}
	if seen["first"] == 0 || seen["second"] == 0 || seen["first"]+seen["second"] != 12 {
		t.Errorf("bootstrap was served by %v", seen)
	}
	// the one that is down cannot be reached at its own address
	conn := dialTo(t, server.node(1))
	send(t, conn, opaque(1, 0))
	expectEnd(t, conn)
	// 0 moves, 2 goes, 3 is seen in an answer
	if err := server.SetBrokers([]Broker{{ID: 0, Host: "127.0.0.1", Port: second.broker(0).Port}}); err != nil {
		t.Fatal(err)
	}
	if got := ask(server.node(0)); got != "second" {
		t.Errorf("broker 0 moved and %q answers", got)
	}
	if conn, err := net.Dial("tcp", server.node(2)); err == nil {
		conn.Close()
		t.Error("the listener of a broker that is gone still accepts")
	}
	server.Observe(3, "127.0.0.1", first.broker(3).Port)
	if got := ask(server.node(3)); got != "first" {
		t.Errorf("the observed broker answers %q", got)
	}
	server.Observe(4, "", -1) // fenced
	if got := len(server.Problems()); got != 0 {
		t.Errorf("problems %v", server.Problems())
	}
}

// named1 answers everything with its name.
func named1(name string) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		for {
			frame, err := readFrame(conn)
			if err != nil {
				return
			}
			if _, err := conn.Write(rawFrame(frame[8:12], []byte(name))); err != nil {
				return
			}
		}
	}
}

func TestPortProblemsAreNamedAndHealed(t *testing.T) {
	broker := newScripted(t, named1("it"))
	server := startServer(t, mirroredStore(t).View, nil)
	if got := server.Problems(); len(got) != 1 || !strings.Contains(got[0], "no broker") {
		t.Errorf("problems %q", got)
	}
	conn := dialTo(t, server.Addr()) // served by nobody yet
	send(t, conn, opaque(1, 0))
	expectEnd(t, conn)

	occupied, err := net.Listen("tcp", server.node(1))
	if err != nil {
		t.Fatal(err)
	}
	err = server.SetBrokers([]Broker{broker.broker(0), broker.broker(1), broker.broker(60_000)})
	_, port := server.Address(1)
	for _, want := range []string{fmt.Sprintf("listen at port %d for broker 1", port), "broker 60000 would be at port"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if got := server.Problems(); len(got) != 2 {
		t.Errorf("problems %q", got)
	}
	occupied.Close()
	eventually(t, "the port to be bound", func() bool { return len(server.Problems()) == 1 })
	conn = dialTo(t, server.node(1))
	send(t, conn, opaque(1, 0))
	if got := receive(t, conn); string(got[8:]) != "it" {
		t.Errorf("answer %q", got)
	}
}

func TestConnectionLimit(t *testing.T) {
	broker := newScripted(t, echo(t))
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) { cfg.Limits.Connections = 2 }, broker.broker(1))
	inside := []*net.TCPConn{dialTo(t, server.Addr()), dialTo(t, server.node(1))}
	for _, conn := range inside {
		send(t, conn, opaque(1, 0))
		receive(t, conn)
	}
	for range 3 {
		expectEnd(t, dialTo(t, server.Addr()))
	}
	if got := closedBy(server, CauseConnectionLimit); got != 3 {
		t.Errorf("%v closes for the limit", got)
	}
	for _, conn := range inside { // unharmed
		send(t, conn, opaque(2, 0))
		receive(t, conn)
	}
	inside[0].Close()
	eventually(t, "room for another", func() bool { return server.open.Load() == 1 })
	conn := dialTo(t, server.Addr())
	send(t, conn, opaque(1, 0))
	receive(t, conn)
}

// starved is a listener without file descriptors for a while.
type starved struct {
	net.Listener
	failures int
}

func (l *starved) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return l.Listener.Accept()
}

func TestAcceptSurvivesWantOfFileDescriptors(t *testing.T) {
	broker := newScripted(t, echo(t))
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.serveListener(1, &starved{listener, 4})
	conn := dialTo(t, listener.Addr().String())
	send(t, conn, opaque(1, 0))
	receive(t, conn)
	if got := counterValue(server.cfg.Metrics.acceptFailures); got != 4 {
		t.Errorf("%v failed accepts counted", got)
	}
}

func TestDrain(t *testing.T) {
	got, release := make(chan struct{}), make(chan struct{})
	broker := newScripted(t, func(conn *net.TCPConn) {
		for {
			frame, err := readFrame(conn)
			if err != nil {
				return
			}
			if len(frame) > 100 {
				close(got)
				<-release
			}
			if _, err := conn.Write(rawFrame(frame[8:])); err != nil {
				t.Error(err)
			}
		}
	})
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) { cfg.Limits.Drain = patience }, broker.broker(1))
	idle, fresh, busy := dialTo(t, server.Addr()), dialTo(t, server.Addr()), dialTo(t, server.Addr())
	send(t, idle, opaque(1, 0))
	receive(t, idle)
	send(t, busy, filled(1, 1000))
	<-got
	stopped := make(chan struct{})
	go func() {
		server.stop()
		close(stopped)
	}()
	expectEnd(t, idle)
	expectEnd(t, fresh)
	if conn, err := net.Dial("tcp", server.node(1)); err == nil {
		conn.Close()
		t.Error("a draining server accepts")
	}
	select {
	case <-stopped:
		t.Error("the server stopped with an answer due")
	default:
	}
	close(release)
	if frame := receive(t, busy); len(frame) != 1008 {
		t.Errorf("%d bytes of answer", len(frame))
	}
	expectEnd(t, busy)
	<-stopped
}

func TestDrainIsBounded(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	broker := newScripted(t, func(conn *net.TCPConn) { <-release })
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) { cfg.Limits.Drain = 50 * time.Millisecond }, broker.broker(1))
	conn := dialTo(t, server.Addr())
	send(t, conn, requestFrame(1, produceRequest(9, -1, 100, named("other")...)))
	eventually(t, "the broker to be dialled", func() bool { return broker.accepted.Load() == 1 })
	server.stop()
	expectEnd(t, conn)
	if err := barrier(server.gate, patience); err != nil {
		t.Error(err)
	}
}

// slowHandler answers when it is let, and says when its context ended.
type slowHandler struct{ running, ended chan struct{} }

func (h slowHandler) Handle(ctx context.Context, _ LocalRequest) ([]byte, error) {
	h.running <- struct{}{}
	<-ctx.Done()
	h.ended <- struct{}{}
	return nil, ctx.Err()
}

func TestLocalCallEndsWithItsConnection(t *testing.T) {
	broker := newScripted(t, echo(t))
	handler := slowHandler{make(chan struct{}), make(chan struct{})}
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) {
		cfg.Local, cfg.Limits.LocalCalls = handler, 1
	}, broker.broker(1))
	list := rawFrame(requestHeader(98, 0, 5), []byte{0})
	first, second := dialTo(t, server.Addr()), dialTo(t, server.Addr())
	send(t, first, list)
	<-handler.running
	send(t, second, append(opaque(1, 0), list...)) // one call may run: this one waits, relays do not
	receive(t, second)
	select {
	case <-handler.running:
		t.Error("two calls run where one may")
	default:
	}
	if err := first.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	first.Close()
	<-handler.ended
	<-handler.running
	second.Close()
	server.stop()
	<-handler.ended
}

func TestDialFailureClosesTheClient(t *testing.T) {
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) {
		cfg.Dialer = func(context.Context, string) (net.Conn, error) { return nil, errors.New("no route") }
	}, Broker{ID: 1, Host: "nowhere", Port: 9092})
	for _, addr := range []string{server.Addr(), server.node(1)} {
		conn := dialTo(t, addr)
		send(t, conn, requestFrame(1, produceRequest(9, -1, 100, named("other")...)))
		expectEnd(t, conn)
	}
	if err := barrier(server.gate, 20*time.Millisecond); err != nil {
		t.Error("the token of a produce that was never sent is kept:", err)
	}
	eventually(t, "both to be counted", func() bool { return closedBy(server, CauseDial) == 2 })
}
