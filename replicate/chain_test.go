package replicate

import (
	"context"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// idempotentBatch is a batch of three records as an idempotent producer sends it; values begin with name.
func idempotentBatch(producerID int64, sequence int32, name string) []byte {
	const count = 3
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: count - 1, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: producerID, FirstSequence: sequence, NumRecords: count}
	for i := range int32(count) {
		record := kmsg.Record{OffsetDelta: i, Key: []byte("key"), Value: fmt.Appendf(nil, "%s %d", name, sequence+i)}
		record.Length = int32(len(record.AppendTo(nil)) - 1) // without the byte of the length itself
		b.Records = record.AppendTo(b.Records)
	}
	const lengthEnds, crcEnds = 12, 21
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - lengthEnds)
	b.CRC = int32(crc32.Checksum(raw[crcEnds:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// send sends a batch to partition 0 of a topic and wants it to be appended.
func send(t *testing.T, c *kgo.Client, topic string, raw []byte) {
	t.Helper()
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	aim, partition := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	aim.Topic, aim.TopicID = topic, topicID(t, c, topic)
	partition.Records = raw
	aim.Partitions = append(aim.Partitions, partition)
	request.Topics = append(request.Topics, aim)
	found, err := connect.NewCluster(c, time.Now).Topic(context.Background(), topic, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	leader, err := found.Leader(0)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := request.RequestWith(context.Background(), c.Broker(int(leader.ID)))
	if err == nil {
		err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatalf("write to %s: %v", topic, err)
	}
}

// Two producers of a chain of mirrors have the same id and count from the same sequence: one wrote to the first cluster, the
// other writes to the second after its failover. Neither broker takes one's batches for the other's, and the third cluster
// holds the records of both, once.
func TestSameProducerIDAfterFailoverReal(t *testing.T) {
	const topic, producerID = "sameproducer", 5
	if testing.Short() {
		t.Skip("real Kafka")
	}
	first, err := testenv.StartFake(testenv.FakeConfig{Brokers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Close() })
	second, third := realDestination.Kafka(t).Bootstrap(), realSource.Kafka(t).Bootstrap()
	before, after := newRig(t, first.ListenAddrs(), second), newRig(t, second, third)
	before.createTopic(topic, 1, nil)
	if _, err := kadm.NewClient(after.destination).CreateTopic(context.Background(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	for sequence := range int32(4) {
		send(t, before.source, topic, idempotentBatch(producerID, 3*sequence, "first"))
	}
	before.start()
	beforeID := before.add(topic, 1)
	before.awaitCaughtUp(topic, 1)
	after.start()
	afterID := after.add(topic, 1)
	after.awaitCaughtUp(topic, 1)
	before.do(state.RemoveTopic{Mirror: "m", Name: topic})
	before.awaitStatus(beforeID, 1, state.Stopped)
	for sequence := range int32(4) {
		send(t, before.destination, topic, idempotentBatch(producerID, 3*sequence, "second"))
	}
	after.awaitCaughtUp(topic, 1)
	after.awaitStatus(afterID, 1, state.Mirroring)
	after.compare(topic, 1)
	var want []string
	for _, name := range []string{"first", "second"} {
		for i := range 12 {
			want = append(want, fmt.Sprintf("%s %d", name, i))
		}
	}
	var got []string
	for _, r := range readAll(t, third, topic, 0, 24) {
		got = append(got, string(r.Value))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the third cluster holds %q", got)
	}
	if p := after.partition(afterID, 0); p.Attempt != 0 {
		t.Errorf("it did not go smoothly: %+v", p)
	}
}

// A cluster is known by its id, whatever it is called.
func TestSourceIsTheDestinationByAnotherNameReal(t *testing.T) {
	const topic = "samecluster"
	if testing.Short() {
		t.Skip("real Kafka")
	}
	bootstrap := realSource.Kafka(t).Bootstrap()
	_, port := splitAddr(t, bootstrap[0])
	r := newRig(t, []string{fmt.Sprintf("localhost:%d", port)}, bootstrap)
	if _, err := kadm.NewClient(r.destination).CreateTopic(context.Background(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "is the destination itself", realSource.Kafka(t).ClusterID())
}

// A mirror back, of the copy onto what it is a copy of, writes nothing: the source's topic is its users'.
func TestMirrorBackReal(t *testing.T) {
	const topic = "back"
	there := realRig(t)
	back := newRig(t, there.clusters.destination, there.clusters.source)
	there.createTopic(topic, 1, nil)
	there.produce(topic, 0, 0, 50, []byte("v"))
	there.start()
	id := there.add(topic, 1)
	there.awaitStatus(id, 1, state.Mirroring)
	there.awaitCaughtUp(topic, 1)
	back.start()
	backID := back.add(topic, 1)
	back.awaitStatus(backID, 1, state.Failed)
	wantError(t, back.partition(backID, 0), "offsets 0 to 49 of back-0 was not written by the mirror")
	there.produce(topic, 0, 50, 50, []byte("v"))
	there.awaitCaughtUp(topic, 1)
	there.compare(topic, 1)
	if _, logEnds := ends(t, there.source, topic); logEnds[topic][0].Offset != 100 {
		t.Errorf("the source ends at %d, 100 records were written", logEnds[topic][0].Offset)
	}
}
