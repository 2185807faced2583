package acceptance

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kafka-mirror-proxy/testenv"
)

// watchPace is how often the sockets are looked at: more often than any client can connect, ask and be gone.
const watchPace = 3 * time.Millisecond

// socket is one row of /proc/net/tcp or tcp6.
type socket struct {
	localPort, remotePort int
	listening             bool
	inode                 string
}

// sockets lists the TCP sockets of this network namespace that a process holds.
func sockets() ([]socket, error) {
	var all []socket
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) < 10 || fields[9] == "0" || fields[0] == "sl" { // without inode: only the kernel has it still
				continue
			}
			local, err1 := portOf(fields[1])
			remote, err2 := portOf(fields[2])
			if err := errors.Join(err1, err2); err != nil {
				return nil, fmt.Errorf("%s: %w", table, err)
			}
			all = append(all, socket{localPort: local, remotePort: remote, listening: fields[3] == "0A", inode: fields[9]})
		}
	}
	return all, nil
}

// portOf reads ADDRESS:PORT, both hexadecimal.
func portOf(field string) (int, error) {
	port, err := strconv.ParseInt(field[strings.LastIndexByte(field, ':')+1:], 16, 32)
	return int(port), err
}

// socketsOf are the inodes of the sockets that a process holds; none when it is gone.
func socketsOf(pid int) map[string]bool {
	inodes := map[string]bool{}
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	files, err := os.ReadDir(folder)
	if err != nil {
		return inodes
	}
	for _, file := range files {
		target, err := os.Readlink(filepath.Join(folder, file.Name()))
		if inode, isSocket := strings.CutPrefix(target, "socket:["); err == nil && isSocket {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

// brokerPorts are all ports that the destination's nodes listen on.
func brokerPorts(t *testing.T) map[int]bool {
	t.Helper()
	all, err := sockets()
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, pid := range brokerPIDs(t) {
		for inode := range socketsOf(pid) {
			held[inode] = true
		}
	}
	ports := map[int]bool{}
	for _, s := range all {
		if s.listening && held[s.inode] {
			ports[s.localPort] = true
		}
	}
	if brokers := len(destination.Kafka(t).NodeIDs()); len(ports) < brokers {
		t.Fatalf("the %d brokers of the destination listen on ports %v only", brokers, ports)
	}
	return ports
}

func brokerPIDs(t *testing.T) []int {
	t.Helper()
	var pids []int
	k := destination.Kafka(t)
	for _, id := range k.NodeIDs() {
		pids = append(pids, k.PID(id))
	}
	return pids
}

// brokerSockets is how many connections to brokers a process holds.
func brokerSockets(t *testing.T, pid int, ports map[int]bool) int {
	t.Helper()
	all, err := sockets()
	if err != nil {
		t.Fatal(err)
	}
	held, count := socketsOf(pid), 0
	for _, s := range all {
		if ports[s.remotePort] && held[s.inode] {
			count++
		}
	}
	return count
}

// socketWatch looks all along at who holds connections to the destination's brokers.
type socketWatch struct {
	t       *testing.T
	ports   map[int]bool
	allowed []int // processes: the proxy and the brokers
	stop    chan struct{}
	stopped chan struct{}

	// of the watching goroutine until it has stopped
	judged  map[string]bool // inodes whose holder was found
	looks   int
	byProxy int // connections of the proxy
	failed  error

	mu        sync.Mutex
	strangers []string
}

// watchSockets begins to watch. Connections of before, which the caller has closed, may take a moment to go.
func watchSockets(t *testing.T, p *proxy) *socketWatch {
	t.Helper()
	w := &socketWatch{t: t, ports: brokerPorts(t), allowed: append(brokerPIDs(t), p.PID()), judged: map[string]bool{},
		stop: make(chan struct{}), stopped: make(chan struct{})}
	testenv.Eventually(t, callTimeout, "connections of before to close", func() error {
		if own := brokerSockets(t, os.Getpid(), w.ports); own > 0 {
			return fmt.Errorf("the test holds %d", own)
		}
		return nil
	})
	go w.run()
	t.Cleanup(w.end)
	return w
}

func (w *socketWatch) run() {
	defer close(w.stopped)
	pace := time.NewTicker(watchPace)
	defer pace.Stop()
	for {
		if err := w.look(); err != nil {
			w.failed = err
			return
		}
		select {
		case <-w.stop:
			return
		case <-pace.C:
		}
	}
}

func (w *socketWatch) look() error {
	all, err := sockets()
	if err != nil {
		return err
	}
	w.looks++
	unknown := map[string]socket{}
	for _, s := range all {
		if w.ports[s.remotePort] && !w.judged[s.inode] {
			unknown[s.inode] = s
		}
	}
	for i, pid := range w.allowed {
		if len(unknown) == 0 {
			return nil
		}
		for inode := range socketsOf(pid) {
			if _, was := unknown[inode]; was {
				delete(unknown, inode)
				w.judged[inode] = true
				if i == len(w.allowed)-1 {
					w.byProxy++
				}
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return w.findStrangers(unknown)
}

// findStrangers looks for the holder among all processes. One that is not found has closed the socket meanwhile, or is
// about to be given it by the kernel: then the next look tells.
func (w *socketWatch) findStrangers(unknown map[string]socket) error {
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, folder := range processes {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || slices.Contains(w.allowed, pid) {
			continue
		}
		for inode := range socketsOf(pid) {
			s, is := unknown[inode]
			if !is {
				continue
			}
			w.judged[inode] = true
			command, _ := os.ReadFile(filepath.Join(folder, "cmdline"))
			w.mu.Lock()
			w.strangers = append(w.strangers, fmt.Sprintf("process %d holds a connection to port %d: %.200q", pid, s.remotePort, command))
			w.mu.Unlock()
		}
	}
	return nil
}

// Strangers are the connections that go around the proxy, as far as seen.
func (w *socketWatch) Strangers() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.strangers)
}

func (w *socketWatch) end() {
	select {
	case <-w.stopped:
	case <-w.stop:
		<-w.stopped
	default:
		close(w.stop)
		<-w.stopped
	}
}

// Finish ends the watch. It wants at least so many connections of the proxy to have been made meanwhile, and no other.
func (w *socketWatch) Finish(connections int) {
	w.t.Helper()
	w.end()
	if w.failed != nil {
		w.t.Fatalf("look at the sockets: %v", w.failed)
	}
	w.t.Logf("%d looks at the sockets, %d connections of the proxy to brokers", w.looks, w.byProxy)
	if w.byProxy < connections {
		w.t.Errorf("%d connections of the proxy to brokers were seen, want at least %d", w.byProxy, connections)
	}
	for _, stranger := range w.strangers {
		w.t.Errorf("around the proxy: %s", stranger)
	}
}

// TestSocketsAroundTheProxyAreSeen shows that the watch can fail.
func TestSocketsAroundTheProxyAreSeen(t *testing.T) {
	p := startProxy(t)
	watch := watchSockets(t, p)
	defer watch.end()
	conn, err := net.Dial("tcp", destination.Kafka(t).BrokerAddr(2))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	testenv.Eventually(t, callTimeout, "the test's own connection to be seen", func() error {
		for _, stranger := range watch.Strangers() {
			if strings.HasPrefix(stranger, fmt.Sprintf("process %d ", os.Getpid())) {
				return nil
			}
		}
		return errors.New("it is not")
	})
}
