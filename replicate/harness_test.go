package replicate

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

const patience = 60 * time.Second

// rig is a source, a destination, a store and a replicator between them.
type rig struct {
	t                   *testing.T
	source, destination *kgo.Client
	clusters            *rigClusters
	store               *ownedStore
	live                *state.Live
	settings            Settings
	ahead               atomic.Int64 // of the replicator's clock
	stop                func()       // of the running replicator
	logs                logLines     // what replicators have written, from WARN on
	replicator          *Replicator
}

type rigClusters struct {
	source, destination []string
	client              *kgo.Client
	sourceClient        *kgo.Client
	replaced            atomic.Pointer[kgo.Client] // sourceClient while the replicator runs; nil: as it was
	dial                func(ctx context.Context, addr string) (net.Conn, error)
}

func (c *rigClusters) Destination() *kgo.Client { return c.client }
func (c *rigClusters) DialDestination(ctx context.Context, addr string) (net.Conn, error) {
	return c.dial(ctx, addr)
}
func (c *rigClusters) Source(context.Context, *state.Mirror) (*kgo.Client, error) {
	if replaced := c.replaced.Load(); replaced != nil {
		return replaced, nil
	}
	return c.sourceClient, nil
}

// ownedStore is a Memory whose ownership can be lost and won.
type ownedStore struct {
	*state.Memory
	lost       atomic.Bool
	generation atomic.Int64
	late       atomic.Int64 // progress that came in the name of an earlier generation
}

func (s *ownedStore) Lease() bool       { return !s.lost.Load() }
func (s *ownedStore) Generation() int64 { return s.generation.Load() }
func (s *ownedStore) Do(ctx context.Context, commands ...state.Command) error {
	if s.lost.Load() {
		return &state.Error{Code: state.CodeNotOwner, Message: "not the owner"}
	}
	for _, command := range commands {
		if set, ok := command.(state.SetProgress); ok && set.Progress.ReservedBy != s.Generation() {
			s.late.Add(1)
		}
	}
	return s.Memory.Do(ctx, commands...)
}

func client(t *testing.T, seeds []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.DisableClientMetrics(), kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryTimeout(5 * time.Second)}, opts...)
	c, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newRig(t *testing.T, source, destination []string) *rig {
	settings, _, err := connect.Parse(map[string]string{"bootstrap.servers": destination[0]}, func(v string) (string, error) { return v, nil })
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		t: t, source: client(t, source, kgo.RecordPartitioner(kgo.ManualPartitioner())), destination: client(t, destination), live: state.NewLive(),
		store:    &ownedStore{Memory: state.NewMemory()},
		settings: Settings{Backoff: 50 * time.Millisecond, BackoffMax: time.Second, DeletedPause: 20 * time.Millisecond, MetadataRefresh: 100 * time.Millisecond, FenceWait: 10 * time.Millisecond},
	}
	r.store.generation.Store(1)
	r.clusters = &rigClusters{source: source, destination: destination, client: client(t, destination), sourceClient: client(t, source), dial: settings.Dial}
	r.do(state.CreateMirror{Name: "m", Configs: map[string]string{"bootstrap.servers": source[0], "mirror.produce.ambiguous.wait.ms": "20"}})
	return r
}

func fakeRig(t *testing.T) (*rig, *testenv.Fake, *testenv.Fake) {
	t.Helper()
	var fakes []*testenv.Fake
	for range 2 {
		f, err := testenv.StartFake(testenv.FakeConfig{Brokers: 2})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		fakes = append(fakes, f)
	}
	return newRig(t, fakes[0].ListenAddrs(), fakes[1].ListenAddrs()), fakes[0], fakes[1]
}

func realRig(t *testing.T) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("real Kafka")
	}
	return newRig(t, realSource.Kafka(t).Bootstrap(), realDestination.Kafka(t).Bootstrap())
}

func (r *rig) do(commands ...state.Command) {
	r.t.Helper()
	if err := r.store.Do(context.Background(), commands...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) start() {
	r.t.Helper()
	level := zerolog.WarnLevel
	if os.Getenv("KMP_TEST_LOG") != "" {
		level = zerolog.DebugLevel
	}
	replicator, err := New(Config{Store: r.store, Live: r.live, Clusters: r.clusters, Settings: r.settings,
		Clock: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) },
		Log:   zerolog.New(io.MultiWriter(zerolog.NewTestWriter(r.t), &r.logs)).Level(level)})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- replicator.Run(ctx) }()
	r.replicator = replicator
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	}
	r.t.Cleanup(r.stop)
}

// watchReservations fails the test when a batch of the mirror arrives at the destination that
// begins at or beyond the reservation that is stored for its partition.
func (r *rig) watchReservations(destination *testenv.Fake) {
	destination.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		destination.KeepControl()
		for _, t := range request.(*kmsg.ProduceRequest).Topics {
			topic, ok := r.store.View().TopicByID(t.TopicID)
			if !ok {
				if topic, ok = r.store.View().Topic(t.Topic); !ok {
					continue
				}
			}
			for _, p := range t.Partitions {
				target := produce.Target{Mirror: topic.Mirror, Topic: topic.Name, TopicID: topic.ID, Partition: p.Partition}
				b := batch.Batch(p.Records)
				if len(b) < batch.HeaderLen || b.ProducerID() != target.ProducerID() {
					continue // a user's
				}
				stored := r.store.View().Progress(state.PartitionID{Topic: topic.ID, Partition: p.Partition})
				if offset := int64(b.BaseSequence()); offset >= stored.ReservedOffset {
					r.t.Errorf("partition %d: a batch begins at offset %d, and stored is %+v", p.Partition, offset, stored)
				}
			}
		}
		return nil, nil, false
	})
}

// createTopic makes a topic on both sides, with a replica on every broker.
func (r *rig) createTopic(name string, partitions int32, configs map[string]*string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, c := range []*kgo.Client{r.source, r.destination} {
		admin := kadm.NewClient(c)
		brokers, err := admin.ListBrokers(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := admin.CreateTopic(ctx, partitions, int16(len(brokers)), configs, name); err != nil {
			r.t.Fatal(err)
		}
	}
}

func topicID(t *testing.T, c *kgo.Client, name string) state.TopicID {
	t.Helper()
	var id state.TopicID
	testenv.Eventually(t, patience, "topic "+name, func() error {
		topics, err := kadm.NewClient(c).ListTopics(context.Background(), name)
		if err != nil {
			return err
		}
		id = state.TopicID(topics[name].ID)
		return topics[name].Err
	})
	return id
}

// add puts a topic into the mirror.
func (r *rig) add(name string, partitions int32) state.TopicID {
	r.t.Helper()
	id := topicID(r.t, r.destination, name)
	r.do(state.AddTopic{Mirror: "m", Name: name, ID: id, SourceID: topicID(r.t, r.source, name), Partitions: partitions, Engine: "produce"}, state.ConfirmTopic{ID: id})
	return id
}

func (r *rig) produce(topic string, partition int32, from, count int, value []byte) {
	r.t.Helper()
	var records []*kgo.Record
	for i := range count {
		record := &kgo.Record{Topic: topic, Partition: partition, Key: fmt.Appendf(nil, "key-%d", from+i), Value: value,
			Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Appendf(nil, "%d", i)}}}
		if i%7 == 3 {
			record.Key = nil
		}
		records = append(records, record)
	}
	if err := r.source.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) partition(id state.TopicID, partition int32) state.Partition {
	return r.store.View().Partition(state.PartitionID{Topic: id, Partition: partition})
}

func (r *rig) awaitStatus(id state.TopicID, partitions int32, want state.Status) {
	r.t.Helper()
	testenv.Eventually(r.t, patience, want.String(), func() error {
		for i := range partitions {
			if p := r.partition(id, i); p.Status != want {
				return fmt.Errorf("partition %d is %v (%s); mirror: %s", i, p.Status, p.Error, r.live.MirrorError("m"))
			}
		}
		return nil
	})
}

func ends(t *testing.T, c *kgo.Client, topic string) (starts, ends kadm.ListedOffsets) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admin := kadm.NewClient(c)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		ends, err = admin.ListEndOffsets(ctx, topic)
	}
	if err != nil {
		t.Fatal(err)
	}
	return starts, ends
}

// awaitCaughtUp waits until both logs of every partition end at the same offset.
func (r *rig) awaitCaughtUp(topic string, partitions int32) {
	r.t.Helper()
	testenv.Eventually(r.t, patience, "the destination to catch up", func() error {
		_, source := ends(r.t, r.source, topic)
		_, destination := ends(r.t, r.destination, topic)
		for i := range partitions {
			s, _ := source.Lookup(topic, i)
			d, _ := destination.Lookup(topic, i)
			if s.Offset != d.Offset || s.Err != nil || d.Err != nil {
				t, _ := r.store.View().Topic(topic)
				p := r.partition(t.ID, i)
				return fmt.Errorf("partition %d: source ends at %d, destination at %d (%v %v); %v %s", i, s.Offset, d.Offset, s.Err, d.Err, p.Status, p.Error)
			}
		}
		return nil
	})
}

// awaitPassed waits until the destination goes beyond where the source ends now; somebody has to go on writing there.
func (r *rig) awaitPassed(topic string, partitions int32) {
	r.t.Helper()
	_, source := ends(r.t, r.source, topic)
	testenv.Eventually(r.t, patience, "the destination to go on", func() error {
		_, destination := ends(r.t, r.destination, topic)
		for i := range partitions {
			s, _ := source.Lookup(topic, i)
			if d, _ := destination.Lookup(topic, i); d.Err != nil || d.Offset <= s.Offset {
				return fmt.Errorf("partition %d ends at %d (%v), the source ended at %d", i, d.Offset, d.Err, s.Offset)
			}
		}
		return nil
	})
}

// readAll reads a partition from its start to its end.
func readAll(t *testing.T, seeds []string, topic string, partition int32, end int64) []*kgo.Record {
	t.Helper()
	c := client(t, seeds, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}))
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var records []*kgo.Record
	for len(records) == 0 || records[len(records)-1].Offset < end-1 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%s-%d: %v after %d records", topic, partition, err, len(records))
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// compare fails unless every partition holds the same records at the same offsets.
func (r *rig) compare(topic string, partitions int32) {
	r.t.Helper()
	sourceStarts, sourceEnds := ends(r.t, r.source, topic)
	destinationStarts, destinationEnds := ends(r.t, r.destination, topic)
	for i := range partitions {
		ss, _ := sourceStarts.Lookup(topic, i)
		ds, _ := destinationStarts.Lookup(topic, i)
		se, _ := sourceEnds.Lookup(topic, i)
		de, _ := destinationEnds.Lookup(topic, i)
		if ss.Offset != ds.Offset || se.Offset != de.Offset {
			r.t.Errorf("partition %d: source [%d, %d), destination [%d, %d)", i, ss.Offset, se.Offset, ds.Offset, de.Offset)
			continue
		}
		if ss.Offset == se.Offset {
			continue
		}
		want := readAll(r.t, r.clusters.source, topic, i, se.Offset)
		got := readAll(r.t, r.clusters.destination, topic, i, de.Offset)
		if len(want) != len(got) {
			r.t.Errorf("partition %d: %d records on the source, %d on the destination", i, len(want), len(got))
			continue
		}
		for n := range want {
			if diff := difference(want[n], got[n]); diff != "" {
				r.t.Errorf("partition %d, record %d: %s", i, n, diff)
				break
			}
		}
	}
}

func difference(want, got *kgo.Record) string {
	switch {
	case want.Offset != got.Offset:
		return fmt.Sprintf("offset %d, want %d", got.Offset, want.Offset)
	case !want.Timestamp.Equal(got.Timestamp):
		return fmt.Sprintf("offset %d: timestamp %v, want %v", got.Offset, got.Timestamp, want.Timestamp)
	case !bytes.Equal(want.Key, got.Key) || (want.Key == nil) != (got.Key == nil):
		return fmt.Sprintf("offset %d: key %q, want %q", got.Offset, got.Key, want.Key)
	case !bytes.Equal(want.Value, got.Value) || (want.Value == nil) != (got.Value == nil):
		return fmt.Sprintf("offset %d: value differs", got.Offset)
	case fmt.Sprint(want.Headers) != fmt.Sprint(got.Headers):
		return fmt.Sprintf("offset %d: headers %v, want %v", got.Offset, got.Headers, want.Headers)
	}
	return ""
}
