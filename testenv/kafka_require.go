package testenv

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
)

// requireEnv turns the skips of this package into failures. CI sets it, so that a machine
// that lost its java does not pass by testing nothing.
const requireEnv = "KMP_REQUIRE_KAFKA"

// skipLoudly skips a test that needs something this machine lacks, or fails it when
// KMP_REQUIRE_KAFKA=1. The text also goes to standard error, for runs that filter what tests
// log; a passing go test without -v shows neither, which is why CI must set the variable.
func skipLoudly(tb testing.TB, what string, reason error) {
	tb.Helper()
	if os.Getenv(requireEnv) == "1" {
		tb.Fatalf("%s=1 but the %s test cannot run: %v", requireEnv, what, reason)
	}
	text := fmt.Sprintf("%s TEST SKIPPED: %s: %v", what, tb.Name(), reason)
	fmt.Fprintln(os.Stderr, text)
	tb.Skip(text)
}

// RequireKafka starts a cluster for one test and closes it when the test ends. When the test
// failed, the logs and data of the brokers stay and their place is printed. Without java or
// Maven the test is skipped loudly, or fails under KMP_REQUIRE_KAFKA=1.
func RequireKafka(tb testing.TB, config KafkaConfig) *Kafka {
	tb.Helper()
	if err := KafkaAvailable(); err != nil {
		skipLoudly(tb, "REAL-KAFKA", err)
	}
	k, err := StartKafka(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("broker logs and data are kept in %s", k.Dir())
			if err := k.closeKeepingDir(); err != nil {
				tb.Logf("close kafka: %v", err)
			}
			return
		}
		if err := k.Close(); err != nil {
			tb.Errorf("close kafka: %v", err)
		}
	})
	return k
}

// SharedKafka is one cluster for all tests of a package: starting one takes seconds. Declare it
// in the test package and hand it to Main:
//
//	var kafka = testenv.Shared(testenv.KafkaConfig{Brokers: 3})
//
//	func TestMain(m *testing.M) { testenv.Main(m, kafka) }
//
// Tests must use topics of their own, and leave every node running.
type SharedKafka struct {
	config KafkaConfig
	mu     sync.Mutex
	kafka  *Kafka
	err    error
}

// Shared describes a cluster that the first test to ask for it starts.
func Shared(config KafkaConfig) *SharedKafka { return &SharedKafka{config: config} }

// Sharing is a cluster that runs already, for helpers that take a shared one. Main must not close it.
func Sharing(k *Kafka) *SharedKafka { return &SharedKafka{kafka: k} }

// Kafka is the shared cluster. A start that failed is not tried again: each test that asks
// fails with its error. Without java or Maven the test is skipped loudly, as by RequireKafka.
func (s *SharedKafka) Kafka(tb testing.TB) *Kafka {
	tb.Helper()
	if err := KafkaAvailable(); err != nil {
		skipLoudly(tb, "REAL-KAFKA", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kafka == nil && s.err == nil {
		// Not the test's context: the cluster outlives the test that starts it.
		s.kafka, s.err = StartKafka(context.Background(), s.config)
	}
	if s.err != nil {
		tb.Fatalf("shared kafka: %v", s.err)
	}
	return s.kafka
}

// close ends the cluster if it was started; failed keeps its directory and prints it.
func (s *SharedKafka) close(failed bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kafka == nil {
		return nil
	}
	if failed {
		fmt.Fprintf(os.Stderr, "broker logs and data of the shared cluster are kept in %s\n", s.kafka.Dir())
		return s.kafka.closeKeepingDir()
	}
	return s.kafka.Close()
}

// Main runs the tests of a package, closes the clusters they shared and exits.
func Main(m *testing.M, clusters ...*SharedKafka) {
	code := m.Run()
	for _, cluster := range clusters {
		if err := cluster.close(code != 0); err != nil {
			fmt.Fprintf(os.Stderr, "close the shared cluster: %v\n", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}
