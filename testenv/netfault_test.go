package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// netTimeout ends a test whose bytes never come.
const netTimeout = 20 * time.Second

// forwarded is a client connected through a forwarder and the server's end of it.
func forwarded(t *testing.T) (f *Forwarder, client, server *net.TCPConn) {
	t.Helper()
	upstream, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { upstream.Close() })
	f = NewForwarder(t, upstream.Addr().String())
	conn, err := net.Dial("tcp", f.Addr())
	if err != nil {
		t.Fatal(err)
	}
	client = conn.(*net.TCPConn)
	if server, err = upstream.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	for _, conn := range []*net.TCPConn{client, server} {
		if err := conn.SetDeadline(time.Now().Add(netTimeout)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	return f, client, server
}

func TestForwarderPassesEverythingAndItsEnd(t *testing.T) {
	f, client, server := forwarded(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for name, fault := range map[string]Fault{
		"good": {}, "latency": {Latency: 5 * time.Millisecond}, "slices": {SliceBytes: 1000}, "rate": {BytesPerSecond: 50 << 20},
	} {
		f.Up.Set(fault)
		before := f.Up.PassedBytes()
		go client.Write(sent)
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%s: other bytes than sent, %v", name, err)
		}
		if passed := f.Up.PassedBytes() - before; passed != int64(len(sent)) {
			t.Errorf("%s: %d bytes passed, want %d", name, passed, len(sent))
		}
	}
	client.CloseWrite()
	if rest, err := io.ReadAll(server); err != nil || len(rest) != 0 {
		t.Fatalf("after the half-close: %q, %v", rest, err)
	}
	server.Write([]byte("still here"))
	server.Close()
	if rest, err := io.ReadAll(client); err != nil || string(rest) != "still here" {
		t.Errorf("the other direction: %q, %v", rest, err)
	}
}

func TestLatencyAndRateTakeTheirTime(t *testing.T) {
	f, client, server := forwarded(t)
	for name, fault := range map[string]Fault{
		"latency": {Latency: 200 * time.Millisecond}, "rate": {BytesPerSecond: 1000},
	} {
		f.Up.Set(fault)
		began := time.Now()
		client.Write(make([]byte, 200))
		if _, err := io.ReadFull(server, make([]byte, 200)); err != nil {
			t.Fatal(err)
		}
		// A lower bound holds on a machine of any speed.
		if took := time.Since(began); took < 200*time.Millisecond {
			t.Errorf("%s: 200 bytes took %v", name, took)
		}
	}
}

func TestCutAfterBytes(t *testing.T) {
	f, client, server := forwarded(t)
	f.Down.Set(Fault{CutAfterBytes: 7})
	server.Write([]byte("0123"))
	server.Write([]byte("456789"))
	got, err := io.ReadAll(client)
	if string(got) != "0123456" || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client read %q, %v; want 7 bytes and a reset", got, err)
	}
	if _, err := io.ReadAll(server); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the server saw %v, want a reset", err)
	}
}

func TestHalfCloseAfterBytes(t *testing.T) {
	f, client, server := forwarded(t)
	f.Down.Set(Fault{CutAfterBytes: 3, Cut: CutHalfClose})
	server.Write([]byte("012345"))
	if got, err := io.ReadAll(client); string(got) != "012" || err != nil {
		t.Errorf("the client read %q, %v; want 3 bytes and an orderly end", got, err)
	}
	client.Write([]byte("up"))
	client.CloseWrite()
	if got, err := io.ReadAll(server); string(got) != "up" || err != nil {
		t.Errorf("the other direction: %q, %v", got, err)
	}
}

func TestBlackholeHoldsBackAndLetsGo(t *testing.T) {
	f, client, server := forwarded(t)
	f.Up.Set(Fault{Blackhole: true})
	client.Write([]byte("held"))
	server.Write([]byte("other way"))
	if _, err := io.ReadFull(client, make([]byte, 9)); err != nil {
		t.Fatalf("the other direction: %v", err)
	}
	server.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := server.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes came through, %v", n, err)
	}
	if passed := f.Up.PassedBytes(); passed != 0 {
		t.Errorf("%d bytes passed", passed)
	}
	server.SetReadDeadline(time.Now().Add(netTimeout))
	f.Up.Set(Fault{})
	got := make([]byte, 4)
	if _, err := io.ReadFull(server, got); err != nil || string(got) != "held" {
		t.Errorf("after the black hole: %q, %v", got, err)
	}
}

func TestCutAllAndDeadUpstream(t *testing.T) {
	f, client, server := forwarded(t)
	client.Write([]byte("x"))
	if _, err := io.ReadFull(server, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	f.CutAll()
	for name, conn := range map[string]net.Conn{"client": client, "server": server} {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the %s saw %v, want a reset", name, err)
		}
	}
	dead := NewForwarder(t, fmt.Sprintf("127.0.0.1:%d", FreePorts(t, 1)))
	conn, err := net.Dial("tcp", dead.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return // the reset came before the dialler looked
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(netTimeout))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("without an upstream the client saw %v, want a reset", err)
	}
}
