package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/state"
)

func counterValue(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		return -1
	}
	return m.GetCounter().GetValue()
}

// filled is an opaque request whose payload is random and can be compared.
func filled(correlation int32, fillBytes int) []byte {
	frame := opaque(correlation, fillBytes)
	random := rand.NewChaCha8([32]byte{byte(correlation)})
	_, _ = random.Read(frame[12:]) // never fails
	return frame
}

var frameSizes = []int{0, 1, 1000, spliceBytes, 64<<10 - 13, 64 << 10, 64<<10 + 1, 200_000, 5 << 20}

func TestFramesOfAllSizesPassUnchanged(t *testing.T) {
	broker := newScripted(t, echo(t))
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	for _, addr := range []string{server.Addr(), server.node(1)} {
		conn := dialTo(t, addr)
		go func() {
			for i, size := range frameSizes {
				if _, err := conn.Write(filled(int32(i), size)); err != nil {
					t.Error(err)
				}
			}
		}()
		for i, size := range frameSizes {
			if got := receive(t, conn); !bytes.Equal(got[4:], filled(int32(i), size)[8:]) {
				t.Errorf("%d bytes came back changed (%d)", size, len(got))
			}
		}
	}
}

// net.Pipe has no file descriptor, no splice and no buffer: the other way through the engine.
func TestFramesPassOverPipes(t *testing.T) {
	store := mirroredStore(t)
	engine := newNetEngine(context.Background(), Limits{}.WithDefaults(), &listHandler{}, newMetrics(t))
	client, proxied := net.Pipe()
	broker, dialed := net.Pipe()
	var wait sync.WaitGroup
	wait.Go(func() {
		cause, err := engine.Serve(context.Background(), proxied, func(context.Context) (net.Conn, error) { return dialed, nil },
			newTestSession(t, store.View))
		if cause != CauseClientClosed || err != nil {
			t.Errorf("ended by %v, %v", cause, err)
		}
	})
	wait.Go(func() {
		for {
			frame, err := readFrame(broker)
			if err != nil {
				return
			}
			if _, err := broker.Write(rawFrame(frame[8:])); err != nil {
				t.Error(err)
			}
		}
	})
	for i, size := range frameSizes {
		go func() {
			if _, err := client.Write(filled(int32(i), size)); err != nil {
				t.Error(err)
			}
		}()
		if got := receive(t, client); !bytes.Equal(got[4:], filled(int32(i), size)[8:]) {
			t.Errorf("%d bytes came back changed (%d)", size, len(got))
		}
	}
	client.Close()
	wait.Wait()
	broker.Close()
}

// An answer made here must come although the response half sits in a read of the broker.
func TestLocalAnswerOnEmptyQueueComesAtOnce(t *testing.T) {
	broker := newScripted(t, echo(t))
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	conn := dialTo(t, server.Addr())
	list := rawFrame(requestHeader(98, 0, 5), []byte{0})
	for i := range int32(50) {
		send(t, conn, list)
		if got := receive(t, conn); !bytes.HasSuffix(got, []byte("local 98")) {
			t.Fatalf("local answer %d: %q", i, got)
		}
		if i%5 == 0 { // the wake must not hurt the next frame, large ones included
			send(t, conn, filled(i, 100_000))
			if got := receive(t, conn); !bytes.Equal(got[4:], filled(i, 100_000)[8:]) {
				t.Fatalf("relayed answer %d: changed", i)
			}
		}
	}
}

func TestMixedPipelineKeepsItsOrder(t *testing.T) {
	broker := newScripted(t, echo(t))
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	conn := dialTo(t, server.Addr())
	const requests = 2000
	random := rand.New(rand.NewPCG(1, 2))
	go func() {
		for i := range int32(requests) {
			var frame []byte
			switch random.IntN(5) {
			case 0:
				frame = rawFrame(requestHeader(98, 0, i), []byte{0})
			case 1:
				frame = requestFrame(i, produceRequest(9, -1, random.IntN(100_000), named("orders")...))
			case 2:
				frame = requestFrame(i, produceRequest(9, -1, random.IntN(100_000), named("other", "orders")...))
			default:
				frame = filled(i, random.IntN(3000))
			}
			if _, err := conn.Write(frame); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range int32(requests) {
		if got := correlationOf(receive(t, conn)); got != i {
			t.Fatalf("answer %d has correlation id %d", i, got)
		}
	}
	eventually(t, "what was held to be given back", func() bool { return server.cfg.Metrics.heldBytes.Load() == 0 })
	if err := barrier(server.gate, patience); err != nil {
		t.Error(err)
	}
}

func TestHalfClose(t *testing.T) {
	release := make(chan struct{})
	broker := newScripted(t, func(conn *net.TCPConn) {
		frame, err := readFrame(conn)
		if err != nil {
			t.Error(err)
			return
		}
		<-release
		if _, err := conn.Write(rawFrame(frame[8:])); err != nil {
			t.Error(err)
		}
		if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	conn := dialTo(t, server.Addr())
	send(t, conn, filled(1, 100))
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	close(release)
	if got := receive(t, conn); correlationOf(got) != 1 {
		t.Errorf("answer %x", got)
	}
	expectEnd(t, conn)
	eventually(t, "the connection to be counted", func() bool { return closedBy(server, CauseClientClosed) == 1 })
}

func TestBrokerCloseClosesTheClient(t *testing.T) {
	broker := newScripted(t, func(conn *net.TCPConn) {
		frame, err := readFrame(conn)
		if err == nil {
			_, err = conn.Write(rawFrame(frame[8:]))
		}
		if err != nil {
			t.Error(err)
		}
	})
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	conn := dialTo(t, server.Addr())
	send(t, conn, filled(1, 100))
	if got := receive(t, conn); correlationOf(got) != 1 {
		t.Errorf("answer %x", got)
	}
	expectEnd(t, conn)
}

// memory is the heap in use after a collection.
func memory() uint64 {
	runtime.GC()
	runtime.GC() // the pools' victims too
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// steady waits until a counter does not move any more and returns it.
func steady(t testing.TB, what string, counter *atomic.Int64) int64 {
	t.Helper()
	last, since := int64(-1), time.Now()
	eventually(t, what, func() bool {
		if now := counter.Load(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since) > 300*time.Millisecond
	})
	return last
}

// A client that does not read its answers is not read for: the broker's writes block.
func TestSlowClientCostsNoMemory(t *testing.T) {
	const answerBytes, answers = 1 << 20, 160
	var written atomic.Int64
	broker := newScripted(t, func(conn *net.TCPConn) {
		for {
			frame, err := readFrame(conn)
			if err != nil {
				return
			}
			n, err := conn.Write(rawFrame(frame[8:12], make([]byte, answerBytes)))
			written.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	before := memory()
	conn := dialTo(t, server.Addr())
	for i := range int32(answers) {
		send(t, conn, opaque(i, 0))
	}
	blocked := steady(t, "the broker to block", &written)
	if blocked > answerBytes*answers*3/4 {
		t.Fatalf("the broker wrote %d bytes to a client that reads nothing", blocked)
	}
	if grown := int64(memory()) - int64(before); grown > 8<<20 {
		t.Errorf("%d bytes of heap for one slow client", grown)
	}
	for i := range int32(answers) { // and nothing is lost
		if got := receive(t, conn); correlationOf(got) != i || len(got) != 8+answerBytes {
			t.Fatalf("answer %d: id %d, %d bytes", i, correlationOf(got), len(got))
		}
	}
}

func TestSlowBrokerCostsNoMemory(t *testing.T) {
	release := make(chan struct{})
	broker := newScripted(t, func(conn *net.TCPConn) {
		<-release
		echo(t)(conn)
	})
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	before := memory()
	conn := dialTo(t, server.Addr())
	var written atomic.Int64
	var wait sync.WaitGroup
	const requests = 160
	payload := filled(0, 1<<20)[12:]
	wait.Go(func() {
		for i := range int32(requests) {
			n, err := conn.Write(append(opaque(i, 1<<20)[:12], payload...))
			written.Add(int64(n))
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	blocked := steady(t, "the client to block", &written)
	if blocked > requests<<20*3/4 {
		t.Errorf("%d bytes were taken for a broker that reads nothing", blocked)
	}
	if grown := int64(memory()) - int64(before); grown > 8<<20 {
		t.Errorf("%d bytes of heap for one slow broker", grown)
	}
	close(release)
	for i := range int32(requests) {
		if got := receive(t, conn); correlationOf(got) != i || !bytes.Equal(got[8:], payload) {
			t.Fatalf("answer %d changed", i)
		}
	}
	wait.Wait()
}

func TestGarbageIsClosedAndTheBrokerNeverDialled(t *testing.T) {
	broker := newScripted(t, echo(t))
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) { cfg.Limits.FirstHeader = 300 * time.Millisecond }, broker.broker(1))
	other := dialTo(t, server.Addr())
	send(t, other, opaque(1, 0))
	receive(t, other)

	before := memory()
	random := make([]byte, 1000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random) // never fails
	random[0] |= 0x40                                // a length above all limits
	half := opaque(1, 100)[:9]
	for name, test := range map[string]struct {
		bytes []byte
		cause Cause
	}{
		"TLS hello":               {append([]byte{0x16, 3, 1, 2, 0, 1}, random...), CauseTLS},
		"2^31-1":                  {[]byte{0x7f, 0xff, 0xff, 0xff}, CauseFrameLength},
		"random":                  {random, CauseFrameLength},
		"half a frame":            {half, CauseHeaderTimeout},
		"half a size":             {half[:2], CauseHeaderTimeout},
		"silence":                 {nil, CauseHeaderTimeout},
		"half a request to judge": {requestFrame(1, produceRequest(9, -1, 10, named("orders", "other")...))[:60], CauseHeaderTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			counted := closedBy(server, test.cause)
			conn := dialTo(t, server.Addr())
			if len(test.bytes) > 0 {
				send(t, conn, test.bytes)
			}
			expectEnd(t, conn)
			eventually(t, "the cause to be counted", func() bool { return closedBy(server, test.cause) == counted+1 })
		})
	}
	if got := broker.accepted.Load(); got != 1 {
		t.Errorf("the broker was dialled %d times for garbage", got-1)
	}
	if grown := int64(memory()) - int64(before); grown > 4<<20 {
		t.Errorf("%d bytes of heap after garbage", grown)
	}
	send(t, other, opaque(2, 0))
	receive(t, other)
}

func TestHeldFramesHaveABudget(t *testing.T) {
	const requestBytes, heldBytes = 3 << 20, 3<<20 + 1000
	broker := newScripted(t, echo(t))
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) {
		cfg.Limits.RequestBytes = requestBytes
		cfg.Limits.HeldBytes = heldBytes
		cfg.Limits.Held = time.Second
	}, broker.broker(1))
	held := server.cfg.Metrics.heldBytes.Load
	frame := requestFrame(1, produceRequest(9, -1, 1<<20, named("orders", "other")...)) // 2 MiB
	connect := func(bytes int) net.Conn {
		conn := dialTo(t, server.Addr())
		send(t, conn, opaque(0, 0))
		receive(t, conn)
		send(t, conn, frame[:bytes])
		return conn
	}
	// Who only claims to send much takes nothing.
	for range 20 {
		connect(100)
	}
	whole := connect(len(frame))
	if got := receive(t, whole); correlationOf(got) != 1 {
		t.Errorf("answer %x", got[:8])
	}
	eventually(t, "nothing to be held for claims", func() bool { return held() == 0 })
	// Frames that arrive in part are held: one within the budget, one beyond it, and a third waits for either.
	stuck := connect(len(frame) * 3 / 4)
	eventually(t, "a frame to be held", func() bool { return held() >= 2<<20 })
	beyond := connect(len(frame) * 3 / 4)
	eventually(t, "another one to be held", func() bool { return held() >= 4<<20 })
	waiting := dialTo(t, server.Addr())
	go func() {
		if _, err := waiting.Write(frame); err != nil {
			t.Error(err)
		}
	}()
	expectEnd(t, stuck) // for its time, and with that the third has its turn
	if got := receive(t, waiting); correlationOf(got) != 1 {
		t.Errorf("answer %x", got[:8])
	}
	if n := held(); n > heldBytes+requestBytes {
		t.Errorf("%d bytes are held", n)
	}
	expectEnd(t, beyond)
	eventually(t, "the budget to be given back", func() bool { return held() == 0 })
	if n := closedBy(server, CauseHeldTimeout); n != 22 {
		t.Errorf("%v frames were closed for their time", n)
	}
}

func TestIdleConnectionsAreCheap(t *testing.T) {
	broker := newScripted(t, func(conn *net.TCPConn) {
		var buffer [1024]byte // not a large buffer: this test looks at the heap
		for {
			n, err := conn.Read(buffer[:])
			if err != nil {
				return
			}
			if _, err := conn.Write(rawFrame(buffer[8:n])); err != nil {
				return
			}
		}
	})
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	warm := dialTo(t, server.Addr())
	send(t, warm, opaque(1, 0))
	receive(t, warm)

	const silent, used = 2000, 300
	before := memory()
	conns := make([]*net.TCPConn, silent)
	for i := range conns {
		conns[i] = dialTo(t, server.Addr())
	}
	eventually(t, "all connections to be served", func() bool { return server.open.Load() == silent+1 })
	if grown := int64(memory()) - int64(before); grown > silent*16<<10 {
		t.Errorf("%d bytes of heap for a silent connection", grown/silent)
	}
	if got := broker.accepted.Load(); got != 1 {
		t.Errorf("the broker was dialled %d times for silence", got-1)
	}
	before = memory()
	for _, conn := range conns[:used] {
		send(t, conn, opaque(1, 100))
		receive(t, conn)
	}
	if grown := int64(memory()) - int64(before); grown > used*32<<10 {
		t.Errorf("%d bytes of heap for a connection that was used once", grown/used)
	}
	for _, conn := range conns {
		conn.Close()
	}
	eventually(t, "all connections to end", func() bool { return server.open.Load() == 1 })
	send(t, warm, opaque(2, 0))
	receive(t, warm)
}

// What a dead client leaves: the token goes when the broker has answered, not before and not
// only after the grace.
func TestDeadClientLeavesItsTokenUntilTheAnswer(t *testing.T) {
	release, got := make(chan struct{}), make(chan struct{})
	broker := newScripted(t, func(conn *net.TCPConn) {
		frame, err := readFrame(conn)
		if err != nil {
			t.Error(err)
			return
		}
		close(got)
		<-release
		header, _, _ := protocol.PeekRequestHeader(frame[sizeBytes:])
		if _, err := conn.Write(brokerAnswer(t, header, frame[sizeBytes+header.BodyOffset:])); err != nil {
			t.Errorf("the broker's connection was closed with a produce unanswered: %v", err)
		}
	})
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) { cfg.Limits.UnansweredGrace = time.Hour }, broker.broker(1))
	conn := dialTo(t, server.Addr())
	send(t, conn, requestFrame(1, produceRequest(9, -1, 100, named("other")...)))
	<-got
	if err := conn.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := barrier(server.gate, 100*time.Millisecond); err == nil {
		t.Fatal("no token is held although the produce is unanswered")
	}
	close(release)
	if err := barrier(server.gate, patience); err != nil {
		t.Fatal(err)
	}
}

func TestRequestCutOffFreesItsToken(t *testing.T) {
	var bytesAtBroker atomic.Int64
	ended := make(chan struct{})
	broker := newScripted(t, func(conn *net.TCPConn) {
		defer close(ended)
		buffer := make([]byte, 64<<10)
		for {
			n, err := conn.Read(buffer)
			bytesAtBroker.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) { cfg.Limits.UnansweredGrace = time.Hour }, broker.broker(1))
	conn := dialTo(t, server.Addr())
	frame := requestFrame(1, produceRequest(9, -1, 1<<20, named("other")...))
	send(t, conn, frame[:1<<19])
	eventually(t, "half a frame to pass", func() bool { return bytesAtBroker.Load() == 1<<19 })
	if err := barrier(server.gate, 10*time.Millisecond); err == nil {
		t.Fatal("no token is held for a request on its way")
	}
	conn.Close()
	if err := barrier(server.gate, patience); err != nil {
		t.Fatal("the token of a request that never was whole is kept:", err)
	}
	<-ended
	if got := bytesAtBroker.Load(); got >= int64(len(frame)) {
		t.Errorf("the broker got %d bytes of half a frame", got)
	}
}

func TestDeadBrokerKeepsTheTokenForTheGrace(t *testing.T) {
	broker := newScripted(t, func(conn *net.TCPConn) {
		if _, err := readFrame(conn); err != nil {
			t.Error(err)
		}
	})
	server := startServer(t, mirroredStore(t).View, func(cfg *Config) { cfg.Limits.UnansweredGrace = 700 * time.Millisecond }, broker.broker(1))
	conn := dialTo(t, server.Addr())
	send(t, conn, requestFrame(1, produceRequest(9, -1, 100, named("other")...)))
	expectEnd(t, conn)
	if err := barrier(server.gate, 50*time.Millisecond); err == nil {
		t.Error("the token went with the broker's connection")
	}
	if err := barrier(server.gate, patience); err != nil {
		t.Error(err)
	}
}

// A produce that waits for the view, over the wire: held, then passed on when it is loaded.
func TestProduceIsHeldUntilTheViewIsLoaded(t *testing.T) {
	var view atomic.Pointer[state.View]
	view.Store(&state.View{})
	broker := newScripted(t, echo(t))
	server := startServer(t, view.Load, func(cfg *Config) { cfg.Limits.Load = 300 * time.Millisecond }, broker.broker(1))
	conn := dialTo(t, server.Addr())
	produce := requestFrame(1, produceRequest(9, -1, 100, named("other")...))
	answer := func() *kmsg.ProduceResponse {
		response := kmsg.NewPtrProduceResponse()
		response.Version = 9
		if err := response.ReadFrom(receive(t, conn)[9:]); err != nil {
			t.Fatal(err)
		}
		return response
	}
	send(t, conn, produce)
	if got := answer().Topics[0].Partitions[0].ErrorCode; got != protocol.CodeNotLeaderOrFollower {
		t.Errorf("late: code %d", got)
	}
	send(t, conn, produce)
	view.Store(mirroredStore(t).View())
	if got := answer().Topics[0].Partitions[0]; got.ErrorCode != 0 || got.BaseOffset != 77 {
		t.Errorf("loaded: %+v", got)
	}
}
