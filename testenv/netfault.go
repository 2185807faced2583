package testenv

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A chunk is what a forwarder reads at once, and a queue what it holds of one direction of one
// connection while delaying it.
const (
	chunkBytes  = 32 << 10
	queueChunks = 32
)

// Fault is what happens to the bytes of one direction. The zero value is a good network.
type Fault struct {
	// Latency delays each chunk without lessening the rate.
	Latency time.Duration
	// BytesPerSecond is the rate of each connection; 0 means unlimited.
	BytesPerSecond int
	// SliceBytes writes at most that many bytes at once; 0 means whole chunks. The receiver's
	// kernel may put slices together again: SlicedConn is exact.
	SliceBytes int
	// Blackhole lets nothing pass and keeps both ends open. When lifted, everything held back
	// goes on, as TCP does after a partition heals.
	Blackhole bool
	// CutAfterBytes lets exactly that many bytes pass, counted over all connections from the
	// moment the fault is set; the connection that would exceed it is cut. 0 means never.
	CutAfterBytes int64
	// Cut is how.
	Cut CutKind
}

// CutKind is a way to end a connection.
type CutKind int

const (
	// CutReset resets both ends.
	CutReset CutKind = iota
	// CutHalfClose ends this direction in an orderly way and drops what follows; the other goes on.
	CutHalfClose
)

var (
	errHalfClosed = errors.New("half-closed by a fault")
	errLinkGone   = errors.New("connection cut")
)

// Line is one direction of a forwarder.
type Line struct {
	mu      sync.Mutex
	fault   Fault
	left    int64         // bytes until the cut
	passed  int64         // bytes since the start
	changed chan struct{} // closed and replaced by Set
}

func newLine() *Line { return &Line{changed: make(chan struct{})} }

// Set replaces the fault of all connections, present and to come. Bytes being written at that
// moment still pass.
func (l *Line) Set(fault Fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault, l.left = fault, fault.CutAfterBytes
	close(l.changed)
	l.changed = make(chan struct{})
}

// PassedBytes counts the bytes that went through.
func (l *Line) PassedBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.passed
}

func (l *Line) current() (Fault, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fault, l.changed
}

// take allows up to wanted bytes to pass now. An error ends the connection after them; none
// allowed without an error means that the line has become a black hole.
func (l *Line) take(wanted int) (allowed int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault.Blackhole {
		return 0, nil
	}
	allowed = wanted
	if l.fault.CutAfterBytes > 0 && int64(wanted) > l.left {
		allowed, err = int(l.left), errLinkGone
		if l.fault.Cut == CutHalfClose {
			err = errHalfClosed
		}
	}
	l.left -= int64(allowed)
	l.passed += int64(allowed)
	return allowed, err
}

// Forwarder passes TCP connections on to another address, with faults.
type Forwarder struct {
	// Up is client to upstream, Down the way back.
	Up, Down *Line

	upstream string
	listener *net.TCPListener
	serving  sync.WaitGroup
	done     chan struct{} // closed at the end of the test

	mu    sync.Mutex
	links map[*link]struct{}
}

// NewForwarder listens on a port of its own until the test ends.
func NewForwarder(tb testing.TB, upstream string) *Forwarder {
	tb.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		tb.Fatalf("forwarder: %v", err)
	}
	f := &Forwarder{Up: newLine(), Down: newLine(), upstream: upstream, listener: listener,
		done: make(chan struct{}), links: map[*link]struct{}{}}
	f.serving.Go(f.accept)
	tb.Cleanup(func() {
		close(f.done)
		listener.Close()
		f.CutAll()
		f.serving.Wait()
	})
	return f
}

// Addr is the "host:port" it listens on.
func (f *Forwarder) Addr() string { return f.listener.Addr().String() }

// CutAll resets every connection of the moment. One that has not carried a byte yet may still be
// on its way to being accepted, and escape.
func (f *Forwarder) CutAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for link := range f.links {
		link.cut()
	}
}

func (f *Forwarder) accept() {
	for {
		client, err := f.listener.AcceptTCP()
		if err != nil {
			return // closed at the end of the test
		}
		f.serving.Go(func() { f.forward(client) })
	}
}

func (f *Forwarder) forward(client *net.TCPConn) {
	upstream, err := net.Dial("tcp", f.upstream)
	if err != nil {
		reset(client) // what the client of a dead broker sees
		return
	}
	l := &link{client: client, upstream: upstream.(*net.TCPConn), gone: make(chan struct{})}
	f.mu.Lock()
	f.links[l] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.links, l)
		f.mu.Unlock()
	}()
	select {
	case <-f.done: // accepted just before the end of the test
		l.cut()
	default:
	}
	var both sync.WaitGroup
	both.Go(func() { l.pump(f.Up, l.client, l.upstream) })
	both.Go(func() { l.pump(f.Down, l.upstream, l.client) })
	both.Wait()
	l.client.Close()
	l.upstream.Close()
}

// link is one forwarded connection.
type link struct {
	client, upstream *net.TCPConn
	once             sync.Once
	gone             chan struct{} // closed by cut
}

// cut resets both ends and wakes what waits.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.gone)
		reset(l.client)
		reset(l.upstream)
	})
}

type chunk struct {
	data []byte
	read time.Time
}

// pump moves one direction until its source ends in an orderly way, which it passes on, or the
// link is cut. Reading and writing are apart so that a latency delays without slowing.
func (l *link) pump(line *Line, source, sink *net.TCPConn) {
	queue := make(chan chunk, queueChunks)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(queue)
		for {
			data := make([]byte, chunkBytes)
			n, err := source.Read(data)
			if n > 0 {
				select {
				case queue <- chunk{data[:n], time.Now()}:
				case <-l.gone:
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				l.cut()
				return
			}
		}
	})
	defer reading.Wait()
	for c := range queue {
		err := l.send(line, c, sink)
		if err == nil {
			continue
		}
		if !errors.Is(err, errHalfClosed) {
			l.cut()
		}
		break
	}
	sink.CloseWrite()
	for range queue { // after a half-close, what follows is dropped
	}
}

// send writes one chunk as the line's fault of each moment says.
func (l *link) send(line *Line, c chunk, sink *net.TCPConn) error {
	for len(c.data) > 0 {
		fault, changed := line.current()
		if fault.Blackhole {
			select {
			case <-changed:
				continue
			case <-l.gone:
				return errLinkGone
			}
		}
		if err := l.pause(time.Until(c.read.Add(fault.Latency))); err != nil {
			return err
		}
		piece := len(c.data)
		if fault.SliceBytes > 0 {
			piece = min(piece, fault.SliceBytes)
		}
		if fault.BytesPerSecond > 0 {
			piece = min(piece, max(1, fault.BytesPerSecond/50))
			if err := l.pause(time.Duration(piece) * time.Second / time.Duration(fault.BytesPerSecond)); err != nil {
				return err
			}
		}
		allowed, cut := line.take(piece)
		if _, err := sink.Write(c.data[:allowed]); err != nil {
			return fmt.Errorf("forward: %w", err)
		}
		if cut != nil {
			return cut
		}
		c.data = c.data[allowed:]
	}
	return nil
}

func (l *link) pause(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.gone:
		return errLinkGone
	}
}
