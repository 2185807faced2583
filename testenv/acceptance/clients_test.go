package acceptance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/testenv"
)

// clientRecords is how many records a client writes and reads.
const clientRecords = 500

// TestOrdinaryClients: what other clients write, read and administer by way of the proxy is what they do without, and none
// of their connections goes around it. A mirror topic lies beside.
func TestOrdinaryClients(t *testing.T) {
	m := startMirrored(t)
	defer m.Drop()
	for _, client := range []struct {
		name        string
		run         func(*testing.T, *side) string
		connections int // that it needs at least
	}{
		{"kcat", kcatReport, 5},
		{"kafka-python", kafkaPythonReport, 5},
		{"franz-go", franzReport, 5},
	} {
		t.Run(client.name, func(t *testing.T) {
			direct, proxied := newSides(t, m.proxy)
			direct.t, proxied.t = t, t
			want := client.run(t, direct)
			watch := watchSockets(t, m.proxy)
			got := client.run(t, proxied)
			watch.Finish(client.connections)
			proxied.noBroker(client.name, got)
			if want, got := direct.normal(want), proxied.normal(got); got != want {
				t.Error(firstDifference(want, got))
			}
		})
	}
}

// firstDifference is the first line that differs, from a little before the place where it does.
func firstDifference(want, got string) string {
	wantLines, gotLines := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(wantLines), len(gotLines)) {
		w, g := wantLines[i], gotLines[i]
		if w == g {
			continue
		}
		at := 0
		for at < min(len(w), len(g)) && w[at] == g[at] {
			at++
		}
		at = max(0, at-60)
		return fmt.Sprintf("line %d by way of the proxy: ...%.300s\nwithout: ...%.300s", i+1, g[at:], w[at:])
	}
	return fmt.Sprintf("%d lines by way of the proxy, %d without", len(gotLines), len(wantLines))
}

// kcatReport lists, writes, reads alone and in a group, and asks for offsets.
func kcatReport(t *testing.T, s *side) string {
	var report strings.Builder
	s.create(3)
	file := filepath.Join(t.TempDir(), "records")
	var records strings.Builder
	for i := range clientRecords {
		fmt.Fprintf(&records, "key-%d:value %d\n", i%29, i)
	}
	if err := os.WriteFile(file, []byte(records.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.RunKcat(t, "-P", "-b", s.bootstrap, "-t", s.topic, "-K:", "-X", "enable.idempotence=true", "-z", "lz4", "-l", file)
	format := "%p %o %k=%s\n"
	fmt.Fprintln(&report, sortedLines(testenv.RunKcat(t, "-C", "-b", s.bootstrap, "-t", s.topic, "-o", "beginning", "-e", "-q", "-f", format)))
	fmt.Fprintln(&report, sortedLines(testenv.RunKcat(t, "-G", s.group, "-b", s.bootstrap, "-X", "auto.offset.reset=earliest", "-c", fmt.Sprint(clientRecords), "-q", "-f", format, s.topic)))
	fmt.Fprintln(&report, testenv.RunKcat(t, "-Q", "-b", s.bootstrap, "-t", s.topic+":0:-1", "-t", s.topic+":1:-2"))
	var list struct {
		Brokers []struct {
			ID   int
			Name string
		}
		Topics []struct {
			Topic      string
			Partitions []struct {
				Partition, Leader int
				Replicas          []struct{ ID int }
			}
		}
	}
	if err := json.Unmarshal([]byte(testenv.RunKcat(t, "-L", "-J", "-b", s.bootstrap)), &list); err != nil {
		t.Fatalf("kcat -L: %v", err)
	}
	for _, broker := range list.Brokers {
		fmt.Fprintln(&report, broker.ID, broker.Name)
	}
	var lines []string
	for _, topic := range list.Topics {
		if topic.Topic == s.topic || strings.HasPrefix(topic.Topic, "mirrored-") {
			lines = append(lines, fmt.Sprintf("%+v", topic))
		}
	}
	slices.Sort(lines)
	fmt.Fprintln(&report, strings.Join(lines, "\n"))
	return report.String()
}

// TestOrdinaryClientsSeeNoBroker: at every version of the answers that exist to name brokers, the proxy is named.
func TestOrdinaryClientsSeeNoBroker(t *testing.T) {
	m := startMirrored(t)
	defer m.Drop()
	brokers := destination.Kafka(t).NodeIDs()
	for _, ask := range []struct {
		key     kmsg.Key
		highest int16
	}{{kmsg.Metadata, 13}, {kmsg.FindCoordinator, 6}, {kmsg.DescribeCluster, 2}} {
		for version := int16(0); version <= ask.highest; version++ {
			client := newClient(t, m.Bootstrap(), kgo.MaxVersions(versionsWith(ask.key.Int16(), version)))
			for _, broker := range brokers {
				var named map[int32]string
				testenv.Eventually(t, callTimeout, "brokers to be named", func() error {
					answer, err := client.Broker(int(broker)).Request(within(t), addressRequest(ask.key, version, m.topic))
					if err != nil {
						return err
					}
					if answer.GetVersion() != version {
						t.Fatalf("%s: asked in v%d, answered in v%d", ask.key.Name(), version, answer.GetVersion())
					}
					named = addressesIn(answer)
					if address, none := named[-1]; none { // the topic of coordinators may have to be created first
						return fmt.Errorf("%s v%d names broker -1 at %s", ask.key.Name(), version, address)
					}
					return nil
				})
				if len(named) == 0 {
					t.Errorf("%s v%d names no broker", ask.key.Name(), version)
				}
				for id, address := range named {
					host, port := m.brokerAddress(id)
					if want := fmt.Sprintf("%s:%d", host, port); address != want {
						t.Errorf("%s v%d names broker %d at %s, want %s", ask.key.Name(), version, id, address, want)
					}
				}
			}
			client.Close()
		}
	}
}

func addressRequest(key kmsg.Key, version int16, topic string) kmsg.Request {
	switch key {
	case kmsg.FindCoordinator:
		request := kmsg.NewPtrFindCoordinatorRequest()
		request.CoordinatorKey = "group"
		if version >= 4 {
			request.CoordinatorKeys = []string{"group", "another"}
		}
		return request
	case kmsg.DescribeCluster:
		request := kmsg.NewPtrDescribeClusterRequest()
		request.EndpointType = 1
		return request
	}
	request := kmsg.NewPtrMetadataRequest()
	aim := kmsg.NewMetadataRequestTopic()
	aim.Topic = &topic
	request.Topics = append(request.Topics, aim)
	return request
}

// addressesIn are the brokers that an answer names, by id.
func addressesIn(answer kmsg.Response) map[int32]string {
	named := map[int32]string{}
	switch answer := answer.(type) {
	case *kmsg.MetadataResponse:
		for _, b := range answer.Brokers {
			named[b.NodeID] = fmt.Sprintf("%s:%d", b.Host, b.Port)
		}
	case *kmsg.FindCoordinatorResponse:
		if answer.Version < 4 {
			named[answer.NodeID] = fmt.Sprintf("%s:%d", answer.Host, answer.Port)
		}
		for _, c := range answer.Coordinators {
			named[c.NodeID] = fmt.Sprintf("%s:%d", c.Host, c.Port)
		}
	case *kmsg.DescribeClusterResponse:
		for _, b := range answer.Brokers {
			named[b.NodeID] = fmt.Sprintf("%s:%d", b.Host, b.Port)
		}
	}
	return named
}

// create makes this side's topic with a leader on each broker.
func (s *side) create(partitions int) {
	s.t.Helper()
	var replicas [][]int32
	for i := range partitions {
		replicas = append(replicas, []int32{int32(i%3) + 1, int32((i+1)%3) + 1, int32((i+2)%3) + 1})
	}
	createOrdinaryAt(s.t, []string{s.bootstrap}, s.topic, replicas...)
}

func kafkaPythonReport(t *testing.T, s *side) string {
	s.create(3)
	return testenv.RunPython(t, kafkaPythonScript, s.bootstrap, s.topic, s.group, fmt.Sprint(clientRecords))
}

const kafkaPythonScript = `
import sys
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata
from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
bootstrap, topic, group, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])

producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=group, compression_type="gzip")
producer.init_transactions()
producer.begin_transaction()
for i in range(count):
    producer.send(topic, key=b"key-%d" % (i % 13), value=b"value %d" % i, headers=[("n", b"%d" % i)])
producer.commit_transaction()
producer.begin_transaction()
producer.send(topic, key=b"key", value=b"to be aborted").get(timeout=60)
producer.abort_transaction()
producer.close()

consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
                         isolation_level="read_committed", enable_auto_commit=False)
seen = []
while len(seen) < count:
    for records in consumer.poll(timeout_ms=1000).values():
        seen += [(r.partition, r.offset, r.key, r.value, r.headers) for r in records]
print(sorted(seen))
partitions = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic))]
# Behind the last record seen: how far the consumer's own position has come over markers is a matter of timing.
consumer.commit({p: OffsetAndMetadata(max(r[1] for r in seen if r[0] == p.partition) + 1, "", -1) for p in partitions})
# Markers come to the log after the transaction has ended for its producer: one for each partition, then one of the abort.
while sum(consumer.end_offsets(partitions).values()) < count + len(partitions) + 2:
    pass
print([consumer.committed(p) for p in partitions])
print(sorted(consumer.beginning_offsets(partitions).items()))
print(sorted(consumer.end_offsets(partitions).items()))
consumer.close()

admin = KafkaAdminClient(bootstrap_servers=bootstrap)
admin.create_topics([NewTopic(topic + "-more", num_partitions=2, replication_factor=3)])
names = []
while len(names) < 2:  # each broker learns of a new topic by itself
    names = sorted(t for t in admin.list_topics() if topic in t)
print(names)
cluster = admin.describe_cluster()
for broker in sorted(cluster["brokers"], key=lambda b: b.get("broker_id", b.get("node_id"))):
    print(broker.get("broker_id", broker.get("node_id")), "%s:%d" % (broker["host"], broker["port"]))
print([p for p in sorted(str(g) for g in admin.list_group_offsets(group).items())] if hasattr(admin, "list_group_offsets") else sorted(admin.list_consumer_group_offsets(group).items()))
admin.delete_topics([topic + "-more"])
admin.close()
`

// franzReport writes idempotently and in transactions, reads in a group, and administers.
func franzReport(t *testing.T, s *side) string {
	var report strings.Builder
	s.create(3)
	ctx, cancel := context.WithTimeout(t.Context(), mirrorTimeout)
	defer cancel()
	bootstrap := []string{s.bootstrap}

	plain := newClient(t, bootstrap, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	defer plain.Close()
	produceAll(t, plain, s.topic, "plain")
	transactional := newClient(t, bootstrap, kgo.TransactionalID(s.group))
	defer transactional.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := transactional.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produceAll(t, transactional, s.topic, fmt.Sprintf("committed %t", bool(end)))
		if err := transactional.EndTransaction(ctx, end); err != nil {
			t.Fatalf("end a transaction: %v", err)
		}
	}
	group := newClient(t, bootstrap, kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(s.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	defer group.Close()
	var lines []string
	for len(lines) < 2*clientRecords {
		fetches := group.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read in a group: %v", err)
		}
		fetches.EachRecord(func(r *kgo.Record) { lines = append(lines, fmt.Sprintf("%d %d %s", r.Partition, r.Offset, r.Value)) })
	}
	if err := group.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatalf("commit: %v", err)
	}
	slices.Sort(lines)
	fmt.Fprintln(&report, strings.Join(lines, "\n"))

	admin := kadm.NewClient(newClient(t, bootstrap))
	defer admin.Close()
	note := func(what string, value any, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		fmt.Fprintf(&report, "%s: %+v\n", what, value)
	}
	// Each broker learns of a change in its own time.
	eventually := func(what string, seen func() (bool, error)) {
		testenv.Eventually(t, callTimeout, what, func() error {
			if yes, err := seen(); err != nil || !yes {
				return errors.Join(errors.New("not yet"), err)
			}
			return nil
		})
	}
	brokers, err := admin.ListBrokers(ctx)
	for _, broker := range brokers {
		note("broker", fmt.Sprintf("%d %s:%d", broker.NodeID, broker.Host, broker.Port), err)
	}
	described, err := admin.DescribeGroups(ctx, s.group)
	coordinator := described[s.group].Coordinator // which one it is hangs on the group's name
	note("coordinator", coordinator.Host != "" && slices.ContainsFunc(brokers, func(b kadm.BrokerDetail) bool {
		return b.NodeID == coordinator.NodeID && b.Host == coordinator.Host && b.Port == coordinator.Port
	}), err)
	offsets, err := admin.FetchOffsets(ctx, s.group)
	for _, o := range offsets.Sorted() {
		note("committed", fmt.Sprint(o.Partition, o.At), err)
	}
	grown, err := admin.CreatePartitions(ctx, 2, s.topic)
	note("grown", grown[s.topic].Err, err)
	value := "7200000"
	altered, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: &value}}, s.topic)
	note("altered", altered[0].Err, err)
	var configs kadm.ResourceConfigs
	eventually("the altered config to be described", func() (bool, error) {
		configs, err = admin.DescribeTopicConfigs(ctx, s.topic)
		return err == nil && slices.ContainsFunc(configs[0].Configs, func(c kadm.Config) bool { return c.Key == "retention.ms" && c.MaybeValue() == value }), err
	})
	for _, config := range configs[0].Configs {
		note(config.Key, config.MaybeValue(), err)
	}
	// Markers come to the log after the transaction has ended for its producer.
	eventually("the markers of both transactions", func() (bool, error) {
		ends, err := admin.ListCommittedOffsets(ctx, s.topic)
		sum := int64(0)
		ends.Each(func(o kadm.ListedOffset) { sum += o.Offset })
		return sum == 3*clientRecords+2*3, err
	})
	deleted, err := admin.DeleteRecords(ctx, kadm.Offsets{s.topic: {0: {Topic: s.topic, Partition: 0, At: 5}}})
	note("low watermark", deleted[s.topic][0].LowWatermark, err)
	for _, list := range []func(context.Context, ...string) (kadm.ListedOffsets, error){admin.ListStartOffsets, admin.ListEndOffsets, admin.ListCommittedOffsets} {
		var listed kadm.ListedOffsets
		eventually("the new partitions to be listed", func() (bool, error) {
			listed, err = list(ctx, s.topic)
			return len(listed[s.topic]) == 5 && listed.Error() == nil, err
		})
		for _, partition := range slices.Sorted(maps.Keys(listed[s.topic])) {
			note("offset", listed[s.topic][partition].Offset, err)
		}
	}
	group.Close()
	_, err = admin.DeleteGroup(ctx, s.group)
	note("group deleted", nil, err)
	_, err = admin.DeleteTopic(ctx, s.topic)
	note("topic deleted", nil, err)
	return report.String()
}

// produceAll writes clientRecords records over the partitions and waits for each.
func produceAll(t *testing.T, client *kgo.Client, topic, value string) {
	t.Helper()
	var records []*kgo.Record
	for i := range clientRecords {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % 3), Value: fmt.Appendf(nil, "%s %d", value, i)})
	}
	if err := client.ProduceSync(within(t), records...).FirstErr(); err != nil {
		t.Fatalf("produce to %s: %v", topic, err)
	}
}
