package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// spawner starts child processes that the kernel kills when this process dies. The
// parent-death signal is tied to the thread that forked, not to the process, so that one
// goroutine locked to its thread does all the forking for as long as the children may live.
type spawner struct {
	work chan func()
	done chan struct{}
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for job := range s.work {
			job()
		}
	}()
	return s
}

// close ends the goroutine. The children must have ended.
func (s *spawner) close() {
	close(s.work)
	<-s.done
}

// process is one started child.
type process struct {
	command *exec.Cmd
	// exited is closed when the child is gone and reaped; waitErr may be read then.
	exited  chan struct{}
	waitErr error
}

// start runs command with both outputs appended to the file logPath.
func (s *spawner) start(command *exec.Cmd, logPath string) (*process, error) {
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", command.Path, err)
	}
	defer logFile.Close() // the child has its own copy
	command.Stdout, command.Stderr = logFile, logFile
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	s.work <- func() { started <- command.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	p := &process{command: command, exited: make(chan struct{})}
	go func() {
		p.waitErr = command.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (p *process) pid() int { return p.command.Process.Pid }

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// signal reports an error when the child has already ended.
func (p *process) signal(signal os.Signal) error {
	if err := p.command.Process.Signal(signal); err != nil {
		return fmt.Errorf("signal %v to pid %d: %w", signal, p.pid(), err)
	}
	return nil
}

// kill ends the child at once, suspended or not, and waits until it is reaped.
func (p *process) kill() error {
	if err := p.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill pid %d: %w", p.pid(), err)
	}
	<-p.exited
	return nil
}
