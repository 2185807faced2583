package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// TestMirrorUnderFire is the main job: a topic of twelve partitions is mirrored while its producers go on, while the
// proxy, a destination broker and the source die and come back, and while hostile producers aim at the mirror. In the end
// both logs are the same, record by record.
func TestMirrorUnderFire(t *testing.T) {
	random := newRand(t)
	records, perSecond := 60_000, 600
	disasters := []func(*fire){(*fire).killProxy, (*fire).killBroker}
	if long() {
		records, perSecond = 1_000_000, 3_000
		disasters = append(disasters, (*fire).killProxy, (*fire).restartSource, (*fire).killProxy)
		random.Shuffle(len(disasters), func(i, j int) { disasters[i], disasters[j] = disasters[j], disasters[i] })
	}
	mirrorUnderFire(t, random.IntN, 12, records, perSecond, disasters...)
}

// mirrorUnderFire mirrors a topic of so many partitions and records from start to failover.
func mirrorUnderFire(t *testing.T, pick func(n int) int, partitions, records, perSecond int, disasters ...func(*fire)) {
	t.Helper()
	f := &fire{t: t, mirror: uniqueName("fire"), topic: uniqueName("orders"), partitions: partitions, pick: pick}
	createTopic(t, f.topic, partitions)
	f.writer = newWriter(t, f.topic, partitions)
	f.writer.Write(records / 2)
	f.writer.Start(perSecond)

	f.proxy = startProxy(t)
	f.proxy.CreateMirror(f.mirror)
	f.proxy.MustMirrors(fmt.Sprintf("Added 1 topic(s) to mirror %s: [%s]", f.mirror, f.topic),
		"--add", "--mirror", f.mirror, "--topic", f.topic, "--replication-factor", "3")
	f.wantListed()
	f.hostiles = startHostiles(t, f.proxy, f.topic, partitions)
	f.hostiles.AwaitMore(3)
	f.wantReplicas(3)
	f.pauseAndResume()
	for _, disaster := range disasters {
		disaster(f)
	}
	written := f.writer.Finish(records)
	f.proxy.WaitNoLag(f.mirror, f.topic, partitions)
	wantMarkersRefused(t, f.proxy, f.topic)
	f.hostiles.AwaitMore(3)
	f.hostiles.Finish()
	if closed := f.proxy.Metric(`kafka_mirror_proxy_closes_total{cause="refused_acks0"}`); closed == 0 {
		t.Error("no connection of the acks=0 producer was closed: it has not got through")
	}
	t.Logf("%d records were written to the source", written)
	verifyEqual(t, source.Kafka(t).Bootstrap(), f.proxy.Bootstrap(), written, f.topic)
	log := scan(t, destination, f.topic)
	wantNoHostiles(t, f.topic, log)
	sourceEnds := ends(t, source, f.topic)
	wantSame(t, f.topic, scan(t, source, f.topic), log, sourceEnds)
	if got := ends(t, destination, f.topic); !slices.Equal(got, sourceEnds) {
		t.Fatalf("the destination ends at %v, the source at %v", got, sourceEnds)
	}
	failOver(t, f.proxy, f.mirror, f.topic, partitions)
	f.proxy.DropMirror(f.mirror)
}

// fire is what TestMirrorUnderFire and its disasters share.
type fire struct {
	t             *testing.T
	mirror, topic string
	partitions    int
	pick          func(n int) int
	writer        *writer
	proxy         *proxy
	hostiles      *hostiles
}

// awaitProgress waits until the destination has what the source has now, and the hostile producers were at it again.
func (f *fire) awaitProgress() {
	f.t.Helper()
	waitBeyond(f.t, f.proxy, f.mirror, f.topic, ends(f.t, source, f.topic))
	f.hostiles.AwaitMore(3)
}

// waitBeyond waits until every partition is MIRRORING and the destination's has reached its offset.
func waitBeyond(t *testing.T, p *proxy, mirror, topic string, offsets []int64) {
	t.Helper()
	p.WaitRows("progress", mirror, topic, len(offsets), func(row partitionRow) bool {
		return row.State == "MIRRORING" && row.DestinationOffset >= offsets[row.Partition]
	})
}

// wantListed wants the mirror in the list, with its one topic.
func (f *fire) wantListed() {
	f.t.Helper()
	table := f.proxy.MustMirrors("", "--list")
	want := []string{f.mirror, "1", source.Kafka(f.t).ClusterID(), strings.Join(source.Kafka(f.t).Bootstrap(), ",")}
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); slices.Equal(fields, want) {
			return
		}
	}
	f.t.Fatalf("want the row %q in the list:\n%s", want, table)
}

func (f *fire) wantReplicas(count int) {
	f.t.Helper()
	client := newClient(f.t, f.proxy.Bootstrap())
	defer client.Close()
	topics, err := kadm.NewClient(client).ListTopics(within(f.t), f.topic)
	if err != nil || len(topics[f.topic].Partitions) != f.partitions {
		f.t.Fatalf("describe %s: %v: %+v", f.topic, err, topics)
	}
	for _, p := range topics[f.topic].Partitions {
		if len(p.Replicas) != count {
			f.t.Fatalf("%s-%d has %d replicas, want %d", f.topic, p.Partition, len(p.Replicas), count)
		}
	}
}

func (f *fire) pauseAndResume() {
	f.t.Helper()
	f.proxy.MustMirrors(fmt.Sprintf("Paused mirroring for 1 topic(s): [%s]", f.topic), "--pause", "--mirror", f.mirror, "--topic", f.topic)
	f.proxy.WaitState(f.mirror, f.topic, f.partitions, "PAUSED")
	f.hostiles.AwaitMore(3)
	f.proxy.MustMirrors(fmt.Sprintf("Resumed mirroring for 1 topic(s): [%s]", f.topic), "--resume", "--mirror", f.mirror, "--topic", f.topic)
	f.awaitProgress()
}

func (f *fire) killProxy() {
	f.t.Helper()
	f.t.Log("kill -9 of the proxy")
	f.proxy.Kill9()
	f.proxy.Restart()
	f.wantListed()
	f.awaitProgress()
}

func (f *fire) killBroker() {
	f.t.Helper()
	k := destination.Kafka(f.t)
	id := k.NodeIDs()[f.pick(len(k.NodeIDs()))]
	f.t.Logf("kill -9 of destination broker %d", id)
	if err := k.Kill(id); err != nil {
		f.t.Fatal(err)
	}
	client := newClient(f.t, k.Bootstrap())
	defer client.Close()
	testenv.Eventually(f.t, mirrorTimeout, "other brokers to lead the partitions", func() error {
		for partition := range f.partitions {
			if leader, err := leaderOf(f.t, client, f.topic, int32(partition)); err != nil || leader == id || leader < 0 {
				return fmt.Errorf("partition %d is led by %d: %v", partition, leader, err)
			}
		}
		return nil
	})
	f.awaitProgress()
	if err := k.Restart(within(f.t), id); err != nil {
		f.t.Fatal(err)
	}
	f.t.Logf("destination broker %d is back", id)
	f.awaitProgress()
}

func (f *fire) restartSource() {
	f.t.Helper()
	f.t.Log("restart of the source's broker")
	k := source.Kafka(f.t)
	if err := k.Stop(within(f.t), 1); err != nil {
		f.t.Fatal(err)
	}
	f.hostiles.AwaitMore(3)
	if err := k.Restart(within(f.t), 1); err != nil {
		f.t.Fatal(err)
	}
	f.awaitProgress()
}

// leaderOf asks a cluster who leads a partition.
func leaderOf(t *testing.T, client *kgo.Client, topic string, partition int32) (int32, error) {
	t.Helper()
	topics, err := kadm.NewClient(client).ListTopics(within(t), topic)
	if err != nil {
		return -1, err
	}
	p, ok := topics[topic].Partitions[partition]
	if !ok {
		return -1, fmt.Errorf("%s-%d: there is no such partition", topic, partition)
	}
	return p.Leader, p.Err
}
