package testenv

import (
	"testing"
	"time"
)

// pollInterval is short enough not to be felt in a test and long enough to leave the two
// cores of a small machine to the brokers being waited for.
const pollInterval = 20 * time.Millisecond

// Eventually calls check until it returns nil, and fails the test with the last error when
// that has not happened within timeout. what completes "waiting for ...". check runs on the
// test's goroutine, at least once, and once more after the deadline: a machine that froze in
// between must not fail a test whose condition came true.
func Eventually(tb testing.TB, timeout time.Duration, what string, check func() error) {
	tb.Helper()
	deadline := time.Now().Add(timeout)
	for {
		late := time.Now().After(deadline)
		err := check()
		if err == nil {
			return
		}
		if late {
			tb.Fatalf("waited %v for %s: %v", timeout, what, err)
		}
		time.Sleep(pollInterval)
	}
}
