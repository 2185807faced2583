package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a process under measurement: a relay or the proxy. Its output goes to a log file.
type child struct {
	name    string
	command *exec.Cmd
	logPath string
	exited  chan struct{}
	waitErr error // may be read once exited is closed
}

// startChild starts a process that the kernel kills when this one dies.
func startChild(name, logPath, program string, args ...string) (*child, error) {
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer logFile.Close() // the process has its own copy
	c := &child{name: name, command: exec.Command(program, args...), logPath: logPath, exited: make(chan struct{})}
	c.command.Stdout, c.command.Stderr = logFile, logFile
	c.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The parent-death signal comes when the forking thread ends, so that this goroutine
		// keeps its thread until the process is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.command.Start()
		started <- err
		if err == nil {
			c.waitErr = c.command.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return c, nil
}

// await calls ready until it returns nil. It gives up when ctx ends or the process does.
func (c *child) await(ctx context.Context, ready func() error) error {
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("%s ended (%v); end of its log:\n%s", c.name, c.waitErr, c.logTail())
		case <-ctx.Done():
			return fmt.Errorf("await %s: %w (%w); end of its log:\n%s", c.name, ctx.Err(), err, c.logTail())
		case <-time.After(pollInterval):
		}
	}
}

// stop asks the process to end, and kills it when it has not within ten seconds.
func (c *child) stop() error {
	if err := c.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	select {
	case <-c.exited:
		return nil
	case <-time.After(10 * time.Second):
	}
	if err := c.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	<-c.exited
	return fmt.Errorf("%s did not end at SIGTERM and was killed", c.name)
}

func (c *child) logTail() string {
	text, err := os.ReadFile(c.logPath)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// cpu is the user and system time of all threads of the process, ended ones too: what wait4
// would report as its rusage, but readable while it runs.
func (c *child) cpu() (time.Duration, error) { return processCPU(c.command.Process.Pid) }

func processCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	return parseStat(string(stat))
}

// statTick is the unit of the times in /proc/PID/stat: USER_HZ, 100 on every Linux platform
// that Go supports.
const statTick = 10 * time.Millisecond

// parseStat adds utime and stime, fields 14 and 15 of proc(5). The command name, field 2, is
// in parentheses and may hold blanks and parentheses itself.
func parseStat(stat string) (time.Duration, error) {
	end := strings.LastIndexByte(stat, ')')
	fields := strings.Fields(stat[end+1:])
	if end < 0 || len(fields) < 13 {
		return 0, fmt.Errorf("read CPU time: %q is not the text of /proc/PID/stat", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read user time: %w", err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read system time: %w", err)
	}
	return time.Duration(user+system) * statTick, nil
}

// ownCPU is the user and system time of this process, which is the load generator.
func ownCPU() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read own CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
