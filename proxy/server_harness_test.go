package proxy

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"kafka-mirror-proxy/enforce"
	"kafka-mirror-proxy/protocol"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for machines under load; nothing waits for it to pass.
const patience = time.Minute

// scripted is a broker that does with each connection what serve says.
type scripted struct {
	listener net.Listener
	accepted atomic.Int64
	wait     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func newScripted(t testing.TB, serve func(conn *net.TCPConn)) *scripted {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &scripted{listener: listener}
	b.wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			b.accepted.Add(1)
			b.mu.Lock()
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
			b.wait.Go(func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		b.mu.Lock()
		for _, conn := range b.conns {
			conn.Close()
		}
		b.mu.Unlock()
		b.wait.Wait()
	})
	return b
}

func (b *scripted) broker(id int32) Broker {
	port := b.listener.Addr().(*net.TCPAddr).Port
	return Broker{ID: id, Host: "127.0.0.1", Port: int32(port)}
}

// readFrame reads one frame with its size.
func readFrame(r io.Reader) ([]byte, error) {
	size := make([]byte, sizeBytes)
	if _, err := io.ReadFull(r, size); err != nil {
		return nil, err
	}
	frame := append(size, make([]byte, binary.BigEndian.Uint32(size))...)
	_, err := io.ReadFull(r, frame[sizeBytes:])
	return frame, err
}

// echo answers each request as its key wants it, opaque ones with their own payload.
func echo(t testing.TB) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		reader := bufio.NewReaderSize(conn, 64<<10)
		for {
			frame, err := readFrame(reader)
			if err != nil {
				return
			}
			var answer []byte
			if key := binary.BigEndian.Uint16(frame[4:]); key == 1000 {
				answer = rawFrame(frame[8:]) // correlation id and payload
			} else {
				header, _, err := protocol.PeekRequestHeader(frame[sizeBytes:])
				if err != nil {
					t.Errorf("bad header upstream: %v", err)
					return
				}
				answer = brokerAnswer(t, header, frame[sizeBytes+header.BodyOffset:])
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}
}

type runningServer struct {
	*Server
	gate *enforce.Gate
	stop func()
}

// startServer runs a proxy in front of brokers until the test ends.
func startServer(t testing.TB, views func() *state.View, change func(*Config), brokers ...Broker) *runningServer {
	t.Helper()
	gate := enforce.NewGate()
	cfg := Config{
		Listen: fmt.Sprintf("127.0.0.1:%d", testenv.FreePorts(t, 8)), Gate: gate,
		Policy: enforce.NewPolicy(views, gate, 0), Local: &listHandler{}, Dialect: "seed",
		Log: zerolog.Nop(), Metrics: newMetrics(t),
		Limits: Limits{Drain: time.Second, UnansweredGrace: 100 * time.Millisecond},
	}
	if change != nil {
		change(&cfg)
	}
	server, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.SetBrokers(brokers); err != nil {
		server.Close()
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return &runningServer{Server: server, gate: gate, stop: stop}
}

func dialTo(t testing.TB, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// node is the address of a broker's listener.
func (s *runningServer) node(id int32) string {
	host, port := s.Address(id)
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func send(t testing.TB, conn net.Conn, frame []byte) {
	t.Helper()
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
}

func receive(t testing.TB, conn net.Conn) []byte {
	t.Helper()
	frame, err := readFrame(conn)
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// expectEnd fails unless the peer closes without another byte.
func expectEnd(t testing.TB, conn net.Conn) {
	t.Helper()
	var one [1]byte
	n, err := conn.Read(one[:])
	var timeout net.Error
	if n > 0 || err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("got %d bytes, %v; want the end", n, err)
	}
}

func barrier(gate *enforce.Gate, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return gate.Barrier(ctx)
}

func closedBy(s *runningServer, cause Cause) float64 {
	return counterValue(s.cfg.Metrics.closes[cause])
}

func eventually(t testing.TB, what string, check func() bool) {
	t.Helper()
	testenv.Eventually(t, patience, what, func() error {
		if !check() {
			return errors.New("not yet")
		}
		return nil
	})
}
