// Command bench measures the proxy end to end on real Kafka, next to no proxy and to a plain
// TCP relay, and the replicator next to what is known of MirrorMaker 2.
//
// One broker is the destination and, for the replication rows, a second one the source. The
// load generator is this process; relay and proxy are processes of their own, so that their CPU
// time is. It judges its own figures but never fails for them: they depend on the machine.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"kafka-mirror-proxy/testenv"
)

// The rows, in the order they are run and printed.
const (
	rowNoProxy       = "no-proxy"
	rowRelay         = "relay"
	rowProxy         = "proxy"
	rowReplicate1KiB = "replicate-1KiB"
	rowReplicate100B = "replicate-100B"
	// rowSmallBatches has 100-byte records in batches of 1 KiB, which the mirror merges.
	rowSmallBatches = "replicate-small-batches"
)

func allRows() []string {
	return []string{rowNoProxy, rowRelay, rowProxy, rowReplicate1KiB, rowReplicate100B, rowSmallBatches}
}

// relayCommand is what this program plays when it runs itself; not for users.
const relayCommand = "relay" // LISTEN UPSTREAM

func main() {
	var err error
	switch {
	case len(os.Args) == 4 && os.Args[1] == relayCommand:
		err = playRelay(os.Args[2], os.Args[3])
	default:
		err = benchmark(os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func playRelay(listen, upstream string) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	return relay(listener, upstream)
}

// bench is one run.
type bench struct {
	rows         []string
	length       time.Duration
	jsonPath     string
	profile      string // folder for CPU profiles of the proxy; empty: none
	profiles     int    // how many there are
	destination  *testenv.Kafka
	dir          string
	proxyProgram string
}

func parseFlags(args []string) (*bench, error) {
	set := flag.NewFlagSet("bench", flag.ContinueOnError)
	rows := set.String("rows", strings.Join(allRows(), ","), "rows to run, comma separated")
	seconds := set.Float64("seconds", 12, "length of each produce and consume measurement, and how much there is to replicate")
	b := &bench{}
	set.StringVar(&b.jsonPath, "json", "", "file to write the figures to as JSON")
	set.StringVar(&b.profile, "profile", "", "folder for a CPU profile of each proxy that is run")
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if !(*seconds > 0 && *seconds <= 3600) {
		return nil, fmt.Errorf("--seconds: want more than 0 and at most 3600, got %v", *seconds)
	}
	b.length = time.Duration(*seconds * float64(time.Second))
	for row := range strings.SplitSeq(*rows, ",") {
		if row = strings.TrimSpace(row); !slices.Contains(allRows(), row) {
			return nil, fmt.Errorf("--rows: no row %q; there are %s", row, strings.Join(allRows(), ", "))
		}
		b.rows = append(b.rows, row)
	}
	return b, nil
}

func (b *bench) has(rows ...string) bool {
	return slices.ContainsFunc(rows, func(row string) bool { return slices.Contains(b.rows, row) })
}

func benchmark(args []string) error {
	b, err := parseFlags(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if b.dir, err = os.MkdirTemp("", "kafka-mirror-proxy-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.profile != "" {
		if err := os.MkdirAll(b.profile, 0o755); err != nil {
			return err
		}
	}
	r, err := b.run(ctx)
	if err := errors.Join(err, r.write(os.Stdout)); err != nil { // what was measured by then is shown
		return err
	}
	if b.jsonPath != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.jsonPath, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if r.failed() {
		return errors.New("a row failed")
	}
	return nil
}

// run starts what the rows need and runs them. A row that fails does not stop the others.
func (b *bench) run(ctx context.Context) (report, error) {
	r := report{Machine: fmt.Sprintf("%d cores, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		r.Load = strings.TrimSpace(string(load))
	}
	fmt.Printf("machine: %s; load average before: %s\n", r.Machine, r.Load)
	if b.has(rowProxy, rowReplicate1KiB, rowReplicate100B, rowSmallBatches) {
		b.proxyProgram = filepath.Join(b.dir, "kafka-mirror-proxy")
		program := "kafka-mirror-proxy/cmd/kafka-mirror-proxy"
		if b.profile != "" {
			program = "kafka-mirror-proxy/testenv/bench/profiled"
		}
		build := exec.CommandContext(ctx, "go", "build", "-o", b.proxyProgram, program)
		if out, err := build.CombinedOutput(); err != nil {
			return r, fmt.Errorf("build the proxy: %w\n%s", err, out)
		}
	}
	// The brokers of testenv have Java's quick compiler only, which suits short tests. This is the
	// one way past its command line, and wins over it.
	if err := os.Setenv("_JAVA_OPTIONS", strings.TrimSpace(os.Getenv("_JAVA_OPTIONS")+" -XX:TieredStopAtLevel=4")); err != nil {
		return r, err
	}
	var err error
	if b.destination, err = testenv.StartKafka(ctx, brokerConfig()); err != nil {
		return r, err
	}
	defer b.destination.Close()
	fmt.Println("warm-up ...")
	if err := warmUp(ctx, b.destination, b.length); err != nil {
		return r, err
	}
	if b.has(rowNoProxy, rowRelay, rowProxy) {
		r.Fronts = b.frontRows(ctx)
	}
	if b.has(rowReplicate1KiB, rowReplicate100B, rowSmallBatches) {
		if r.Replication, err = b.replicationRows(ctx); err != nil {
			return r, err
		}
	}
	return r, ctx.Err()
}

// brokerConfig gives deleted topics' space back soon, and the JVM room for large requests.
func brokerConfig() testenv.KafkaConfig {
	return testenv.KafkaConfig{JVMHeapMiB: 1024, Properties: map[string]string{"log.segment.delete.delay.ms": "1000"}}
}

func (b *bench) nextProfile() string {
	b.profiles++
	return filepath.Join(b.profile, fmt.Sprintf("proxy-%d.pprof", b.profiles))
}
