package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// source reads one side of a connection into its window. One goroutine owns it.
//
// On TCP it asks the kernel with a borrowed buffer and gives the buffer back while there is
// nothing to read, so that a connection that waits costs no window. Other connections (net.Pipe,
// TLS) keep theirs.
type source struct {
	conn   net.Conn
	raw    syscall.RawConn // nil: not TCP
	window window
	need   int
	n      int
	err    error
	try    func(fd uintptr) bool // tryRead, bound once
	// lost: it is not known any more where in a frame the next byte is.
	lost bool
	// splice is the reader of the rest of a large frame, kept here so that it costs no allocation.
	splice io.LimitedReader
}

func newSource(conn net.Conn, buffers *buffers) *source {
	s := &source{conn: conn, window: window{buffers: buffers}}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			s.raw = raw
		}
	}
	s.try = s.tryRead
	return s
}

// read waits for bytes and adds at least one to the window. need is how many the window must have
// room for.
func (s *source) read(need int) error {
	if s.raw == nil {
		n, err := s.conn.Read(s.window.room(need))
		s.window.filled(n)
		if n > 0 {
			return nil
		}
		return err
	}
	s.need, s.n, s.err = need, 0, nil
	if err := s.raw.Read(s.try); err != nil {
		return err
	}
	return s.err
}

func (s *source) tryRead(fd uintptr) bool {
	for {
		n, err := syscall.Read(int(fd), s.window.room(s.need))
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			s.window.rest()
			return false
		case err != nil:
			s.err = &net.OpError{Op: "read", Net: "tcp", Addr: s.conn.RemoteAddr(), Err: err}
		case n == 0:
			s.err = io.EOF
		}
		s.window.filled(max(n, 0))
		return true
	}
}

// spliceBytes is from where on the rest of a frame is worth leaving in the kernel.
const spliceBytes = 32 << 10

// passTo sends the next n bytes to sink: first the window's, then straight from the socket, by
// splice(2) between TCP connections. It returns how many were sent and whether a failure was the
// sink's.
func (s *source) passTo(sink net.Conn, n int) (sent int64, sinkFailed bool, err error) {
	for n > 0 {
		if s.window.len() == 0 && n >= spliceBytes && s.raw != nil {
			if tcp, ok := sink.(*net.TCPConn); ok {
				return s.spliceTo(tcp, n, sent)
			}
		}
		if s.window.len() == 0 {
			if err := s.read(1); err != nil {
				return sent, false, err
			}
		}
		chunk := s.window.bytes()[:min(n, s.window.len())]
		if _, err := sink.Write(chunk); err != nil {
			return sent, true, err
		}
		sent += int64(len(chunk))
		n -= len(chunk)
		s.window.consume(len(chunk))
	}
	return sent, false, nil
}

// spliceTo cannot tell a failed sink from a failed source, nor how many bytes are lost between them:
// after a failure the connection is over.
func (s *source) spliceTo(sink *net.TCPConn, n int, sent int64) (int64, bool, error) {
	s.window.rest()
	s.splice.R, s.splice.N = s.conn, int64(n)
	moved, err := sink.ReadFrom(&s.splice)
	s.splice.R = nil
	sent += moved
	if err == nil && moved < int64(n) {
		return sent, false, io.ErrUnexpectedEOF
	}
	s.lost = err != nil
	return sent, s.lost, err
}

// fill reads until the window shows need bytes. A frame that the window cannot hold gets a
// buffer of its own, and heldTime to arrive: beginHold tells when.
func (s *source) fill(ctx context.Context, need int, heldTime time.Duration) error {
	if s.window.len() >= need {
		return nil
	}
	deadline := time.Time{}
	if !s.window.fits(need) {
		deadline = time.Now().Add(heldTime)
		if err := s.conn.SetReadDeadline(deadline); err != nil {
			return err
		}
		defer s.conn.SetReadDeadline(time.Time{})
	}
	for s.window.len() < need {
		if !deadline.IsZero() && s.window.full() {
			waiting, cancel := context.WithDeadline(ctx, deadline)
			err := s.window.hold(waiting, need)
			cancel()
			if err != nil {
				return fmt.Errorf("hold a frame of %d bytes: %w", need, err)
			}
		}
		if err := s.read(need); err != nil {
			return err
		}
	}
	return nil
}

// drop swallows the next n bytes.
func (s *source) drop(n int) error {
	for n > 0 {
		if s.window.len() == 0 {
			if err := s.read(1); err != nil {
				return err
			}
		}
		chunk := min(n, s.window.len())
		s.window.consume(chunk)
		n -= chunk
	}
	return nil
}
