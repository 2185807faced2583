package proxy

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"kafka-mirror-proxy/protocol"
)

// impatient closes who holds up a barrier at the patrol's next look.
func impatient(cfg *Config) { cfg.Limits.Barrier = time.Nanosecond }

// sink is a broker that reads and never answers.
func sink(got *atomic.Int64) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		buffer := make([]byte, 64<<10)
		for {
			n, err := conn.Read(buffer)
			got.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
}

func TestHalfAProduceDoesNotHoldUpABarrier(t *testing.T) {
	frame := requestFrame(1, produceRequest(9, -1, 1<<20, named("other")...))
	for name, half := range map[string]int{"most of it": 1 << 19, "little of it": 100} {
		t.Run(name, func(t *testing.T) {
			var atBroker atomic.Int64
			broker := newScripted(t, sink(&atBroker))
			server := startServer(t, mirroredStore(t).View, func(cfg *Config) {
				impatient(cfg)
				cfg.Limits.UnansweredGrace = time.Hour
			}, broker.broker(1))
			conn := dialTo(t, server.Addr())
			send(t, conn, frame[:half])
			eventually(t, "the half to pass", func() bool { return atBroker.Load() == int64(half) })
			if err := barrier(server.gate, patience); err != nil {
				t.Fatal(err)
			}
			expectEnd(t, conn)
			eventually(t, "the cause to be counted", func() bool { return closedBy(server, CauseHoldsUp) == 1 })
			if got := atBroker.Load(); got != int64(half) {
				t.Errorf("the broker got %d bytes, %d were sent", got, half)
			}
		})
	}
}

// The answer to a produce cannot be read behind one that the client leaves unread.
func TestUnreadAnswersDoNotHoldUpABarrier(t *testing.T) {
	const answerBytes = 64 << 20 // more than the kernels take
	broker := newScripted(t, func(conn *net.TCPConn) {
		for range 2 {
			frame, err := readFrame(conn)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := conn.Write(rawFrame(frame[8:12], make([]byte, answerBytes))); err != nil {
				return
			}
		}
	})
	server := startServer(t, mirroredStore(t).View, impatient, broker.broker(1))
	conn := dialTo(t, server.Addr())
	send(t, conn, opaque(1, 0))
	send(t, conn, requestFrame(2, produceRequest(9, -1, 100, named("other")...)))
	eventually(t, "the produce to be taken", func() bool { return counterValue(server.cfg.Metrics.requests[0]) == 1 })
	if err := barrier(server.gate, patience); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cause to be counted", func() bool { return closedBy(server, CauseHoldsUp) == 1 })
}

// A client that is only slow, and one whose produce the broker has whole, are not the patrol's.
func TestPatrolLeavesOthersAlone(t *testing.T) {
	release := make(chan struct{})
	var read atomic.Int64
	broker := newScripted(t, func(conn *net.TCPConn) {
		first := make([]byte, 1000)
		n, err := io.ReadFull(conn, first)
		read.Add(int64(n))
		if err != nil {
			t.Error(err)
			return
		}
		<-release
		frame, err := readFrame(io.MultiReader(bytes.NewReader(first), conn))
		if err != nil {
			t.Error(err)
			return
		}
		header, _, _ := protocol.PeekRequestHeader(frame[sizeBytes:])
		if _, err := conn.Write(brokerAnswer(t, header, frame[sizeBytes+header.BodyOffset:])); err != nil {
			t.Error(err)
		}
	})
	server := startServer(t, mirroredStore(t).View, impatient, broker.broker(1))
	look := func() { server.engine.patrol(server.gate, time.Now()) }
	frame := requestFrame(1, produceRequest(9, -1, 1<<20, named("other")...))
	conn := dialTo(t, server.Addr())
	send(t, conn, frame[:1000])
	eventually(t, "the first bytes to pass", func() bool { return read.Load() == 1000 })
	look() // no barrier waits
	send(t, conn, frame[1000:])
	var link *link
	eventually(t, "the produce to be passed", func() bool {
		server.engine.mu.Lock()
		defer server.engine.mu.Unlock()
		for link = range server.engine.links {
		}
		return link != nil && !link.sending.underWay()
	})
	waited := make(chan error, 1)
	go func() { waited <- server.gate.Barrier(context.Background()) }()
	eventually(t, "the barrier to wait", link.session.HoldsUp)
	look()
	close(release)
	if got := receive(t, conn); correlationOf(got) != 1 {
		t.Errorf("answer %x", got[:8])
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

func TestStalledConnectionsEnd(t *testing.T) {
	var atBroker atomic.Int64
	broker := newScripted(t, sink(&atBroker))
	server := startServer(t, mirroredStore(t).View, nil, broker.broker(1))
	conn := dialTo(t, server.Addr())
	send(t, conn, opaque(1, 1<<19)[:1<<18])
	eventually(t, "half a frame to pass", func() bool { return atBroker.Load() == 1<<18 })
	server.engine.patrol(server.gate, time.Now())
	if closedBy(server, CauseStalled) != 0 {
		t.Fatal("closed at the first look")
	}
	server.engine.patrol(server.gate, time.Now().Add(server.limits.Stalled+time.Minute))
	expectEnd(t, conn)
	eventually(t, "the cause to be counted", func() bool { return closedBy(server, CauseStalled) == 1 })
}
