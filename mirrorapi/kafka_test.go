package mirrorapi

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/testenv"
)

// What kfake cannot show of a destination: which configs a stock cluster takes, what it says of those it does not, and that
// logs, transactions and rights look as they are expected to.
func TestOnKafka(t *testing.T) {
	kafka := testenv.RequireKafka(t, testenv.KafkaConfig{Brokers: 1})
	e := newEnv(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	e.clusters.destination = client
	e.mirror("m1") // also: the cluster says that it has no authorizer
	sourceTopic := func(name string, partitions int32, configs map[string]string) {
		t.Helper()
		if err := e.source.CreateTopic(name, partitions, configs); err != nil {
			t.Fatal(err)
		}
	}
	destinationTopic := func(name string, partitions int32, configs map[string]string) {
		t.Helper()
		if err := createTopicOnce(t.Context(), client, name, partitions, 1, configs, false); err != nil {
			t.Fatal(err)
		}
		if _, err := e.h.awaitTopic(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	wantOverrides := func(topic string, want map[string]string) {
		t.Helper()
		got := overrides(t, client, topic)
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s of %s is %q, want %q", key, topic, got[key], value)
			}
		}
	}

	t.Run("new topic", func(t *testing.T) {
		sourceTopic("fresh", 3, map[string]string{
			"cleanup.policy": "compact", "segment.bytes": "2000000",
			"confluent.tier.enable": "true", // a key that a stock cluster does not know
		})
		topic := e.mustAdd("m1", "fresh")[0]
		if topic.Partitions != 3 || topic.ID.IsZero() {
			t.Errorf("the store has %+v", topic)
		}
		want := map[string]string{"cleanup.policy": "compact,delete", "segment.bytes": "2000000", "max.message.bytes": "1114124"}
		for key, value := range owned {
			want[key] = value
		}
		wantOverrides("fresh", want)
		if _, ok := overrides(t, client, "fresh")["confluent.tier.enable"]; ok {
			t.Error("the unknown config was set")
		}
	})
	t.Run("topic that exists", func(t *testing.T) {
		sourceTopic("existing", 1, nil)
		destinationTopic("existing", 1, map[string]string{"message.timestamp.type": "LogAppendTime", "retention.ms": "5000"})
		e.mustAdd("m1", "existing")
		wantOverrides("existing", owned)
	})
	t.Run("replication factor", func(t *testing.T) {
		sourceTopic("wide", 1, nil)
		resp := e.topics(mirrormsg.AddTopicsToMirror, "m1", func(r *mirrormsg.TopicsRequest) { r.ReplicationFactor = 3 }, "wide")
		wantRefusal(t, &resp.Status, mirrormsg.InvalidReplicationFactor, "create topic wide on the destination")
	})
	t.Run("records", func(t *testing.T) {
		sourceTopic("used", 2, nil)
		destinationTopic("used", 2, nil)
		record := &kgo.Record{Topic: "used", Value: []byte("x")}
		if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, &e.add("m1", "used").Status, mirrormsg.InvalidRequest, "topic used already holds 1 records (partition", "offsets 0 to 0)")
	})
	t.Run("refused adds hand back", func(t *testing.T) {
		sourceTopic("late", 1, map[string]string{"retention.ms": "1000"})
		e.gate.hook = func() error {
			return client.ProduceSync(t.Context(), &kgo.Record{Topic: "late", Value: []byte("x")}).FirstErr()
		}
		wantRefusal(t, &e.add("m1", "late").Status, mirrormsg.InvalidRequest, "topic late already holds 1 records")
		testenv.Eventually(t, 30*time.Second, "the topic's own configs", func() error { // a broker learns of them a little later
			if got := overrides(t, client, "late"); !maps.Equal(got, map[string]string{"retention.ms": "1000"}) {
				return fmt.Errorf("the topic has %v", got)
			}
			return nil
		})
		e.gate.hook = nil
	})
	t.Run("announced transaction", func(t *testing.T) {
		sourceTopic("announced", 1, nil)
		destinationTopic("announced", 1, nil)
		announceTransaction(t, client, "payments", "announced")
		wantRefusal(t, &e.add("m1", "announced").Status, mirrormsg.InvalidRequest, `takes part in transaction "payments"`)
	})
	t.Run("CreateTopics v8", func(t *testing.T) {
		topics := e.createTopicsV8(createRequest("made"), mirrorOf(7))
		if topics[0].ErrorCode != 0 {
			t.Fatalf("%d %s", topics[0].ErrorCode, text(topics[0].ErrorMessage))
		}
		sourceTopic("made", 2, nil)
		wantRefusal(t, &e.add("m1", "made").Status, mirrormsg.InconsistentTopicID, "recreated")
	})
	t.Run("describe", func(t *testing.T) {
		node := kafka.NodeIDs()[0]
		if all, own := rows(e.describeMirrors(bootstrapNode, false)), rows(e.describeMirrors(node, false)); len(all) != 4 || len(own) != 4 {
			t.Errorf("rows: %v and %v", all, own)
		}
	})
}

// announceTransaction begins a transaction and adds the topic's partition 0 to it, without writing.
func announceTransaction(t *testing.T, client *kgo.Client, id, topic string) {
	t.Helper()
	producer, err := kgo.NewClient(append(client.Opts(), kgo.TransactionalID(id))...)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	producerID, epoch, err := producer.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = id, producerID, epoch
	added := kmsg.NewAddPartitionsToTxnRequestTopic()
	added.Topic, added.Partitions = topic, []int32{0}
	req.Topics = append(req.Topics, added)
	resp, err := req.RequestWith(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("add the partition to the transaction: code %d", code)
	}
}
