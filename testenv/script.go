package testenv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxFrameBytes bounds a request that a scripted broker reads: Kafka's socket.request.max.bytes.
const maxFrameBytes = 100 << 20

// Step is one thing a scripted broker does on a connection.
type Step func(*ScriptConn) error

// ScriptConn is a connection that follows a script.
type ScriptConn struct {
	// Conn is the connection itself, for steps of a test's own.
	Conn *net.TCPConn
	// Last is the latest request read; SendResponse answers it.
	Last ScriptRequest
	// done is closed when the test ends.
	done <-chan struct{}
	keep func(ScriptRequest)
}

// ScriptRequest is a request as it came.
type ScriptRequest struct {
	// Connection counts connections from 0 in the order they were accepted.
	Connection    int
	Key, Version  int16
	CorrelationID int32
	// Frame is the whole request without its four size bytes.
	Frame []byte
}

// Script is a broker that plays the same steps whatever the client does: for answers that no
// real broker gives on demand, byte for byte.
type Script struct {
	listener *net.TCPListener
	done     chan struct{}
	serving  sync.WaitGroup

	mu       sync.Mutex
	requests []ScriptRequest
	errs     []error
	played   int // connections whose script ran to its end
	want     int
	changed  chan struct{} // closed and replaced when played or errs change
}

// NewScript listens on a port of its own. The i-th accepted connection plays the i-th list of
// steps and is closed at its end; a connection beyond the last is an error, as is any step
// that fails. At the end of the test all of that, and any script not played to its end, fails it.
func NewScript(tb testing.TB, connections ...[]Step) *Script {
	tb.Helper()
	s, err := startScript(connections)
	if err != nil {
		tb.Fatalf("scripted broker: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.stop(); err != nil {
			tb.Errorf("scripted broker: %v", err)
		}
	})
	return s
}

func startScript(connections [][]Step) (*Script, error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	s := &Script{listener: listener, done: make(chan struct{}), want: len(connections), changed: make(chan struct{})}
	s.serving.Go(func() { s.accept(connections) })
	return s, nil
}

// stop ends what still plays and returns what failed.
func (s *Script) stop() error {
	close(s.done)
	s.listener.Close()
	s.serving.Wait()
	return s.result()
}

// Addr is the "host:port" it listens on.
func (s *Script) Addr() string { return s.listener.Addr().String() }

// Requests lists the requests read so far, in the order they were read.
func (s *Script) Requests() []ScriptRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]ScriptRequest(nil), s.requests...)
}

// Played waits until every script has run to its end or one has failed, and returns what failed.
func (s *Script) Played(ctx context.Context) error {
	for {
		s.mu.Lock()
		finished, changed := s.played == s.want || len(s.errs) > 0, s.changed
		s.mu.Unlock()
		if finished {
			return s.result()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), s.result())
		}
	}
}

func (s *Script) result() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) == 0 && s.played < s.want {
		return fmt.Errorf("%d of %d connections played their script to its end", s.played, s.want)
	}
	return errors.Join(s.errs...)
}

func (s *Script) accept(connections [][]Step) {
	for i := 0; ; i++ {
		conn, err := s.listener.AcceptTCP()
		if err != nil {
			return // closed at the end of the test
		}
		if i >= len(connections) {
			conn.Close()
			s.note(fmt.Errorf("connection %d: only %d were expected", i, len(connections)))
			continue
		}
		s.serving.Go(func() {
			s.note(s.play(i, conn, connections[i]))
		})
	}
}

func (s *Script) play(i int, conn *net.TCPConn, steps []Step) error {
	played := make(chan struct{})
	defer close(played)
	s.serving.Go(func() { // a step that waits for the client must not outlive the test
		select {
		case <-s.done:
		case <-played:
		}
		conn.Close()
	})
	c := &ScriptConn{Conn: conn, done: s.done, keep: func(request ScriptRequest) {
		request.Connection = i
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests = append(s.requests, request)
	}}
	for n, step := range steps {
		if err := step(c); err != nil {
			return fmt.Errorf("connection %d, step %d: %w", i, n, err)
		}
	}
	return nil
}

// note records how a connection ended.
func (s *Script) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.errs = append(s.errs, err)
	} else {
		s.played++
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// ExpectRequest reads one request, which must have this key.
func ExpectRequest(key int16) Step {
	return func(c *ScriptConn) error {
		var size [4]byte
		if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
			return fmt.Errorf("read the size of a request: %w", err)
		}
		length := binary.BigEndian.Uint32(size[:])
		if length < 8 || length > maxFrameBytes {
			return fmt.Errorf("a request of %d bytes", length)
		}
		frame := make([]byte, length)
		if _, err := io.ReadFull(c.Conn, frame); err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		c.Last = ScriptRequest{
			Key:           int16(binary.BigEndian.Uint16(frame)),
			Version:       int16(binary.BigEndian.Uint16(frame[2:])),
			CorrelationID: int32(binary.BigEndian.Uint32(frame[4:])),
			Frame:         frame,
		}
		c.keep(c.Last)
		if c.Last.Key != key {
			return fmt.Errorf("request key %d, want %d", c.Last.Key, key)
		}
		return nil
	}
}

// ExpectBytes reads exactly these bytes.
func ExpectBytes(want []byte) Step {
	return func(c *ScriptConn) error {
		got := make([]byte, len(want))
		if n, err := io.ReadFull(c.Conn, got); err != nil {
			return fmt.Errorf("read %d bytes, got %x: %w", len(want), got[:n], err)
		}
		if string(got) != string(want) {
			return fmt.Errorf("read %x, want %x", got, want)
		}
		return nil
	}
}

// ExpectClose reads until the client closes; a byte before that is an error.
func ExpectClose() Step {
	return func(c *ScriptConn) error {
		n, err := io.Copy(io.Discard, c.Conn)
		if n > 0 {
			return fmt.Errorf("%d bytes instead of a close", n)
		}
		select {
		case <-c.done: // the close is the end of the test
			return errors.New("the client did not close")
		default:
		}
		if err != nil {
			return fmt.Errorf("the client reset the connection: %w", err)
		}
		return nil
	}
}

// SendResponse answers the last request with its correlation id, in its version.
func SendResponse(response kmsg.Response) Step {
	return func(c *ScriptConn) error {
		response.SetVersion(c.Last.Version)
		frame := binary.BigEndian.AppendUint32(make([]byte, 4), uint32(c.Last.CorrelationID))
		// An ApiVersions response never has the flexible header: its reader cannot know yet.
		if response.IsFlexible() && response.Key() != int16(kmsg.ApiVersions) {
			frame = append(frame, 0)
		}
		frame = response.AppendTo(frame)
		binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
		return SendBytes(frame)(c)
	}
}

// SendBytes writes these bytes as they are.
func SendBytes(raw []byte) Step {
	return func(c *ScriptConn) error {
		if _, err := c.Conn.Write(raw); err != nil {
			return fmt.Errorf("send %d bytes: %w", len(raw), err)
		}
		return nil
	}
}

// Stall neither reads nor writes until release is closed. A nil release lasts to the end of the test.
func Stall(release <-chan struct{}) Step {
	return func(c *ScriptConn) error {
		select {
		case <-release:
		case <-c.done:
		}
		return nil
	}
}

// Cut resets the connection: the client sees an error, not an orderly end.
func Cut() Step {
	return func(c *ScriptConn) error { return reset(c.Conn) }
}

// CloseWrite ends the sending side only.
func CloseWrite() Step {
	return func(c *ScriptConn) error { return c.Conn.CloseWrite() }
}

// reset closes with RST instead of FIN.
func reset(conn *net.TCPConn) error {
	if err := conn.SetLinger(0); err != nil {
		return err
	}
	return conn.Close()
}
