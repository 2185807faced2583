package replicate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// fragile is a topic on two brokers of a cluster of three that may lose its tail: of one partition, led by the first, with
// unclean leader election.
type fragile struct {
	t             *testing.T
	kafka         *testenv.Kafka
	client        *kgo.Client
	topic         string
	first, second int32
}

func createFragile(t *testing.T, kafka *testenv.Kafka, topic string) *fragile {
	t.Helper()
	ids := kafka.NodeIDs()
	f := &fragile{t: t, kafka: kafka, client: client(t, kafka.Bootstrap()), topic: topic, first: ids[0], second: ids[1]}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 15000
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, -1, -1
	wanted.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{f.first, f.second}}}
	for key, value := range map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"} {
		wanted.Configs = append(wanted.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
	}
	request.Topics = append(request.Topics, wanted)
	answer, err := request.RequestWith(context.Background(), f.client)
	if err == nil {
		err = kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kafka.RestartAll(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// await waits until the topic is led by a broker, with so many replicas in sync.
func (f *fragile) await(leader int32, inSync int) {
	f.t.Helper()
	testenv.Eventually(f.t, patience, fmt.Sprintf("broker %d to lead, %d in sync", leader, inSync), func() error {
		topics, err := kadm.NewClient(f.client).ListTopics(context.Background(), f.topic)
		if err != nil {
			return err
		}
		p := topics[f.topic].Partitions[0]
		if p.Leader != leader || len(p.ISR) != inSync {
			return fmt.Errorf("leader %d, in sync %v (%v)", p.Leader, p.ISR, p.Err)
		}
		return nil
	})
}

// isolate makes the first broker the only one that gets what is written.
func (f *fragile) isolate() {
	f.t.Helper()
	f.await(f.first, 2)
	if err := f.kafka.Kill(f.second); err != nil {
		f.t.Fatal(err)
	}
	f.await(f.first, 1)
}

// lose makes the other broker the leader, which does not have it.
func (f *fragile) lose() {
	f.t.Helper()
	if err := f.kafka.Kill(f.first); err != nil {
		f.t.Fatal(err)
	}
	if err := f.kafka.Restart(context.Background(), f.second); err != nil {
		f.t.Fatal(err)
	}
	f.await(f.second, 1)
}

// A destination that lost the end of its log to an unclean leader election is given it again, from its end on.
func TestDestinationLosesItsTailReal(t *testing.T) {
	const topic = "losttail"
	r := realRig(t)
	r.settings.FailAfter = 1000 // FAILED is not what is tested here
	f := createFragile(t, realDestination.Kafka(t), topic)
	if _, err := kadm.NewClient(r.source).CreateTopic(context.Background(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	topicID(t, r.source, topic)
	r.produce(topic, 0, 0, 10, []byte("v"))
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	f.isolate()
	r.produce(topic, 0, 10, 5, []byte("v"))
	r.awaitCaughtUp(topic, 1)
	r.do(state.PauseTopic{Mirror: "m", Name: topic}) // so that it is seen what was lost
	r.awaitStatus(id, 1, state.Paused)
	f.lose()
	if _, logEnds := ends(t, r.destination, topic); logEnds[topic][0].Offset != 10 {
		t.Fatalf("nothing was lost: %v", logEnds)
	}
	if got := r.store.View().Progress(state.PartitionID{Topic: id}).CopiedOffset; got != 15 {
		t.Errorf("copied offset %d, want 15", got)
	}
	r.produce(topic, 0, 15, 5, []byte("v"))
	r.do(state.ResumeTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.compare(topic, 1)
}

// A source that lost the end of its log to an unclean leader election, and went on beyond where the copy ends, is found out
// by its leader epochs, although its fetches do not carry them (as those of brokers before 2.7) and the records that can be
// compared are the same. Nothing is written.
func TestSourceRewritesItsHistoryReal(t *testing.T) {
	if testing.Short() {
		t.Skip("real Kafka")
	}
	const topic = "rewritten"
	kafka := realDestination.Kafka(t) // the one with three brokers
	r := newRig(t, kafka.Bootstrap(), realSource.Kafka(t).Bootstrap())
	r.settings.FailAfter = 1000 // but for a fault that no try can help
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(int16(kmsg.Fetch), 11)
	r.clusters.sourceClient = client(t, kafka.Bootstrap(), kgo.MaxVersions(versions))
	f := createFragile(t, kafka, topic)
	if _, err := kadm.NewClient(r.destination).CreateTopic(context.Background(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	topicID(t, r.source, topic)
	same := func(n int) {
		t.Helper()
		source := client(t, kafka.Bootstrap()) // with nothing of before on its way
		for range n {
			if err := source.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: []byte("v"), Timestamp: time.UnixMilli(1_700_000_000_000)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	same(10)
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	f.isolate()
	same(5)
	r.awaitCaughtUp(topic, 1)
	r.do(state.PauseTopic{Mirror: "m", Name: topic}) // until the source is longer again
	r.awaitStatus(id, 1, state.Paused)
	f.lose()
	same(20)
	r.do(state.ResumeTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), topic+"-0 has diverged", "rewritten its history", "ends at offset 10", "recreate the topic")
	if _, logEnds := ends(t, r.destination, topic); logEnds[topic][0].Offset != 15 {
		t.Errorf("the destination was written to: %v", logEnds)
	}
}

// A destination that was made compacted cannot take a record without key: it is named, and mirroring goes on by itself when
// the topic can take it.
func TestRecordWithoutKeyReal(t *testing.T) {
	const topic = "keyless"
	r := realRig(t)
	r.createTopic(topic, 1, nil)
	r.produce(topic, 0, 0, 3, []byte("v"))
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	admin := kadm.NewClient(r.destination)
	setPolicy := func(policy string) {
		t.Helper()
		if _, err := admin.AlterTopicConfigs(context.Background(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy}}, topic); err != nil {
			t.Fatal(err)
		}
		awaitPolicy(t, r.destination, topic, policy)
	}
	setPolicy("compact,delete")
	r.produce(topic, 0, 3, 7, []byte("v")) // the fourth has no key
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), topic+"-0: the destination topic is compacted", "offset 6 has no key", "cleanup.policy")
	setPolicy("delete")
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.compare(topic, 1)
}

// awaitPolicy waits until every broker shows a topic's cleanup.policy.
func awaitPolicy(t *testing.T, c *kgo.Client, topic, policy string) {
	t.Helper()
	testenv.Eventually(t, patience, "cleanup.policy="+policy, func() error {
		brokers, err := kadm.NewClient(c).ListBrokers(context.Background())
		if err != nil {
			return err
		}
		for _, broker := range brokers {
			found, err := describePolicy(c.Broker(int(broker.NodeID)), topic)
			if err != nil || found != policy {
				return fmt.Errorf("broker %d: %s, %v", broker.NodeID, found, err)
			}
		}
		return nil
	})
}

func describePolicy(through kmsg.Requestor, topic string) (string, error) {
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{"cleanup.policy"}
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(context.Background(), through)
	if err != nil {
		return "", err
	}
	for _, config := range answer.Resources[0].Configs {
		if config.Value != nil {
			return *config.Value, nil
		}
	}
	return "", kerr.ErrorForCode(answer.Resources[0].ErrorCode)
}

// What a compacted source deletes at its start is deleted here too: delete is in the mirror topic's cleanup.policy.
func TestCompactedDestinationFollowsTheLogStartReal(t *testing.T) {
	const topic = "compactedstart"
	r := realRig(t)
	policy := "compact,delete"
	r.createTopic(topic, 1, map[string]*string{"cleanup.policy": &policy})
	for i := range 10 { // not those without a key
		r.produce(topic, 0, 3*i, 3, []byte("v"))
	}
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	deleteRecords(t, r.source, topic, 0, 12)
	r.awaitStart(topic, 12)
	r.awaitStatus(id, 1, state.Mirroring)
	r.compare(topic, 1)
}
