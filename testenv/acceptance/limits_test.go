package acceptance

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"kafka-mirror-proxy/testenv"
)

// residentBytes is the memory of a process (VmRSS).
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("process %d has no VmRSS", pid)
	return 0
}

// limitFiles changes how many files a process may have open, 0 to leave it, and returns how many it might before.
func limitFiles(t *testing.T, pid int, most uint64) uint64 {
	t.Helper()
	var before, limit syscall.Rlimit
	set := func(limit *syscall.Rlimit, old *syscall.Rlimit) {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE,
			uintptr(unsafe.Pointer(limit)), uintptr(unsafe.Pointer(old)), 0, 0); errno != 0 {
			t.Fatalf("prlimit of process %d: %v", pid, errno)
		}
	}
	set(nil, &before)
	if most > 0 {
		limit = before
		limit.Cur = min(most, before.Max)
		set(&limit, nil)
	}
	return before.Cur
}

func openFiles(t *testing.T, pid int) int {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestGarbageFileLimit: a proxy that may open no more files takes no more connections, goes on with those it has, and takes
// connections again when some have gone.
func TestGarbageFileLimit(t *testing.T) {
	m := startMirrored(t)
	defer m.Drop()
	witness := startWitness(t, m.proxy)
	admin := dialAdmin(t, m.proxy) // at the limit there is no new connection to the admin endpoints either
	const room = 60
	was := limitFiles(t, m.PID(), uint64(openFiles(t, m.PID())+room))
	failures := admin.metric("kafka_mirror_proxy_accept_failures_total")

	var flood []net.Conn
	defer func() { closeAll(flood) }()
	for range 4 * room { // the kernel completes those that the proxy does not accept
		conn, err := net.DialTimeout("tcp", m.Address(), rawTimeout)
		if err != nil {
			t.Fatal(err)
		}
		flood = append(flood, conn)
	}
	testenv.Eventually(t, callTimeout, "the proxy to be at the limit", func() error {
		if admin.metric("kafka_mirror_proxy_accept_failures_total") == failures {
			return fmt.Errorf("no accept has failed; %d files are open", openFiles(t, m.PID()))
		}
		return nil
	})
	witness.AwaitRounds("while the proxy can open no file", 20)
	closeAll(flood)
	flood = nil
	wantServed(t, m.proxy, "after the flood")
	witness.AwaitRounds("after the flood", 20)
	limitFiles(t, m.PID(), was)
	m.WaitNoLag(m.mirror, m.topic, mirroredPartitions)
}

func closeAll(conns []net.Conn) {
	for _, conn := range conns {
		conn.Close()
	}
}

// wantServed wants a new connection to be answered.
func wantServed(t *testing.T, p *proxy, when string) {
	t.Helper()
	testenv.Eventually(t, callTimeout, "a new client to be served "+when, func() error {
		client := newClient(t, p.Bootstrap())
		defer client.Close()
		return client.Ping(within(t))
	})
}

// adminConn is one connection to the admin endpoints that stays.
type adminConn struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func dialAdmin(t *testing.T, p *proxy) *adminConn {
	t.Helper()
	conn := dialRaw(t, p.ports.Addr(adminPort))
	a := &adminConn{t: t, conn: conn, reader: bufio.NewReader(conn)}
	a.metric("go_goroutines") // it is accepted now
	return a
}

// metric is as proxy.Metric.
func (a *adminConn) metric(name string) float64 {
	a.t.Helper()
	_ = a.conn.SetDeadline(time.Now().Add(rawTimeout))
	if _, err := io.WriteString(a.conn, "GET /metrics HTTP/1.1\r\nHost: proxy\r\n\r\n"); err != nil {
		a.t.Fatal(err)
	}
	response, err := http.ReadResponse(a.reader, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var value float64
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &value); err != nil {
				a.t.Fatal(err)
			}
			return value
		}
	}
	a.t.Fatalf("there is no metric %s", name)
	return 0
}
