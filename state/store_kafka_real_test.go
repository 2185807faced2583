package state

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// TestKafkaOnRealCluster runs the whole suite on three brokers: fake ones know neither replication nor what a real
// transaction coordinator does with those it fences.
func TestKafkaOnRealCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a cluster")
	}
	kafka := testenv.RequireKafka(t, testenv.KafkaConfig{Brokers: 3})
	c := &cluster{bootstrap: kafka.Bootstrap()}
	first := true
	fresh := func(t *testing.T) *cluster {
		if !first {
			removeStateTopic(t, c.bootstrap)
			c.used = true
		}
		first = false
		return c
	}
	testStore(t, func(t *testing.T) Store { return start(t, fresh(t), "a", nil).awaitOwner(t) })
	t.Run("Ownership", func(t *testing.T) { testOwnership(t, fresh) })
	t.Run("TopicAsDesigned", func(t *testing.T) {
		start(t, fresh(t), "a", func(cfg *KafkaConfig) { cfg.ReplicationFactor = 7 }).awaitOwner(t)
		admin, done := adminClient(t, c.bootstrap)
		defer done()
		topics, err := admin.ListTopics(t.Context(), stateTopic)
		if err != nil {
			t.Fatal(err)
		}
		if n := topics[stateTopic].Partitions.NumReplicas(); n != 3 {
			t.Errorf("replication factor %d with 3 brokers", n)
		}
		configs, err := admin.DescribeTopicConfigs(t.Context(), stateTopic)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, config := range configs[0].Configs {
			got[config.Key] = config.MaybeValue()
		}
		for key, want := range map[string]string{"cleanup.policy": "compact", "compression.type": "producer", "retention.ms": "-1"} {
			if got[key] != want {
				t.Errorf("%s is %q, want %q", key, got[key], want)
			}
		}
	})
	t.Run("SurvivesABrokerKilled", func(t *testing.T) {
		a := start(t, fresh(t), "a", func(cfg *KafkaConfig) { cfg.TakeoverAfter = time.Hour }).awaitOwner(t)
		fill(t, a)
		if err := kafka.Kill(1); err != nil {
			t.Fatal(err)
		}
		// The broker may lead the owner's partition or be its transaction coordinator: the owner may lose its transaction,
		// but it has to come back.
		testenv.Eventually(t, 2*patience, "a change to be stored with a broker gone", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			return a.Do(ctx, CreateMirror{Name: "n"})
		})
		if err := kafka.Restart(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		b := start(t, c, "b", nil)
		b.awaitMirror(t, "n")
		b.awaitMirror(t, "empty")
	})
}

// removeStateTopic deletes the topic and returns when every broker has forgotten it.
func removeStateTopic(t *testing.T, bootstrap []string) {
	t.Helper()
	deleteStateTopic(t, bootstrap)
	for _, address := range bootstrap {
		client, err := kgo.NewClient(kgo.SeedBrokers(address))
		if err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, patience, "the topic to be gone", func() error {
			if _, _, err := describeStateTopic(t.Context(), client); !errors.Is(err, kerr.UnknownTopicOrPartition) {
				return errors.Join(errors.New("it is still known"), err)
			}
			return nil
		})
		client.Close()
	}
}
