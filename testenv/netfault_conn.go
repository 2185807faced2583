package testenv

import (
	"fmt"
	"io"
	"net"
)

// FaultyConn is a connection whose reads and writes come in pieces and end early: the faults
// of Forwarder without timing, exact to the byte, for any net.Conn such as net.Pipe.
type FaultyConn struct {
	net.Conn
	// ReadBytes is the most that one Read returns; 0 means no limit. 1 finds every reader that
	// takes a short read for a whole message.
	ReadBytes int
	// WriteBytes is the most that one Write of the inner connection gets; 0 means no limit.
	WriteBytes int
	// ReadLimitBytes and WriteLimitBytes are how many bytes pass in all before the connection
	// is closed and the call fails with io.ErrUnexpectedEOF or io.ErrClosedPipe; negative means
	// no limit.
	ReadLimitBytes, WriteLimitBytes int64
}

// NewFaultyConn wraps conn without any fault; set the fields before use.
func NewFaultyConn(conn net.Conn) *FaultyConn {
	return &FaultyConn{Conn: conn, ReadLimitBytes: -1, WriteLimitBytes: -1}
}

// Read is net.Conn's.
func (c *FaultyConn) Read(p []byte) (int, error) {
	if c.ReadLimitBytes == 0 {
		c.Conn.Close()
		return 0, fmt.Errorf("read limit reached: %w", io.ErrUnexpectedEOF)
	}
	if c.ReadBytes > 0 {
		p = p[:min(len(p), c.ReadBytes)]
	}
	if c.ReadLimitBytes > 0 {
		p = p[:min(int64(len(p)), c.ReadLimitBytes)]
	}
	n, err := c.Conn.Read(p)
	if c.ReadLimitBytes > 0 {
		c.ReadLimitBytes -= int64(n)
	}
	return n, err
}

// Write is net.Conn's: it fails unless all of p passes.
func (c *FaultyConn) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		if c.WriteLimitBytes == 0 {
			c.Conn.Close()
			return written, fmt.Errorf("write limit reached: %w", io.ErrClosedPipe)
		}
		piece := p[written:]
		if c.WriteBytes > 0 {
			piece = piece[:min(len(piece), c.WriteBytes)]
		}
		if c.WriteLimitBytes > 0 {
			piece = piece[:min(int64(len(piece)), c.WriteLimitBytes)]
		}
		n, err := c.Conn.Write(piece)
		written += n
		if c.WriteLimitBytes > 0 {
			c.WriteLimitBytes -= int64(n)
		}
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
