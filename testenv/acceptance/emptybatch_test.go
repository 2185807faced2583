package acceptance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/testenv"
)

// TestCleanedFillerIsInvisible has clients read a compacted topic after its failover, when the destination's cleaner has
// taken the filler away and left the mirror's last batch as an empty one: it does that with the last batch of every
// producer, and some clients stall on it.
func TestCleanedFillerIsInvisible(t *testing.T) {
	who := readers
	if !long() {
		who = slices.DeleteFunc(slices.Clone(readers), func(r reader) bool { return r.name != "kafkajs" && r.name != "kafka-python" })
	}
	s := newSparse(t, "compacted", map[string]*string{"cleanup.policy": kadm.StringPtr("compact")})
	s.Plain(15) // keys come back after ten
	s.Aborted(1_000)
	s.Plain(3)
	s.Aborted(300)
	p, watch := watchFetches(t)
	mirror := uniqueName("cleaned")
	p.CreateMirror(mirror)
	p.MustMirrors("", "--add", "--mirror", mirror, "--topic", s.topic)
	p.WaitNoLag(mirror, s.topic, 1)
	remove(t, p, mirror, s.topic, 1)
	kept := latestOfKeys(committedRecords(t, source.Kafka(t).Bootstrap(), s.topic, s.end))

	users := cleanUntilEmptyBatch(t, p, s.topic)
	end := users[len(users)-1].offset + 1
	log := fillerLog{topic: s.topic, end: end, starts: []int64{500, s.end - 100}, records: append(kept, users...)}
	reading := fillerReading{watch: watch, logs: map[string]fillerLog{"cleaned": log}}
	reading.all(t, who)
	p.DropMirror(mirror)
}

// latestOfKeys is what compaction leaves of the records of sparse, whose key follows from their offset.
func latestOfKeys(records []readRecord) []readRecord {
	latest := map[int64]int64{}
	for _, r := range records {
		latest[r.offset%10] = r.offset
	}
	return slices.DeleteFunc(records, func(r readRecord) bool { return latest[r.offset%10] != r.offset })
}

// cleanUntilEmptyBatch has users write to a topic of the destination until its cleaner has left an empty batch, and returns
// what they wrote. The cleaner takes a segment only when another has begun, and that begins with a write.
func cleanUntilEmptyBatch(t *testing.T, p *proxy, topic string) []readRecord {
	t.Helper()
	direct := newClient(t, destination.Kafka(t).Bootstrap())
	defer direct.Close()
	admin := kadm.NewClient(direct)
	must := func(what string, responses any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v: %+v", what, err, responses)
		}
	}
	backoff := func(op kadm.IncrementalOp, ms string) {
		t.Helper()
		r, err := admin.AlterBrokerConfigs(within(t), []kadm.AlterConfig{{Op: op, Name: "log.cleaner.backoff.ms", Value: &ms}})
		must("set the cleaner's pause", r, err)
	}
	backoff(kadm.SetConfig, "300")
	defer backoff(kadm.DeleteConfig, "")
	var configs []kadm.AlterConfig
	for name, value := range map[string]string{"segment.ms": "1000", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"} {
		configs = append(configs, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	altered, err := admin.AlterTopicConfigs(within(t), configs, topic)
	must("have "+topic+" cleaned at once", altered, err)

	client := newClient(t, p.Bootstrap())
	defer client.Close()
	var users []readRecord
	testenv.Eventually(t, mirrorTimeout, "the cleaner to leave an empty batch in "+topic, func() error {
		value := fmt.Sprint("user-", len(users))
		record := &kgo.Record{Topic: topic, Key: []byte(value), Value: []byte(value)}
		if err := client.ProduceSync(within(t), record).FirstErr(); err != nil {
			return err
		}
		users = append(users, readRecord{offset: record.Offset, value: value})
		var shapes []string
		empty := false
		for _, b := range storedBatches(t, direct, topic) {
			empty = empty || b.Count() == 0
			shapes = append(shapes, fmt.Sprintf("%d+%d", b.BaseOffset(), b.Count()))
		}
		if !empty {
			return fmt.Errorf("after %d writes there are batches (offset+records) %s", len(users), strings.Join(shapes, " "))
		}
		return nil
	})
	return users
}

// storedBatches are the first batches of partition 0 as the destination's brokers keep them, as many as fit into 1 MiB.
func storedBatches(t *testing.T, direct *kgo.Client, topic string) []batch.Batch {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	topics, err := kadm.NewClient(direct).ListTopics(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = 500, 1, 1<<20
	aim := kmsg.NewFetchRequestTopic()
	aim.Topic, aim.TopicID = topic, topics[topic].ID
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.PartitionMaxBytes = 1 << 20
	aim.Partitions = append(aim.Partitions, partition)
	request.Topics = append(request.Topics, aim)
	answer, err := direct.Broker(int(topics[topic].Partitions[0].Leader)).Request(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	var all []batch.Batch
	for raw := answer.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches; ; {
		b, rest, err := batch.Next(raw)
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			return all
		}
		all, raw = append(all, b), rest
	}
}
