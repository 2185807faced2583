package testenv

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// recorder stands in for a test that is expected to end early.
type recorder struct {
	testing.TB
	fatal, skip string
}

func (r *recorder) Helper()      {}
func (r *recorder) Name() string { return "TestRecorded" }
func (r *recorder) Fatalf(format string, args ...any) {
	r.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (r *recorder) Skip(args ...any) {
	r.skip = fmt.Sprint(args...)
	runtime.Goexit()
}

// record runs what may end early.
func record(act func(tb testing.TB)) *recorder {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		act(r)
	}()
	<-done
	return r
}

func TestEventually(t *testing.T) {
	calls := 0
	Eventually(t, time.Minute, "the third call", func() error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
	calls = 0
	Eventually(t, -time.Second, "what is already so", func() error { calls++; return nil })
	if calls != 1 {
		t.Errorf("%d calls after the deadline, want 1", calls)
	}
	r := record(func(tb testing.TB) {
		Eventually(tb, time.Millisecond, "the moon", func() error { return errors.New("still dark") })
	})
	if !strings.Contains(r.fatal, "the moon") || !strings.Contains(r.fatal, "still dark") {
		t.Errorf("failed with %q", r.fatal)
	}
}

func TestSkipIsAFailureWhenRequired(t *testing.T) {
	skip := func(tb testing.TB) { skipLoudly(tb, "REAL-KAFKA", errors.New("no java")) }
	t.Setenv(requireEnv, "")
	if r := record(skip); r.fatal != "" || r.skip != "REAL-KAFKA TEST SKIPPED: TestRecorded: no java" {
		t.Errorf("failed with %q, skipped with %q", r.fatal, r.skip)
	}
	t.Setenv(requireEnv, "1")
	if r := record(skip); r.skip != "" || !strings.Contains(r.fatal, "no java") {
		t.Errorf("required: failed with %q, skipped with %q", r.fatal, r.skip)
	}
}
