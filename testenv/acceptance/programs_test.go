package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// commandTimeout bounds one run of a command line tool.
const commandTimeout = 2 * time.Minute

// builder makes the two programs once a run. They lie beside the destination's data, which goes with the run.
type builder struct {
	once   sync.Once
	folder string
	err    error
}

var programs builder

// path is where the named program is.
func (b *builder) path(t *testing.T, name string) string {
	t.Helper()
	folder := filepath.Join(destination.Kafka(t).Dir(), "programs")
	b.once.Do(func() {
		build := exec.Command("go", "build", "-o", folder+string(filepath.Separator),
			"kafka-mirror-proxy/cmd/kafka-mirror-proxy", "kafka-mirror-proxy/cmd/kafka-mirrors")
		if output, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build the programs: %w\n%s", err, output)
		}
		b.folder = folder
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return filepath.Join(b.folder, name)
}

// result is how a command ended.
type result struct {
	stdout, stderr string
	exit           int
}

func (r result) String() string {
	return fmt.Sprintf("exit code %d\nstdout: %s\nstderr: %s", r.exit, r.stdout, r.stderr)
}

// run runs one of the programs to its end.
func run(t *testing.T, program string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, programs.path(t, program), args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var status *exec.ExitError
	if err != nil && (!errors.As(err, &status) || ctx.Err() != nil) {
		t.Fatalf("%s %s: %v (%v)\nstderr: %s", program, strings.Join(args, " "), err, ctx.Err(), &stderr)
	}
	return result{stdout.String(), stderr.String(), command.ProcessState.ExitCode()}
}

// partitionRow is a row of kafka-mirrors --describe --output json.
type partitionRow struct {
	Topic             string `json:"topic"`
	Partition         int32  `json:"partition"`
	SourceOffset      int64  `json:"sourceOffset"`
	DestinationOffset int64  `json:"destinationOffset"`
	Lag               int64  `json:"lag"`
	State             string `json:"state"`
	ErrorMessage      string `json:"errorMessage"`
}

// verified is the report of kafka-mirror-proxy verify --output json.
type verified struct {
	Partitions []struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		End       int64  `json:"end"`
		Records   int64  `json:"records"`
		OneSided  int64  `json:"oneSidedRecords"`
		Batches   struct {
			Source    int64 `json:"source"`
			Identical int64 `json:"identical"`
			Filler    int64 `json:"fillerOffsets"`
		} `json:"batches"`
		Difference string `json:"difference"`
	} `json:"partitions"`
}

// runVerify runs the verify command, which must be able to compare.
func runVerify(t *testing.T, sourceServers, destinationServers []string, topics ...string) (report verified) {
	t.Helper()
	args := []string{"verify", "--source", strings.Join(sourceServers, ","), "--destination", strings.Join(destinationServers, ","), "--output", "json"}
	for _, topic := range topics {
		args = append(args, "--topic", topic)
	}
	r := run(t, "kafka-mirror-proxy", args...)
	if r.exit > 1 {
		t.Fatalf("verify %v could not compare: %v", topics, r)
	}
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("verify %v: %v: %v", topics, err, r)
	}
	return report
}

// verifyEqual runs the verify command, which must find the topics equal with exactly so many records.
func verifyEqual(t *testing.T, sourceServers, destinationServers []string, records int64, topics ...string) {
	t.Helper()
	var found int64
	for _, p := range runVerify(t, sourceServers, destinationServers, topics...).Partitions {
		if p.Difference != "" {
			t.Errorf("verify: %s-%d: %s", p.Topic, p.Partition, p.Difference)
		}
		found += p.Records
	}
	if t.Failed() || found != records {
		t.Fatalf("verify %v found %d equal records, the source acknowledged %d", topics, found, records)
	}
}
