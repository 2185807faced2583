package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// restartTimeout covers a node that must wait for its dead self to be fenced.
const restartTimeout = time.Minute

func TestOneBroker(t *testing.T) {
	began := time.Now()
	k := RequireKafka(t, KafkaConfig{Properties: map[string]string{"num.partitions": "7"}})
	t.Logf("started in %v", time.Since(began))
	ctx, cancel := context.WithTimeout(t.Context(), 2*restartTimeout)
	defer cancel()
	client := newClient(t, k)
	createTopic(t, client, "records", 1)
	produce(t, client, "records", 0, 100)

	t.Run("the properties of the caller win", func(t *testing.T) {
		topics, err := kadm.NewClient(client).CreateTopics(ctx, -1, -1, nil, "defaults")
		if err != nil || topics["defaults"].NumPartitions != 7 {
			t.Fatalf("created %+v, %v; want 7 partitions", topics, err)
		}
	})

	t.Run("a tool runs and its failure is told", func(t *testing.T) {
		const tool = "org.apache.kafka.tools.TopicCommand"
		stdout, stderr, exit := k.Tool(ctx, tool, "--bootstrap-server", k.BrokerAddr(1), "--list")
		if exit != 0 || !strings.Contains(stdout, "records\n") {
			t.Fatalf("exit %d, stdout %q, stderr %q", exit, stdout, stderr)
		}
		if _, stderr, exit = k.Tool(ctx, tool, "--no-such-option"); exit == 0 {
			t.Fatalf("a bad option exited with 0, stderr %q", stderr)
		}
	})

	t.Run("a suspended broker is silent until resumed", func(t *testing.T) {
		if err := k.Suspend(1); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		if err := newClient(t, k).Ping(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ping of a suspended broker: %v, want a deadline", err)
		}
		if err := k.Resume(1); err != nil {
			t.Fatal(err)
		}
		if err := client.Ping(ctx); err != nil {
			t.Errorf("ping of a resumed broker: %v", err)
		}
	})

	t.Run("kill and restart keep the data", func(t *testing.T) {
		pid := k.PID(1)
		if err := k.Kill(1); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("pid %d after the kill: %v", pid, err)
		}
		began := time.Now()
		if err := k.Restart(ctx, 1); err != nil {
			t.Fatal(err)
		}
		t.Logf("restarted in %v", time.Since(began))
		consume(t, k, "records", 100)
	})

	t.Run("stop is orderly", func(t *testing.T) {
		if err := k.Stop(ctx, 1); err != nil {
			t.Fatal(err)
		}
		// 143 is a JVM that ran its shutdown hooks after SIGTERM; a killed one has no status.
		if err := k.broker(1).process.waitErr; err == nil || err.Error() != "exit status 143" {
			t.Errorf("the broker ended with %v, want exit status 143", err)
		}
	})
}

func TestThreeBrokers(t *testing.T) {
	began := time.Now()
	k := RequireKafka(t, KafkaConfig{Brokers: 3})
	t.Logf("started in %v", time.Since(began))
	ctx, cancel := context.WithTimeout(t.Context(), 2*restartTimeout)
	defer cancel()
	client := newClient(t, k)
	createTopic(t, client, "replicated", 3)
	produce(t, client, "replicated", 0, 50)

	metadata, err := kadm.NewClient(client).Metadata(ctx, "replicated")
	if err != nil {
		t.Fatal(err)
	}
	if got := len(metadata.Brokers); got != 3 {
		t.Fatalf("metadata lists %d brokers, want 3", got)
	}
	leader := metadata.Topics["replicated"].Partitions[0].Leader
	if err := k.Kill(leader); err != nil {
		t.Fatal(err)
	}
	produce(t, client, "replicated", 50, 50)
	began = time.Now()
	if err := k.Restart(ctx, leader); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted in %v", time.Since(began))
	consume(t, k, "replicated", 100)

	for _, id := range k.NodeIDs() {
		if err := k.Kill(id); err != nil {
			t.Fatal(err)
		}
	}
	began = time.Now()
	if err := k.RestartAll(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("restarted all in %v", time.Since(began))
	consume(t, k, "replicated", 100)
}

func TestFailedStartKeepsTheLog(t *testing.T) {
	if err := KafkaAvailable(); err != nil {
		skipLoudly(t, "REAL-KAFKA", err)
	}
	dir := t.TempDir()
	_, err := StartKafka(t.Context(), KafkaConfig{Dir: dir, Properties: map[string]string{"log.segment.bytes": "1048576", "auto.leader.rebalance.enable": "perhaps"}})
	if err == nil || !strings.Contains(err.Error(), "perhaps") {
		t.Errorf("start with a bad property: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the caller's directory: %v", err)
	}
}

func newClient(t *testing.T, k *Kafka) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...), kgo.MetadataMinAge(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func createTopic(t *testing.T, client *kgo.Client, topic string, replicas int16) {
	t.Helper()
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, replicas, nil, topic); err != nil {
		t.Fatal(err)
	}
}

// produce writes the records "first" to "first+count-1".
func produce(t *testing.T, client *kgo.Client, topic string, first, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), restartTimeout)
	defer cancel()
	var records []*kgo.Record
	for i := first; i < first+count; i++ {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i)})
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// consume reads the topic from its start and wants the records "0" to "count-1" at those offsets.
func consume(t *testing.T, k *Kafka, topic string, count int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), restartTimeout)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.Bootstrap()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for next := 0; next < count; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %d records: %v", next, err)
		}
		for _, record := range fetches.Records() {
			if record.Offset != int64(next) || string(record.Value) != fmt.Sprint(next) {
				t.Fatalf("offset %d holds %q, want %d", record.Offset, record.Value, next)
			}
			next++
		}
	}
}
