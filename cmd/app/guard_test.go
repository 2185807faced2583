package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// With mirror.guard=acl a producer that goes around the proxy cannot write to a mirrored topic, and can once the topic is
// STOPPED; the proxy, a super user of the brokers, writes all the while. An ACL that the operator has made stays.
func TestHostileProducerReal(t *testing.T) {
	kafka := testenv.RequireKafka(t, testenv.KafkaConfig{Users: []string{"proxy", "operator"}})
	source := testenv.NewFake(t, testenv.FakeConfig{Topics: map[string]int32{"orders": 1, "held": 1}})
	newClient := func(seeds []string, opts ...kgo.Opt) *kgo.Client {
		t.Helper()
		c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(seeds...))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	writer, hostile := newClient(source.Bootstrap()), newClient(kafka.Bootstrap())
	// As docs/runbook.md recommends it; no ACL is about the cluster, so ANONYMOUS may do this.
	if out, errs, exit := kafka.Tool(t.Context(), "org.apache.kafka.tools.AclCommand", "--bootstrap-server", kafka.Bootstrap()[0],
		"--add", "--deny-principal", "User:*", "--operation", "Write", "--topic", "held"); exit != 0 {
		t.Fatal(out, errs)
	}
	put := func(c *kgo.Client, topic string) error {
		return c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr()
	}
	for _, topic := range []string{"orders", "held"} {
		for range 10 {
			if err := put(writer, topic); err != nil {
				t.Fatal(err)
			}
		}
	}
	login := func(user string) string {
		return fmt.Sprintf(`org.apache.kafka.common.security.plain.PlainLoginModule required username="%s" password="%s";`, user, user)
	}
	file := func(name string, lines ...string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	client := file("client.properties", "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.jaas.config="+login("operator"))
	mirror := file("source.properties", "bootstrap.servers="+source.Bootstrap()[0], "mirror.guard=acl")

	p := start(t, kafka.SASLBootstrap(), "--trust-clients=true", "--destination.security.protocol=SASL_PLAINTEXT",
		"--destination.sasl.mechanism=PLAIN", "--destination.sasl.jaas.config="+login("proxy"))
	p.ready()
	mirrors := func(args ...string) string {
		t.Helper()
		out, err := p.mirrors(append([]string{"--command-config", client}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	describe := func(want string) {
		t.Helper()
		testenv.Eventually(t, patience, want, func() error {
			if out := mirrors("--describe"); strings.Count(out, want) != 2 {
				return errors.New(out)
			}
			return nil
		})
	}
	mirrors("--create", "--mirror", "dr", "--mirror-config", mirror)
	mirrors("--add", "--mirror", "dr", "--topic", "orders")
	mirrors("--add", "--mirror", "dr", "--topic", "held")
	describe(" 10 ")
	if err := put(hostile, "orders"); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("around the proxy: %v", err)
	}
	if err := put(writer, "orders"); err != nil {
		t.Fatal(err)
	}
	if err := put(writer, "held"); err != nil {
		t.Fatal(err)
	}
	describe(" 11 ")
	mirrors("--remove", "--mirror", "dr", "--topic", "orders")
	mirrors("--remove", "--mirror", "dr", "--topic", "held")
	describe("STOPPED")
	// What this client remembers of before is of no use: it asks anew.
	later := newClient(kafka.Bootstrap())
	if err := put(later, "orders"); err != nil {
		t.Errorf("after STOPPED: %v", err)
	}
	if err := put(later, "held"); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Errorf("the operator's own ACL is gone: %v", err)
	}
}
