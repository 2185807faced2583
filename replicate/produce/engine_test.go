package produce

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// A partition keeps its connection for as long as its leader is the same, also in another owner's process: what it has sent
// and what it sends next are in one line. The partitions of a topic spread evenly.
func TestPartitionsHaveTheirConnection(t *testing.T) {
	r := newRig(t)
	open := func(e *Engine, partition int32) *lane {
		target := r.target
		target.Partition = partition
		return e.Open(StreamConfig{Target: target, Leader: 1, CheckedAt: time.Now()}).lane
	}
	lanes := map[*lane]int{}
	for partition := range int32(8) {
		first := open(r.engine, partition)
		lanes[first]++
		for range 3 {
			if open(r.engine, partition) != first {
				t.Fatalf("partition %d has another connection than before", partition)
			}
		}
	}
	if len(lanes) != r.engine.cfg.ConnectionsPerBroker {
		t.Errorf("%d connections, want %d", len(lanes), r.engine.cfg.ConnectionsPerBroker)
	}
	for _, n := range lanes {
		if n != 8/len(lanes) {
			t.Errorf("%d of 8 partitions on one of %d connections", n, len(lanes))
		}
	}
	other, err := New(r.engine.cfg)
	if err != nil {
		t.Fatal(err)
	}
	index := func(e *Engine, l *lane) int {
		for key, known := range e.lanes {
			if known == l {
				return key.index
			}
		}
		return -1
	}
	for partition := int32(7); partition >= 0; partition-- { // in another order
		if there, here := index(other, open(other, partition)), index(r.engine, open(r.engine, partition)); there != here {
			t.Errorf("partition %d has connection %d in one engine and %d in another", partition, here, there)
		}
	}
}

// losing is a TCP connection that loses what arrives once it is told to.
type losing struct {
	*net.TCPConn
	lose            *atomic.Bool
	linger, atClose *atomic.Int64 // seconds; -1: not set
}

var errLost = errors.New("the answer is lost")

func (c losing) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if c.lose.Load() {
		return 0, errLost
	}
	return n, err
}

func (c losing) SetLinger(seconds int) error {
	c.linger.Store(int64(seconds))
	return c.TCPConn.SetLinger(seconds)
}

func (c losing) Close() error {
	c.atClose.CompareAndSwap(-1, c.linger.Load())
	return c.TCPConn.Close()
}

// over is a connection over another, as TLS.
type over struct{ net.Conn }

func (o over) NetConn() net.Conn { return o.Conn.(hidden).Conn }

// hidden has none of the methods of a TCP connection.
type hidden struct{ net.Conn }

// When an answer is lost, what is still on its way is taken back (SO_LINGER 0) before the connection is closed: nothing of
// it may come to the broker after somebody has looked where the log ends.
func TestLostAnswerTakesBackWhatIsUnderWay(t *testing.T) {
	for name, wrap := range map[string]func(net.Conn) net.Conn{
		"plain": func(c net.Conn) net.Conn { return c },
		"TLS":   func(c net.Conn) net.Conn { return over{hidden{c}} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var lose atomic.Bool
			var linger, atClose atomic.Int64
			linger.Store(-1)
			atClose.Store(-1)
			r.wrap = func(c net.Conn) net.Conn {
				return wrap(losing{TCPConn: c.(*net.TCPConn), lose: &lose, linger: &linger, atClose: &atClose})
			}
			s := r.open(1000)
			s.Push(r.next(0, 5))
			if fault := r.await(s, 5); fault != nil || linger.Load() != -1 {
				t.Fatalf("%v, linger %d", fault, linger.Load())
			}
			lose.Store(true)
			s.Push(r.next(5, 5))
			if fault := r.await(s, 10); fault == nil || fault.Verdict != Ambiguous {
				t.Fatal(fault)
			}
			if linger.Load() != 0 || atClose.Load() != 0 {
				t.Errorf("linger %d, %d when it was closed; want 0", linger.Load(), atClose.Load())
			}
		})
	}
}
