package testenv

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestScriptAnswersAClient(t *testing.T) {
	versions := kmsg.NewPtrApiVersionsResponse()
	for key, last := range map[kmsg.Key]int16{kmsg.ApiVersions: 4, kmsg.Metadata: 12} {
		versions.ApiKeys = append(versions.ApiKeys, kmsg.ApiVersionsResponseApiKey{ApiKey: int16(key), MaxVersion: last})
	}
	metadata := kmsg.NewPtrMetadataResponse()
	metadata.ClusterID = kmsg.StringPtr("scripted")
	s := NewScript(t, []Step{
		ExpectRequest(int16(kmsg.ApiVersions)), SendResponse(versions),
		ExpectRequest(int16(kmsg.Metadata)), SendResponse(metadata),
		ExpectClose(),
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(s.Addr()), kgo.RequestRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), netTimeout)
	defer cancel()
	response, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client.SeedBrokers()[0])
	if err != nil || response.ClusterID == nil || *response.ClusterID != "scripted" {
		t.Fatalf("answered %+v, %v", response, err)
	}
	client.Close()
	if err := s.Played(ctx); err != nil {
		t.Error(err)
	}
	requests := s.Requests()
	if len(requests) != 2 || requests[1].Key != int16(kmsg.Metadata) || requests[1].Version != 12 || len(requests[1].Frame) < 10 {
		t.Errorf("kept %+v", requests)
	}
}

func TestScriptBytesStallAndCut(t *testing.T) {
	release := make(chan struct{})
	s := NewScript(t,
		[]Step{ExpectBytes([]byte("hello")), SendBytes([]byte{0xff, 0}), Stall(release), Cut()},
		[]Step{CloseWrite(), ExpectBytes([]byte("after")), ExpectClose()},
	)
	first := dialScript(t, s)
	first.Write([]byte("hello"))
	if _, err := io.ReadFull(first, make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	first.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := first.Read(make([]byte, 1)); n != 0 || !isTimeout(err) {
		t.Errorf("during the stall: %d bytes, %v", n, err)
	}
	first.SetReadDeadline(time.Now().Add(netTimeout))
	close(release)
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the cut: %v", err)
	}

	second := dialScript(t, s)
	if _, err := second.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the half-close: %v", err)
	}
	second.Write([]byte("after"))
	second.Close()
	ctx, cancel := context.WithTimeout(t.Context(), netTimeout)
	defer cancel()
	if err := s.Played(ctx); err != nil {
		t.Error(err)
	}
}

// What a script must not let pass unseen.
func TestScriptFailures(t *testing.T) {
	metadataRequest := kmsg.NewRequestFormatter().AppendRequest(nil, kmsg.NewPtrMetadataRequest(), 9)
	for name, c := range map[string]struct {
		steps  []Step
		client func(*net.TCPConn)
		want   string
	}{
		"another request": {[]Step{ExpectRequest(18)}, func(c *net.TCPConn) { c.Write(metadataRequest) }, "request key 3, want 18"},
		"other bytes":     {[]Step{ExpectBytes([]byte("ab"))}, func(c *net.TCPConn) { c.Write([]byte("ac")) }, "read 6163, want 6162"},
		"too few bytes":   {[]Step{ExpectBytes([]byte("ab"))}, func(c *net.TCPConn) { c.Write([]byte("a")); c.Close() }, "got 61"},
		"bytes at close":  {[]Step{ExpectClose()}, func(c *net.TCPConn) { c.Write([]byte("x")); c.Close() }, "1 bytes instead"},
		"a huge request":  {[]Step{ExpectRequest(3)}, func(c *net.TCPConn) { c.Write([]byte{0x7f, 0, 0, 0}) }, "a request of 2130706432 bytes"},
		"an early end":    {[]Step{ExpectRequest(3)}, func(c *net.TCPConn) { c.Close() }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := startScript([][]Step{c.steps})
			if err != nil {
				t.Fatal(err)
			}
			c.client(dialScript(t, s))
			ctx, cancel := context.WithTimeout(t.Context(), netTimeout)
			defer cancel()
			if err := s.Played(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("played with %v, want %q", err, c.want)
			}
			if err := s.stop(); err == nil {
				t.Error("stopped without an error")
			}
		})
	}
	t.Run("a connection too many", func(t *testing.T) {
		s, err := startScript(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dialScript(t, s).Read(make([]byte, 1)); err == nil {
			t.Error("it was served")
		}
		if err := s.stop(); err == nil || !strings.Contains(err.Error(), "only 0 were expected") {
			t.Errorf("stopped with %v", err)
		}
	})
	t.Run("a connection that never came", func(t *testing.T) {
		s, err := startScript([][]Step{{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.stop(); err == nil || !strings.Contains(err.Error(), "0 of 1") {
			t.Errorf("stopped with %v", err)
		}
	})
}

func dialScript(t *testing.T, s *Script) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(netTimeout))
	return conn.(*net.TCPConn)
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
