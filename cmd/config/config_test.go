package config

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func file(content string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if name != "proxy.yaml" {
			return nil, fs.ErrNotExist
		}
		return []byte(content), nil
	}
}

func parse(t *testing.T, yaml string, args ...string) (*Config, error) {
	t.Helper()
	return Parse(args, file(yaml), io.Discard)
}

func TestDefaultsAreValid(t *testing.T) {
	c, err := parse(t, "", "--destination", "b1:9092")
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "127.0.0.1:9094" || c.AdvertisedHost != "127.0.0.1" || c.StatePartitions != 50 || c.StateReplicationFactor != 3 ||
		c.ReadOnlyErrorCode != 134 || c.Dialect != "seed" || c.MetadataRefresh.Seconds() != 30 {
		t.Errorf("defaults: %+v", c)
	}
}

// Every name works as a flag and as a key of the file, and gives the same Config.
func TestFlagsAndFileHaveTheSameNames(t *testing.T) {
	values := map[string]string{
		"listen": "10.0.0.1:19094", "advertised-host": "kafka.example", "node-ports": "7=20007,1000=21000",
		"destination": "b1:9092,b2:9092", "admin-listen": "127.0.0.1:1", "dialect": "none", "read-only-error-code": "44",
		"max-connections": "7", "replication-memory-bytes": "33554432", "secret-key-file": "k", "allow-env": "A,B",
		"allow-files": "/a,/b", "accept-missing-state": "true", "trust-clients": "true", "log-level": "debug", "log-format": "text", "drain-timeout-ms": "5",
		"mirror.topic.num.partitions": "3", "mirror.topic.replication.factor": "2", "mirror.num.replica.fetchers": "4",
		"mirror.metadata.refresh.interval.ms": "100", "mirror.fetch.backoff.ms": "20", "replica.fetch.max.bytes": "2048",
		"replica.fetch.response.max.bytes": "4096", "replica.fetch.wait.max.ms": "10", "request.timeout.ms": "99",
		"destination.client.id": "proxy",
	}
	var args []string
	var yaml strings.Builder
	for name, v := range values {
		args = append(args, "--"+name+"="+v)
		yaml.WriteString(name + ": \"" + v + "\"\n")
	}
	for _, o := range options() {
		if _, ok := values[o.name]; !ok {
			t.Errorf("%s is not tested here", o.name)
		}
	}
	byFlags, err := parse(t, "", args...)
	if err != nil {
		t.Fatal(err)
	}
	byFile, err := parse(t, yaml.String(), "--config", "proxy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(byFlags, byFile); d != "" {
		t.Error(d)
	}
	defaults, err := parse(t, "", "--destination", "x:1")
	if err != nil {
		t.Fatal(err)
	}
	if byFlags.Listen == defaults.Listen || byFlags.NodePorts[1000] != 21000 || byFlags.DestinationClient["client.id"] != "proxy" ||
		!byFlags.AcceptMissingState || byFlags.FetchMaxBytes != 2048 || len(byFlags.AllowFiles) != 2 {
		t.Errorf("%+v", byFlags)
	}
}

func TestFileTakesListsMapsAndAliases(t *testing.T) {
	c, err := parse(t, "destination: [b1:9092, b2:9092]\nnode-ports: {5: 9500}\nmirror.state.topic.num.partitions: 7\n", "--config=proxy.yaml", "--listen=h:1")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"b1:9092", "b2:9092"}, c.Destination); d != "" {
		t.Error(d)
	}
	if c.NodePorts[5] != 9500 || c.StatePartitions != 7 || c.Listen != "h:1" {
		t.Errorf("%+v", c)
	}
}

func TestFlagWinsOverFile(t *testing.T) {
	c, err := parse(t, "destination: b1:9092\nlisten: h:1\n", "--config", "proxy.yaml", "--listen", "h:2")
	if err != nil || c.Listen != "h:2" {
		t.Fatal(c, err)
	}
}

func TestEveryProblemIsReportedAtOnce(t *testing.T) {
	_, err := parse(t, `
listen: nonsense
node-ports: {1: 70000}
mirror.nonsense: 1
mirror.topic.num.partitions: 0
mirror.state.topic.num.partitions: 2
dialect: french
request.timeout.ms: soon
admin-listen: {a: {b: [c]}, d: 1.5}
destination.bootstrap.servers: x:1
mirror.replication.throttled.rate: 5
`, "--config", "proxy.yaml")
	var invalid *Invalid
	if !errors.As(err, &invalid) {
		t.Fatalf("want Invalid, got %v", err)
	}
	for _, want := range []string{
		`listen: want HOST:PORT, got "nonsense"`,
		"node-ports: port \"70000\" of node 1 is not between 1 and 65535",
		"mirror.nonsense: unknown setting",
		"mirror.topic.num.partitions: want a whole number from 1 up",
		"mirror.state.topic.num.partitions: given together with mirror.topic.num.partitions",
		"dialect: want one of seed, none",
		"request.timeout.ms: want milliseconds",
		"admin-listen: a value of type float64 does not fit here",
		"destination: required",
		"mirror.replication.throttled.rate: can only be set while running",
		"destination.bootstrap.servers: use destination instead",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not reported: %s\nin:\n%v", want, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, args := range map[string][]string{
		"unknown flag":                {"--nonsense=1"},
		"argument":                    {"--destination=b:1", "stray"},
		"destination flag alone":      {"--destination.security.protocol"},
		"wildcard without advertised": {"--destination=b:1", "--listen=0.0.0.0:9094"},
		"missing file":                {"--config=missing.yaml"},
		"missing file beside a flag":  {"--config=missing.yaml", "--destination=b:1"},
		"node port taken twice":       {"--destination=b:1", "--node-ports=1=9000,2=9000"},
		"node port is listen":         {"--destination=b:1", "--node-ports=1=9094"},
		"one node, two ports":         {"--destination=b:1", "--node-ports=1=9000,1=9001"},
		"admin port is listen":        {"--destination=b:1", "--admin-listen=:9094"},
		"admin port is a node's":      {"--destination=b:1", "--node-ports=1=9093"},
		"code 0":                      {"--destination=b:1", "--read-only-error-code=0"},
		"log level":                   {"--destination=b:1", "--log-level=loud"},
	} {
		if _, err := parse(t, "", args...); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := parse(t, "destination: a:1\ndestination: b:1\n", "--config=proxy.yaml"); err == nil {
		t.Error("a key given twice in the file: accepted")
	}
	if _, err := parse(t, "- a\n", "--config=proxy.yaml"); err == nil {
		t.Error("a file that is no map: accepted")
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	var out strings.Builder
	_, err := Parse([]string{"--help"}, file(""), &out)
	if !errors.Is(err, ErrHelp) {
		t.Fatal(err)
	}
	for _, o := range options() {
		if !strings.Contains(out.String(), "--"+o.name+" ") {
			t.Errorf("help does not name --%s", o.name)
		}
	}
}
