package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/cmd/cli"
	"kafka-mirror-proxy/cmd/config"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/testenv"
)

const patience = 60 * time.Second

// program is one proxy run in this process.
type program struct {
	t       *testing.T
	listen  string
	admin   string
	cancel  context.CancelFunc
	ended   chan error
	stopped bool
}

func start(t *testing.T, destination []string, more ...string) *program {
	t.Helper()
	first := testenv.FreePorts(t, 6)
	p := &program{t: t, listen: fmt.Sprintf("127.0.0.1:%d", first), admin: fmt.Sprintf("127.0.0.1:%d", first+5), ended: make(chan error, 1)}
	args := append([]string{"--listen", p.listen, "--admin-listen", p.admin, "--destination", strings.Join(destination, ","), "--mirror.topic.num.partitions=3"}, more...)
	cfg, err := config.Parse(args, os.ReadFile, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	go func() {
		p.ended <- Serve(ctx, cfg, World{ReadFile: os.ReadFile, LookupEnv: os.LookupEnv, Err: testLog{t}})
	}()
	t.Cleanup(p.stop)
	return p
}

func (p *program) stop() {
	p.t.Helper()
	if p.stopped {
		return
	}
	p.stopped = true
	p.cancel()
	if err := <-p.ended; err != nil {
		p.t.Errorf("serve: %v", err)
	}
}

func (p *program) get(path string) (int, string) {
	response, err := http.Get("http://" + p.admin + path)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

func (p *program) ready() {
	p.t.Helper()
	testenv.Eventually(p.t, patience, "the proxy is ready", func() error {
		if code, body := p.get("/readyz"); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
}

func (p *program) mirrors(args ...string) (string, error) {
	var out, errs strings.Builder
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	exit := cli.Run(ctx, append([]string{"--bootstrap-server", p.listen}, args...), cli.Env{
		Out: &out, Err: &errs, ReadFile: os.ReadFile,
		ClientOptions: func(configs map[string]string) ([]kgo.Opt, error) {
			opts, _, err := connect.Options(configs, func(v string) (string, error) { return v, nil })
			return opts, err
		},
	})
	if exit != 0 {
		return out.String(), fmt.Errorf("kafka-mirrors %v: exit %d: %s", args, exit, errs.String())
	}
	return out.String() + errs.String(), nil // with reasons
}

// testLog writes the program's log to the test's.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

func TestServe(t *testing.T) {
	source := testenv.NewFake(t, testenv.FakeConfig{Topics: map[string]int32{"orders": 2}})
	destination := testenv.NewFake(t, testenv.FakeConfig{})
	writer, err := kgo.NewClient(kgo.SeedBrokers(source.Bootstrap()...), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for i := range 100 {
		if err := writer.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	properties := filepath.Join(t.TempDir(), "source.properties")
	if err := os.WriteFile(properties, []byte("bootstrap.servers="+source.Bootstrap()[0]), 0o600); err != nil {
		t.Fatal(err)
	}

	p := start(t, destination.Bootstrap(), "--mirror.num.replica.fetchers=2")
	p.ready()
	for _, args := range [][]string{{"--create", "--mirror", "dr", "--mirror-config", properties}, {"--add", "--mirror", "dr", "--topic", "orders"}} {
		if _, err := p.mirrors(args...); err != nil {
			t.Fatal(err)
		}
	}
	caughtUp := regexp.MustCompile(`orders +\d +50 +50 +0 +MIRRORING`)
	mirroring := func(p *program) {
		t.Helper()
		testenv.Eventually(t, patience, "both partitions are caught up", func() error {
			out, err := p.mirrors("--describe")
			if err == nil && len(caughtUp.FindAllString(out, -1)) != 2 {
				err = fmt.Errorf("%s", out)
			}
			return err
		})
	}
	mirroring(p)
	// What the KIP promises is on /metrics, with values.
	_, metrics := p.get("/metrics")
	for _, want := range []string{
		`kafka_server_mirror_mirrorfetchermanager_maxlag\{clientid="MirrorReplica"\} 0`,
		`kafka_server_mirror_mirrorfetchermanager_failedpartitionscount\{clientid="MirrorReplica"\} 0`,
		`kafka_server_fetcherlagmetrics_consumerlag\{clientid="MirrorFetcherThread-0-0-dr",partition="\d",topic="orders"\} 0`,
		`kafka_server_fetcherlagmetrics_consumerlag\{clientid="MirrorFetcherThread-1-0-dr",partition="\d",topic="orders"\} 0`,
		`kafka_server_fetcherstats_bytespersec_total\{brokerhost="127.0.0.1",brokerport="\d+",clientid="MirrorFetcherThread-[^"]*dr"\} [1-9]`,
		`kafka_server_mirror_mirrormetadatamanager_mirroringpartitionstate 2`,
		`kafka_server_mirror_mirrormetadatamanager_failedpartitionstate 0`,
		`kafka_mirror_proxy_owner 1`,
	} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(metrics) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	if code, body := p.get("/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}

	p.stop() // drains; another process goes on where this one was
	next := start(t, destination.Bootstrap())
	next.ready()
	mirroring(next)
	if out, err := next.mirrors("--list"); err != nil || !strings.Contains(out, "dr ") {
		t.Errorf("%s %v", out, err)
	}
}

// A destination that is down at start is tried on; /readyz says what is missing.
func TestDestinationComesLater(t *testing.T) {
	destination := testenv.NewFake(t, testenv.FakeConfig{})
	address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePorts(t, 1))
	p := start(t, []string{address})
	testenv.Eventually(t, patience, "the proxy says what is missing", func() error {
		code, body := p.get("/readyz")
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "destination: ") || !strings.Contains(body, "connection refused") || !strings.Contains(body, "state: ") {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	late, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	go func() { // the destination comes up at last
		for {
			conn, err := late.Accept()
			if err != nil {
				return
			}
			go relay(conn, destination.Bootstrap()[0])
		}
	}()
	p.ready()
}

func relay(client net.Conn, upstream string) {
	defer client.Close()
	server, err := net.Dial("tcp", upstream)
	if err != nil {
		return
	}
	defer server.Close()
	go io.Copy(server, client)
	io.Copy(client, server)
}

// What cannot be served ends the program at once, with a sentence.
func TestServeRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, args := range map[string][]string{
		"listen":       {"--listen", taken.Addr().String(), "--admin-listen="},
		"admin-listen": {"--listen", fmt.Sprintf("127.0.0.1:%d", testenv.FreePorts(t, 2)), "--admin-listen", taken.Addr().String()},
		"secret":       {"--secret-key-file", "/nowhere/at/all", "--admin-listen="},
		"security":     {"--destination.security.protocol", "NONSENSE", "--admin-listen="},
	} {
		cfg, err := config.Parse(append([]string{"--destination", "127.0.0.1:1"}, args...), os.ReadFile, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err = Serve(ctx, cfg, World{ReadFile: os.ReadFile, LookupEnv: os.LookupEnv, Err: io.Discard})
		if err == nil || ctx.Err() != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
}
