package acceptance

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/testenv"
)

// callTimeout bounds one exchange with a cluster.
const callTimeout = time.Minute

// uniqueName is a name that no other test of the shared clusters has.
func uniqueName(prefix string) string { return fmt.Sprintf("%s-%d", prefix, time.Now().UnixNano()) }

func newClient(t *testing.T, bootstrap []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap...), kgo.MetadataMinAge(100 * time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	t.Cleanup(cancel)
	return ctx
}

// createTopic creates a topic on the source and waits until every partition has a leader.
func createTopic(t *testing.T, topic string, partitions int) {
	t.Helper()
	client := newClient(t, source.Kafka(t).Bootstrap())
	if _, err := kadm.NewClient(client).CreateTopic(within(t), int32(partitions), 1, nil, topic); err != nil {
		t.Fatalf("create %s: %v", topic, err)
	}
	offsets(t, source, topic)
}

// bounds are where a partition's log starts and ends (exclusive).
type bounds struct{ start, end int64 }

// offsets asks the brokers of a cluster themselves where each partition of the topic starts and ends.
func offsets(t *testing.T, cluster *testenv.SharedKafka, topic string) []bounds {
	t.Helper()
	admin := kadm.NewClient(newClient(t, cluster.Kafka(t).Bootstrap()))
	defer admin.Close()
	ctx := within(t)
	var all []bounds
	testenv.Eventually(t, callTimeout, "the offsets of "+topic, func() error {
		starts, err := admin.ListStartOffsets(ctx, topic)
		if err = errors.Join(err, starts.Error()); err != nil {
			return err
		}
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err = errors.Join(err, ends.Error()); err != nil {
			return err
		}
		all = make([]bounds, len(ends[topic]))
		if len(all) == 0 {
			return errors.New("there are no partitions")
		}
		for partition, end := range ends[topic] {
			all[partition] = bounds{start: starts[topic][partition].Offset, end: end.Offset}
		}
		return nil
	})
	return all
}

// ends are the log ends of offsets.
func ends(t *testing.T, cluster *testenv.SharedKafka, topic string) []int64 {
	t.Helper()
	var all []int64
	for _, b := range offsets(t, cluster, topic) {
		all = append(all, b.end)
	}
	return all
}

// entry is one record of a log, control records included. sum stands for timestamp, key, value and headers.
type entry struct {
	offset  int64
	control bool
	key     string
	sum     uint64
}

var sumSeed = maphash.MakeSeed()

func newEntry(r *kgo.Record) entry {
	var hash maphash.Hash
	hash.SetSeed(sumSeed)
	bytes := func(b []byte) { fmt.Fprintf(&hash, "%t %d %s", b == nil, len(b), b) }
	fmt.Fprint(&hash, r.Timestamp.UnixMilli())
	bytes(r.Key)
	bytes(r.Value)
	for _, header := range r.Headers {
		bytes([]byte(header.Key))
		bytes(header.Value)
	}
	return entry{offset: r.Offset, control: r.Attrs.IsControl(), key: string(r.Key), sum: hash.Sum64()}
}

// scan reads the whole log of a topic from the brokers themselves, as it is there: uncommitted, with control records. It
// wants every offset from the log's start to its end to be there, in order.
func scan(t *testing.T, cluster *testenv.SharedKafka, topic string) [][]entry {
	t.Helper()
	limits := offsets(t, cluster, topic)
	assigned, left := map[int32]kgo.Offset{}, 0
	for partition, b := range limits {
		assigned[int32(partition)] = kgo.NewOffset().At(b.start)
		left += int(b.end - b.start)
	}
	client := newClient(t, cluster.Kafka(t).Bootstrap(), kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: assigned}))
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), mirrorTimeout)
	defer cancel()
	logs := make([][]entry, len(limits))
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read %s with %d records left: %v", topic, left, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			log := &logs[r.Partition]
			if want := limits[r.Partition].start + int64(len(*log)); r.Offset != want {
				t.Fatalf("%s-%d: offset %d follows where %d must be", topic, r.Partition, r.Offset, want)
			}
			if r.Offset < limits[r.Partition].end {
				*log = append(*log, newEntry(r))
				left--
			}
		})
	}
	return logs
}

// wantSame wants the destination's log to hold the source's records, and nothing else, from its start up to each limit.
func wantSame(t *testing.T, topic string, sourceLog, destinationLog [][]entry, limits []int64) {
	t.Helper()
	for partition, limit := range limits {
		s, d := sourceLog[partition], destinationLog[partition]
		if int64(len(s)) < limit || int64(len(d)) < limit {
			t.Fatalf("%s-%d: the source has %d records, the destination %d, want at least %d", topic, partition, len(s), len(d), limit)
		}
		for i := range limit {
			if s[i] != d[i] {
				t.Fatalf("%s-%d: offset %d is %+v, on the source %+v", topic, partition, i, d[i], s[i])
			}
		}
	}
}

// wantUsers wants only users' records behind each limit, but for one control record right there.
func wantUsers(t *testing.T, topic string, log [][]entry, limits []int64) {
	t.Helper()
	for partition, limit := range limits {
		for i, e := range log[partition][limit:] {
			if e.control && i == 0 || strings.HasPrefix(e.key, userKey) {
				continue
			}
			t.Errorf("%s-%d: offset %d, behind the last mirrored offset %d, holds %+v, which no user wrote", topic, partition, e.offset, limit, e)
		}
	}
}

// userKey begins the key of every record that userWrites writes.
const userKey = "user-"

// userWrites writes so many records to each partition by way of the proxy and returns the offset of the first of each.
func userWrites(t *testing.T, p *proxy, topic string, partitions, count int) []int64 {
	t.Helper()
	client := newClient(t, p.Bootstrap())
	defer client.Close()
	first := make([]int64, partitions)
	for partition := range partitions {
		var records []*kgo.Record
		for i := range count {
			key := fmt.Appendf(nil, "%s%d", userKey, i)
			records = append(records, &kgo.Record{Topic: topic, Partition: int32(partition), Key: key, Value: []byte("written after the failover")})
		}
		if err := client.ProduceSync(within(t), records...).FirstErr(); err != nil {
			t.Fatalf("write to %s-%d after the failover: %v", topic, partition, err)
		}
		first[partition] = records[0].Offset
	}
	return first
}

// lastMirroredOffsets asks the proxy, as another cluster that mirrors from it would.
func lastMirroredOffsets(t *testing.T, p *proxy, mirror, topic string, partitions int) []int64 {
	t.Helper()
	client := newClient(t, p.Bootstrap(), kgo.MaxVersions(mirrormsg.VersionsWithMirrors()))
	defer client.Close()
	asked := mirrormsg.TopicPartitions{Name: topic}
	for partition := range partitions {
		asked.Partitions = append(asked.Partitions, int32(partition))
	}
	request := &mirrormsg.LastMirroredOffsetsRequest{MirrorName: mirror, Topics: []mirrormsg.TopicPartitions{asked}}
	response, err := mirrormsg.Do[*mirrormsg.LastMirroredOffsetsResponse](within(t), client, &mirrormsg.Seed, request)
	if err == nil {
		err = kerr.ErrorForCode(int16(response.ErrorCode))
	}
	if err != nil || len(response.Topics) != 1 || len(response.Topics[0].Partitions) != partitions {
		t.Fatalf("last mirrored offsets of %s: %v: %+v", topic, err, response)
	}
	all := make([]int64, partitions)
	for _, row := range response.Topics[0].Partitions {
		if row.ErrorCode != 0 {
			t.Fatalf("last mirrored offset of %s-%d: error code %d", topic, row.PartitionIndex, row.ErrorCode)
		}
		all[row.PartitionIndex] = row.LastMirroredOffset
	}
	return all
}
