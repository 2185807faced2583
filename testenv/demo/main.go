// Command demo tells the project's story on two clusters of its own: a stock
// cluster becomes a mirror destination, exact to the offset, and takes over.
// It uses the product's own programs and nothing else; --kafka takes real
// clusters instead of in-process fakes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/cmd/app"
	"kafka-mirror-proxy/cmd/cli"
	"kafka-mirror-proxy/cmd/config"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/replicate/verify"
	"kafka-mirror-proxy/testenv"
)

const (
	topic      = "orders"
	partitions = 3
	backlog    = 30_000 // records on the source before the mirror begins
	patience   = 60 * time.Second

	// readOnlyTopic is the KIP's code. The client library, which knows Kafka 4.4, has another name for the number.
	readOnlyTopic = 134
)

func main() {
	real := flag.Bool("kafka", false, "use real Kafka clusters (needs Java and Maven)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *real)
	stop()
	if err != nil {
		fmt.Printf("\nDEMO FAILED: %v\n", err)
		os.Exit(1)
	}
	fmt.Println("\nDEMO PASSED: same offsets, same records, read-only while mirrored, writable after the failover.")
}

// demo is what the chapters share.
type demo struct {
	source, destination []string // bootstrap servers
	proxy               string   // the proxy's address
	dir                 string   // for the files a user would write
}

func run(ctx context.Context, real bool) error {
	source, stopSource, err := cluster(ctx, real)
	if err != nil {
		return err
	}
	defer stopSource()
	destination, stopDestination, err := cluster(ctx, real)
	if err != nil {
		return err
	}
	defer stopDestination()
	dir, err := os.MkdirTemp("", "kafka-mirror-proxy-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	d := &demo{source: source, destination: destination, dir: dir}
	say("Two stock Kafka clusters: the source at %s, the destination at %s.", source[0], destination[0])

	writer, err := startWriter(ctx, source)
	if err != nil {
		return err
	}
	defer writer.stop()
	stopProxy, err := d.startProxy(ctx)
	if err != nil {
		return err
	}
	defer stopProxy()
	for _, chapter := range []func(context.Context) error{d.mirror, d.catchUp, d.refuse, d.compare, d.pauseAndResume} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return d.failOver(ctx, writer)
}

func cluster(ctx context.Context, real bool) ([]string, func(), error) {
	if real {
		k, err := testenv.StartKafka(ctx, testenv.KafkaConfig{})
		if err != nil {
			return nil, nil, err
		}
		return k.Bootstrap(), func() { k.Close() }, nil
	}
	f, err := testenv.StartFake(testenv.FakeConfig{})
	if err != nil {
		return nil, nil, err
	}
	return f.Bootstrap(), func() { f.Close() }, nil
}

func (d *demo) startProxy(ctx context.Context) (stop func(), err error) {
	ports, err := testenv.ReservePorts(5)
	if err != nil {
		return nil, err
	}
	d.proxy = ports.Addr(0)
	args := []string{"--listen", d.proxy, "--destination", strings.Join(d.destination, ","), "--admin-listen", ports.Addr(4), "--log-format", "text", "--log-level", "warn"}
	cfg, err := config.Parse(args, os.ReadFile, io.Discard)
	if err != nil {
		return nil, err
	}
	show("kafka-mirror-proxy serve", args[:4]...)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- app.Serve(ctx, cfg, app.World{ReadFile: os.ReadFile, LookupEnv: os.LookupEnv, Err: os.Stderr})
	}()
	stop = func() {
		cancel()
		if err := <-ended; err != nil {
			fmt.Println("proxy:", err)
		}
		ports.Close()
	}
	if err := until(ctx, "the proxy is ready", func() (bool, error) { return ready(ctx, ports.Addr(4)) }); err != nil {
		stop()
		return nil, err
	}
	say("The proxy stands in front of the destination: clients bootstrap from %s.", d.proxy)
	return stop, nil
}

// ready asks the proxy's /readyz; a proxy that does not answer yet is not ready.
func ready(ctx context.Context, admin string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, ctx.Err()
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK, nil
}

// mirrors runs the kafka-mirrors tool and returns what it printed.
func (d *demo) mirrors(ctx context.Context, args ...string) (string, error) {
	var out, errs strings.Builder
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	exit := cli.Run(ctx, append([]string{"--bootstrap-server", d.proxy}, args...), cli.Env{
		Out: &out, Err: &errs, Version: "demo", ReadFile: os.ReadFile,
		ClientOptions: func(configs map[string]string) ([]kgo.Opt, error) {
			opts, _, err := connect.Options(configs, func(v string) (string, error) { return v, nil })
			return opts, err
		},
	})
	if exit != 0 {
		return out.String(), fmt.Errorf("kafka-mirrors %s: exit code %d: %s", strings.Join(args, " "), exit, errs.String())
	}
	return out.String(), nil
}

// command runs the tool as a user would, and shows it.
func (d *demo) command(ctx context.Context, args ...string) error {
	show("kafka-mirrors --bootstrap-server "+d.proxy, args...)
	out, err := d.mirrors(ctx, args...)
	fmt.Print(out)
	return err
}

func (d *demo) mirror(ctx context.Context) error {
	file := filepath.Join(d.dir, "source.properties")
	if err := os.WriteFile(file, []byte("bootstrap.servers="+strings.Join(d.source, ",")+"\n"), 0o600); err != nil {
		return err
	}
	say("A mirror is made with KIP-1279's own tool, and %s (%d records, and more coming in) is added to it.", topic, backlog)
	if err := d.command(ctx, "--create", "--mirror", "dr", "--mirror-config", file); err != nil {
		return err
	}
	if err := d.command(ctx, "--add", "--mirror", "dr", "--topic", topic); err != nil {
		return err
	}
	say("The lag falls while the producer goes on writing:")
	return nil
}

// catchUp shows the describe table until the lag is gone.
func (d *demo) catchUp(ctx context.Context) error {
	last := ""
	return until(ctx, "the lag is 0", func() (bool, error) {
		table, err := d.mirrors(ctx, "--describe", "--mirror", "dr")
		if err != nil {
			return false, err
		}
		done := strings.Count(table, "MIRRORING") == partitions && strings.Count(table, " 0        MIRRORING") == partitions
		if state := states(table); done || state != last {
			last = state
			show("kafka-mirrors --bootstrap-server "+d.proxy, "--describe", "--mirror", "dr")
			fmt.Print(table)
		}
		return done, nil
	})
}

// states is what is worth showing a table again for.
func states(table string) string {
	var s []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		s = append(s, fields[len(fields)-1])
	}
	return strings.Join(s, " ")
}

func (d *demo) refuse(ctx context.Context) error {
	say("Nobody else can write to the mirror topic:")
	client, err := kgo.NewClient(kgo.SeedBrokers(d.proxy), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("from a client of the destination")}).FirstErr()
	if err == nil {
		return errors.New("a record was accepted by a mirror topic")
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the produce was not refused but hung: %w", err)
	}
	var refused *kerr.Error
	if !errors.As(err, &refused) || refused.Code != readOnlyTopic {
		return fmt.Errorf("the produce was refused with another error than READ_ONLY_TOPIC: %w", err)
	}
	fmt.Printf("  produce to %s: refused at once: READ_ONLY_TOPIC (%d)\n", topic, refused.Code)
	return nil
}

func (d *demo) compare(ctx context.Context) error {
	say("Both logs are walked side by side: offset, timestamp, key, value, headers.")
	show("kafka-mirror-proxy verify", "--source", d.source[0], "--destination", d.proxy, "--topic", topic)
	report, err := compare(ctx, d.source, []string{d.proxy})
	if err != nil {
		return err
	}
	fmt.Print(report)
	if !report.Equal() {
		return errors.New("the logs differ")
	}
	if report.Records() < backlog {
		return fmt.Errorf("only %d records were compared", report.Records())
	}
	return nil
}

func compare(ctx context.Context, source, destination []string) (verify.Report, error) {
	s, err := kgo.NewClient(kgo.SeedBrokers(source...))
	if err != nil {
		return verify.Report{}, err
	}
	defer s.Close()
	d, err := kgo.NewClient(kgo.SeedBrokers(destination...))
	if err != nil {
		return verify.Report{}, err
	}
	defer d.Close()
	return verify.Compare(ctx, verify.Config{Source: s, Destination: d, Topics: []string{topic}, Patience: patience})
}

func (d *demo) pauseAndResume(ctx context.Context) error {
	say("Mirroring can be paused and goes on where it was:")
	for _, verb := range []string{"--pause", "--resume"} {
		if err := d.command(ctx, verb, "--mirror", "dr", "--topic", topic); err != nil {
			return err
		}
		state := map[string]string{"--pause": "PAUSED", "--resume": "MIRRORING"}[verb]
		if err := d.await(ctx, state); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) await(ctx context.Context, state string) error {
	return until(ctx, "all partitions are "+state, func() (bool, error) {
		table, err := d.mirrors(ctx, "--describe", "--mirror", "dr")
		return err == nil && strings.Count(table, " "+state+" ") == partitions, err
	})
}

func (d *demo) failOver(ctx context.Context, w *writer) error {
	say("Failover: the source's producer stops, the topic leaves the mirror and becomes writable.")
	w.stop()
	if err := d.catchUp(ctx); err != nil {
		return err
	}
	if err := d.command(ctx, "--remove", "--mirror", "dr", "--topic", topic); err != nil {
		return err
	}
	if err := d.await(ctx, "STOPPED"); err != nil {
		return err
	}
	report, err := compare(ctx, d.source, d.destination)
	if err != nil {
		return err
	}
	if !report.Equal() || report.Records() != w.written {
		return fmt.Errorf("after the failover: %d records were written to the source\n%s", w.written, report)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(d.proxy), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	for _, p := range report.Partitions {
		r := &kgo.Record{Topic: topic, Partition: p.Partition, Value: []byte("first write after the failover")}
		if err := client.ProduceSync(ctx, r).FirstErr(); err != nil {
			return fmt.Errorf("write after the failover: %w", err)
		}
		if r.Offset != p.End {
			return fmt.Errorf("the first write to %s-%d landed at offset %d, the source ended at %d", topic, p.Partition, r.Offset, p.End)
		}
		fmt.Printf("  produce to %s-%d: accepted at offset %d, right behind the source's last record\n", topic, p.Partition, r.Offset)
	}
	return nil
}

// until asks again and again until done says so.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if err != nil || ok {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s until %s: %w", patience, what, ctx.Err())
		case <-tick.C:
		}
	}
}

func say(format string, args ...any) { fmt.Printf("\n"+format+"\n", args...) }

func show(command string, args ...string) {
	fmt.Printf("  $ %s %s\n", command, strings.Join(args, " "))
}
