package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	tail := " S 1 2 3 4 5 6 7 8 9 10 250 75 0 0 20 0 9 0 12345"
	for _, name := range []string{"(bench)", "(a b)", "(a) S 1 (b)"} {
		got, err := parseStat("4711 " + name + tail)
		if err != nil || got != 3250*time.Millisecond {
			t.Errorf("%s: %v, %v; want 3.25s", name, got, err)
		}
	}
	for _, bad := range []string{"", "4711 bench S 1", "4711 (bench) S 1 2 3", "4711 (x) S 1 2 3 4 5 6 7 8 9 10 a 75 0", "4711 (x) S 1 2 3 4 5 6 7 8 9 10 75 b 0"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: %v, want an error", bad, got)
		}
	}
}

// The figures of /proc are those of getrusage, to within their ticks.
func TestProcessCPUAgreesWithRusage(t *testing.T) {
	x, start := uint64(1), time.Now()
	for time.Since(start) < 100*time.Millisecond { // something to count
		x = x*6364136223846793005 + 1
	}
	before, err := ownCPU()
	if err != nil {
		t.Fatal(err)
	}
	got, err := processCPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after, err := ownCPU()
	if err != nil {
		t.Fatal(err)
	}
	if got < before-2*statTick || got > after+2*statTick {
		t.Errorf("/proc says %v, getrusage %v before and %v after (%d)", got, before, after, x)
	}
}

func TestAChildThatEndsIsReportedWithItsLog(t *testing.T) {
	c, err := startChild("sh", filepath.Join(t.TempDir(), "log"), "sh", "-c", "echo the reason; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	err = c.await(t.Context(), func() error { return errors.New("never ready") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("await: %v", err)
	}
	if err := c.stop(); err != nil {
		t.Errorf("stop of an ended child: %v", err)
	}
}

func TestStopEndsAChild(t *testing.T) {
	c, err := startChild("sleep", filepath.Join(t.TempDir(), "log"), "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.cpu(); err != nil {
		t.Error(err)
	}
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(c.command.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the child is still there: %v", err)
	}
}
