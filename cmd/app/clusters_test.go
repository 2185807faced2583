package app

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/cmd/config"
	"kafka-mirror-proxy/state"
)

func testClusters(t *testing.T, cfg config.Config, env map[string]string) *clusters {
	t.Helper()
	s, err := newSecrets(&cfg, world(nil, env))
	if err != nil {
		t.Fatal(err)
	}
	destination, err := kgo.NewClient(kgo.SeedBrokers("127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	c := newClusters(destination, s, time.Second, zerolog.Nop())
	t.Cleanup(c.close)
	return c
}

func TestSourceClients(t *testing.T) {
	c := testClusters(t, config.Config{}, nil)
	mirror := func(revision int64, configs map[string]string) *state.Mirror {
		all := map[string]string{"bootstrap.servers": "127.0.0.1:1"}
		maps.Copy(all, configs)
		return &state.Mirror{Name: "m", Revision: revision, Configs: all}
	}
	ask := func(m *state.Mirror) *kgo.Client {
		t.Helper()
		client, err := c.Source(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	first := ask(mirror(1, nil))
	if ask(mirror(1, nil)) != first || ask(mirror(2, nil)) != first {
		t.Error("equal configs: another client")
	}
	second := ask(mirror(3, map[string]string{"client.id": "other"}))
	if second == first {
		t.Error("other configs: the same client")
	}
	// A request that is under way since before the alter must not take the connection away from everybody else.
	if ask(mirror(1, nil)) != second {
		t.Error("an older revision replaced the client of a newer one")
	}
}

// What a reference names is read when a connection is made, not before.
func TestReferencesWaitForTheConnection(t *testing.T) {
	env := map[string]string{}
	c := testClusters(t, config.Config{AllowEnv: []string{"JAAS"}}, env)
	configs := map[string]string{
		"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
		"sasl.jaas.config": "${env:JAAS}", "send.buffer.bytes": "1",
	}
	if err := c.CheckConfigs(configs); err != nil {
		t.Errorf("at create: %v", err)
	}
	if _, err := c.Source(t.Context(), &state.Mirror{Name: "m", Configs: configs}); err == nil || !strings.Contains(err.Error(), "${env:JAAS}") {
		t.Errorf("at connect: %v", err)
	}
	env["JAAS"] = `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`
	if _, err := c.Source(t.Context(), &state.Mirror{Name: "m", Configs: configs}); err != nil {
		t.Errorf("once it is there: %v", err)
	}
	if got := c.ignored(configs); len(got) != 1 || got[0] != "send.buffer.bytes" {
		t.Errorf("ignored: %v", got)
	}
	for key, value := range map[string]string{"bootstrap.servers": "nonsense", "request.timeout.ms": "soon", "security.protocol": "NONSENSE"} {
		bad := maps.Clone(configs)
		delete(bad, "sasl.jaas.config")
		bad[key] = value
		if err := c.CheckConfigs(bad); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s=%s: %v", key, value, err)
		}
	}
}
