package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// parentEnv makes a run of the test below the parent.
const parentEnv = "TESTENV_PARENT"

func TestChildDiesWithItsParent(t *testing.T) {
	if dir := os.Getenv(parentEnv); dir != "" {
		child, err := newSpawner().start(exec.Command("sleep", "600"), filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("child %d\n", child.pid())
		<-child.exited
		return
	}
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "child ")))
	if err != nil {
		t.Fatalf("the parent said %q", line)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the child before the kill: %v", err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	parent.Wait()
	Eventually(t, netTimeout, "the child's end", func() error {
		// A zombie that nobody has reaped yet is dead, too.
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, os.ErrNotExist) || err == nil && strings.Contains(string(status), ") Z ") {
			return nil
		}
		return fmt.Errorf("pid %d: %q, %v", pid, status, err)
	})
}

func TestProcess(t *testing.T) {
	s := newSpawner()
	defer s.close()
	log := filepath.Join(t.TempDir(), "log")
	p, err := s.start(exec.Command("sh", "-c", "echo out; echo err >&2; exec sleep 600"), log)
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, netTimeout, "its output", func() error {
		if text, err := os.ReadFile(log); err != nil || string(text) != "out\nerr\n" {
			return fmt.Errorf("%q, %v", text, err)
		}
		return nil
	})
	if !p.alive() {
		t.Error("not alive")
	}
	if err := p.signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
	}
	if err := errors.Join(p.kill(), p.kill()); err != nil {
		t.Errorf("killed twice: %v", err)
	}
	if p.alive() || p.waitErr == nil || p.waitErr.Error() != "signal: killed" {
		t.Errorf("alive %t, ended with %v", p.alive(), p.waitErr)
	}
	if err := p.signal(syscall.SIGCONT); err == nil {
		t.Error("signalled a dead process")
	}
	if _, err := s.start(exec.Command("/no/such/program"), log); err == nil {
		t.Error("started nothing")
	}
}
