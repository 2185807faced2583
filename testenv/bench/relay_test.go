package main

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// A relay passes bytes both ways, and the end of what the client sends before the answer ends.
func TestRelayPassesBytesAndHalfClose(t *testing.T) {
	upstream := listen(t)
	go func() {
		conn, err := upstream.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		all, err := io.ReadAll(conn) // until the client's half-close
		if err == nil {
			conn.Write(append([]byte("got "), all...))
		}
	}()
	front := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- relay(front, upstream.Addr().String()) }()

	conn, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	sent := randomBytes(1 << 20)
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, append([]byte("got "), sent...)) {
		t.Errorf("%d bytes came back, or other ones", len(got))
	}
	front.Close()
	if err := <-ended; err != nil {
		t.Errorf("relay: %v", err)
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}
