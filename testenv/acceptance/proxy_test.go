package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kafka-mirror-proxy/testenv"
)

// Deadlines of what is waited for. They are far above what it takes: a machine busy with other tests must not fail one.
const (
	readyTimeout  = time.Minute
	mirrorTimeout = 3 * time.Minute // a take-over, a broker that comes back, a backlog
	stopTimeout   = 30 * time.Second
)

// lookPause is the pause between two looks by way of the command line tool, each of which is a process: looking must not
// take the processor from what is looked at.
const lookPause = 200 * time.Millisecond

// adminPort is the place of the proxy's admin endpoints in its block of ports, behind the brokers' listeners.
const adminPort = 5

// proxy is a kafka-mirror-proxy serve in a process of its own, in front of the destination. Methods that fail end the test.
type proxy struct {
	t       *testing.T
	ports   *testenv.PortBlock
	logPath string
	args    []string
	process *exec.Cmd
	exited  chan struct{}
}

// startProxy starts a proxy and waits until it is ready. When the test ends it is drained by SIGTERM, so that the next
// test's proxy need not wait for its ownership to run out; its log is kept if the test failed.
func startProxy(t *testing.T, args ...string) *proxy {
	t.Helper()
	ports, err := testenv.ReservePorts(adminPort + 1)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "acceptance-proxy-")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, ports: ports, logPath: filepath.Join(dir, "proxy.log")}
	p.args = append([]string{"serve", "--listen", ports.Addr(0), "--admin-listen", ports.Addr(adminPort),
		"--destination", strings.Join(destination.Kafka(t).Bootstrap(), ",")}, args...)
	t.Cleanup(func() {
		if p.running() {
			p.Stop()
		}
		if err := ports.Close(); err != nil {
			t.Errorf("give back ports: %v", err)
		}
		if t.Failed() {
			t.Logf("the proxy's log is kept in %s; its end:\n%s", p.logPath, p.logTail())
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the proxy's log: %v", err)
		}
	})
	p.start()
	p.WaitReady()
	return p
}

func (p *proxy) start() {
	p.t.Helper()
	logFile, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatal(err)
	}
	defer logFile.Close() // the process has its own copy
	process := exec.Command(programs.path(p.t, "kafka-mirror-proxy"), p.args...)
	process.Stdout, process.Stderr = logFile, logFile
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, exited := make(chan error), make(chan struct{})
	go func() {
		// The parent-death signal comes when the forking thread ends, so that this goroutine keeps it until the process has.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := process.Start()
		started <- err
		if err == nil {
			_ = process.Wait() // how it ended is in ProcessState
			close(exited)
		}
	}()
	if err := <-started; err != nil {
		p.t.Fatalf("start the proxy: %v", err)
	}
	p.process, p.exited = process, exited
}

func (p *proxy) running() bool {
	if p.process == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Address is where clients bootstrap from.
func (p *proxy) Address() string { return p.ports.Addr(0) }

// Bootstrap is Address as a list.
func (p *proxy) Bootstrap() []string { return []string{p.Address()} }

// PID is the process id.
func (p *proxy) PID() int { return p.process.Process.Pid }

// WaitReady waits until /readyz says that the proxy can do its work.
func (p *proxy) WaitReady() {
	p.t.Helper()
	testenv.Eventually(p.t, readyTimeout, "the proxy to be ready", func() error {
		if !p.running() {
			p.t.Fatalf("the proxy ended: %v; end of its log:\n%s", p.process.ProcessState, p.logTail())
		}
		_, err := p.get("readyz")
		return err
	})
}

// get reads one of the admin endpoints.
func (p *proxy) get(path string) (string, error) {
	client := http.Client{Timeout: 5 * time.Second}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://" + p.ports.Addr(adminPort) + "/" + path)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("/%s: %s: %s", path, response.Status, body)
	}
	return string(body), err
}

// Metric is a metric without labels, or with exactly these.
func (p *proxy) Metric(name string) float64 {
	p.t.Helper()
	text, err := p.get("metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			var number float64
			if _, err := fmt.Sscan(value, &number); err != nil {
				p.t.Fatalf("metric %s: %v", line, err)
			}
			return number
		}
	}
	p.t.Fatalf("there is no metric %s", name)
	return 0
}

func (p *proxy) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := p.process.Process.Signal(signal); err != nil {
		p.t.Fatalf("send %v to the proxy: %v; end of its log:\n%s", signal, err, p.logTail())
	}
}

// Kill9 ends the proxy at once.
func (p *proxy) Kill9() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// Restart starts it again on the same ports and waits until it is ready.
func (p *proxy) Restart() {
	p.t.Helper()
	p.start()
	p.WaitReady()
}

// Freeze stops the process where it is: its connections stay open and nobody answers.
func (p *proxy) Freeze() { p.t.Helper(); p.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (p *proxy) Thaw() { p.t.Helper(); p.signal(syscall.SIGCONT) }

// Stop drains the proxy by SIGTERM. One that does not end is killed, and the test fails.
func (p *proxy) Stop() {
	p.t.Helper()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} { // it may be frozen
		if err := p.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.t.Errorf("send %v to the proxy: %v", signal, err)
		}
	}
	select {
	case <-p.exited:
		if code := p.process.ProcessState.ExitCode(); code != 0 {
			p.t.Errorf("the proxy ended with exit code %d; end of its log:\n%s", code, p.logTail())
		}
	case <-time.After(stopTimeout):
		p.t.Errorf("the proxy did not end within %v of SIGTERM; end of its log:\n%s", stopTimeout, p.logTail())
		if err := p.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.t.Errorf("kill the proxy: %v", err)
		}
		<-p.exited
	}
}

// logTail is the end of the proxy's log, short enough for a test failure.
func (p *proxy) logTail() string {
	text, err := os.ReadFile(p.logPath)
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(string(bytes.TrimSpace(text)), "\n"), func(line string) bool {
		return strings.Contains(line, `"refused_acks0"`) // the hostile producers' thousands
	})
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// Mirrors runs the kafka-mirrors tool against the proxy.
func (p *proxy) Mirrors(args ...string) result {
	p.t.Helper()
	return run(p.t, "kafka-mirrors", append([]string{"--bootstrap-server", p.Address()}, args...)...)
}

// MustMirrors wants exit code 0 and this on standard output; an empty want takes anything.
func (p *proxy) MustMirrors(want string, args ...string) string {
	p.t.Helper()
	r := p.Mirrors(args...)
	if r.exit != 0 || want != "" && r.stdout != want+"\n" {
		p.t.Fatalf("kafka-mirrors %s: want exit code 0 and %q, got %v", strings.Join(args, " "), want, r)
	}
	return r.stdout
}

// Describe lists the partitions of a mirror.
func (p *proxy) Describe(mirror string) ([]partitionRow, error) {
	p.t.Helper()
	r := p.Mirrors("--describe", "--mirror", mirror, "--output", "json")
	if r.exit != 0 {
		return nil, fmt.Errorf("describe: %v", r)
	}
	var rows []partitionRow
	if err := json.Unmarshal([]byte(r.stdout), &rows); err != nil {
		return nil, fmt.Errorf("describe: %w: %v", err, r)
	}
	return rows, nil
}

// WaitRows waits until so many partitions of the topic are described and each of them is good.
func (p *proxy) WaitRows(what, mirror, topic string, partitions int, good func(partitionRow) bool) {
	p.t.Helper()
	began := time.Now()
	defer func() { p.t.Logf("%s of %s: %v", what, topic, time.Since(began).Round(time.Millisecond)) }()
	testenv.Eventually(p.t, mirrorTimeout, what+" of "+topic, func() (err error) {
		defer func() {
			if err != nil {
				time.Sleep(lookPause)
			}
		}()
		rows, err := p.Describe(mirror)
		if err != nil {
			return err
		}
		count := 0
		for _, row := range rows {
			if row.Topic == topic {
				if !good(row) {
					return fmt.Errorf("partition %d is %+v", row.Partition, row)
				}
				count++
			}
		}
		if count != partitions {
			return fmt.Errorf("%d partitions are described, want %d", count, partitions)
		}
		return nil
	})
}

// WaitState waits until every partition of the topic is in the state.
func (p *proxy) WaitState(mirror, topic string, partitions int, state string) {
	p.t.Helper()
	p.WaitRows("state "+state, mirror, topic, partitions, func(row partitionRow) bool { return row.State == state })
}

// WaitNoLag waits until every partition is MIRRORING, shows lag 0, and has all that the source had at the call: the figures
// of a moment ago may show no lag either.
func (p *proxy) WaitNoLag(mirror, topic string, partitions int) {
	p.t.Helper()
	wanted := ends(p.t, source, topic)
	p.WaitRows("lag 0", mirror, topic, partitions, func(row partitionRow) bool {
		return row.State == "MIRRORING" && row.Lag == 0 && row.DestinationOffset >= wanted[row.Partition]
	})
}

// CreateMirror makes a mirror of the shared source, with these configs ("name=value") besides.
func (p *proxy) CreateMirror(mirror string, configs ...string) {
	p.t.Helper()
	p.CreateMirrorOf(mirror, source.Kafka(p.t).Bootstrap(), configs...)
}

// CreateMirrorOf makes a mirror of any source.
func (p *proxy) CreateMirrorOf(mirror string, bootstrap []string, configs ...string) {
	p.t.Helper()
	file := filepath.Join(p.t.TempDir(), "source.properties")
	text := "bootstrap.servers=" + strings.Join(bootstrap, ",") + "\n" + strings.Join(configs, "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.MustMirrors("Created mirror "+mirror, "--create", "--mirror", mirror, "--mirror-config", file)
}

// DropMirror stops what is left of the mirror and deletes it, so that the next test's proxy finds none.
func (p *proxy) DropMirror(mirror string) {
	p.t.Helper()
	rows, err := p.Describe(mirror)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, row := range rows {
		if row.State != "STOPPED" {
			p.Mirrors("--remove", "--mirror", mirror, "--topic", ".*") // what was removed before is refused, the rest is done
			break
		}
	}
	testenv.Eventually(p.t, mirrorTimeout, "mirror "+mirror+" to be deleted", func() error {
		if r := p.Mirrors("--delete", "--mirror", mirror); r.exit != 0 {
			return fmt.Errorf("delete: %v", r)
		}
		return nil
	})
}
