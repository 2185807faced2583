package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// dialLog is a client's dialer that remembers where it went.
type dialLog struct {
	mu    sync.Mutex
	addrs map[string]bool
}

func (d *dialLog) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	d.addrs[addr] = true
	d.mu.Unlock()
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, addr)
}

// world is a fake cluster of three brokers with the topics orders (mirrored) and other, a proxy in
// front of it, and where its clients dialled.
type world struct {
	fake   *testenv.Fake
	server *runningServer
	dials  *dialLog
}

func newWorld(t *testing.T) *world {
	t.Helper()
	fake := testenv.NewFake(t, testenv.FakeConfig{Brokers: 3, Topics: map[string]int32{"orders": 3, "other": 6}})
	var brokers []Broker
	for id, addr := range fake.Bootstrap() {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		brokers = append(brokers, Broker{ID: int32(id), Host: host, Port: int32(number)})
	}
	direct, err := kgo.NewClient(kgo.SeedBrokers(fake.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	topics, err := kadm.NewClient(direct).ListTopics(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	store := state.NewMemory()
	err = store.Do(ctx, state.CreateMirror{Name: "dr", Configs: map[string]string{"bootstrap.servers": "source:9092"}},
		state.AddTopic{Mirror: "dr", Name: "orders", ID: state.TopicID(topics["orders"].ID), SourceID: state.TopicID{9}, Partitions: 3, Engine: "produce"})
	if err != nil {
		t.Fatal(err)
	}
	return &world{fake: fake, server: startServer(t, store.View, nil, brokers...), dials: &dialLog{addrs: map[string]bool{}}}
}

func (w *world) client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(w.server.Addr()), kgo.Dialer(w.dials.dial)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// expectOnlyProxy fails when a client dialled anything but the proxy.
func (w *world) expectOnlyProxy(t *testing.T) {
	t.Helper()
	allowed := map[string]bool{w.server.Addr(): true, w.server.node(0): true, w.server.node(1): true, w.server.node(2): true}
	w.dials.mu.Lock()
	defer w.dials.mu.Unlock()
	for addr := range w.dials.addrs {
		if !allowed[addr] {
			t.Errorf("a client dialled %s, around the proxy", addr)
		}
	}
	if len(w.dials.addrs) < 2 {
		t.Errorf("clients dialled %v only", w.dials.addrs)
	}
}

func TestProduceAndConsumeThroughTheProxy(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	producer := w.client(t, kgo.DefaultProduceTopic("other"))
	const records = 3000
	want := map[string]bool{}
	for i := range records {
		value := fmt.Sprintf("value %d", i)
		want[value] = true
		producer.Produce(ctx, &kgo.Record{Key: []byte(value), Value: []byte(value)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := producer.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	consumer := w.client(t, kgo.ConsumeTopics("other"), kgo.ConsumerGroup("readers"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for len(want) > 0 {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%v with %d records missing", err, len(want))
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !want[string(r.Value)] {
				t.Errorf("%q came twice or was never sent", r.Value)
			}
			delete(want, string(r.Value))
		})
	}
	if err := consumer.CommitUncommittedOffsets(ctx); err != nil {
		t.Error(err)
	}
	w.expectOnlyProxy(t)

	metadata, err := kadm.NewClient(producer).Metadata(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, broker := range metadata.Brokers {
		if host, port := w.server.Address(broker.NodeID); broker.Host != host || broker.Port != port {
			t.Errorf("broker %d is shown at %s:%d, want %s:%d", broker.NodeID, broker.Host, broker.Port, host, port)
		}
	}
}

// All acks and idempotence: the refusal is final at once, and ordinary topics in the same client
// are not hurt by it.
func TestProduceToMirrorTopicFailsAtOnce(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for name, opts := range map[string][]kgo.Opt{
		"idempotent": nil,
		"acks=1":     {kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck())},
		"acks=all":   {kgo.DisableIdempotentWrite()},
		"one batch":  {kgo.ProducerLinger(50 * time.Millisecond), kgo.RecordPartitioner(kgo.ManualPartitioner())},
	} {
		t.Run(name, func(t *testing.T) {
			client := w.client(t, opts...)
			refused := make(chan error, 3)
			for partition := range int32(3) {
				client.Produce(ctx, &kgo.Record{Topic: "orders", Partition: partition, Value: []byte("no")}, func(_ *kgo.Record, err error) { refused <- err })
				client.Produce(ctx, &kgo.Record{Topic: "other", Partition: partition, Value: []byte("yes")}, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Errorf("produce to an ordinary topic: %v", err)
					}
				})
			}
			for range 3 {
				err := <-refused
				var kafka *kerr.Error
				// kerr's name of 134 is Kafka 4.4's; the number is what counts.
				if !errors.As(err, &kafka) || kafka.Code != 134 {
					t.Errorf("refused with %v", err)
				}
			}
			if err := client.Flush(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	if err := barrier(w.server.gate, patience); err != nil {
		t.Error(err)
	}
	direct, err := kgo.NewClient(kgo.SeedBrokers(w.fake.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	ends, err := kadm.NewClient(direct).ListEndOffsets(ctx, "orders", "other")
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Topic == "orders" && end.Offset != 0 {
			t.Errorf("%d records reached orders-%d", end.Offset, end.Partition)
		}
	})
	w.expectOnlyProxy(t)
}

func TestAcks0ToMirrorTopicReachesNoOne(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := w.client(t, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck()), kgo.RecordRetries(1))
	for range 20 {
		_ = client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("no")}) // the client cannot know
	}
	eventually(t, "connections to be closed", func() bool { return closedBy(w.server, CauseRefusedAcks0) > 0 })
	eventually(t, "a produce to be taken", func() bool { // the first ones may go to a connection that is being closed
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "other", Value: []byte("yes")}).FirstErr(); err != nil {
			t.Error(err)
		}
		return counterValue(w.server.cfg.Metrics.requests[0]) > 0
	})
	if err := barrier(w.server.gate, patience); err != nil {
		t.Error(err)
	}
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, "orders", "other")
	if err != nil {
		t.Fatal(err)
	}
	var other int64
	ends.Each(func(end kadm.ListedOffset) {
		if end.Topic == "orders" && end.Offset != 0 {
			t.Errorf("%d records reached orders-%d", end.Offset, end.Partition)
		}
		if end.Topic == "other" {
			other += end.Offset
		}
	})
	if other == 0 { // the barrier has seen the probe's answer, so the record is in
		t.Error("no record in the ordinary topic")
	}
}

func TestTransactionOnMirrorTopicFails(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := w.client(t, kgo.TransactionalID("tx"))
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("no")}).FirstErr(); err == nil {
		t.Error("a transactional produce to a mirror topic succeeded")
	}
	_ = client.EndTransaction(ctx, kgo.TryAbort) // whatever it says: the log is what counts
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, "orders")
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset != 0 {
			t.Errorf("%s-%d has an end offset of %d", end.Topic, end.Partition, end.Offset)
		}
	})
}

// kfake panics on a key that it does not know: this also says that a mirror API never leaks upstream.
func TestMirrorApisAreOfferedAndAnsweredHere(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := w.client(t)
	request := kmsg.NewPtrApiVersionsRequest()
	request.Version, request.ClientSoftwareName, request.ClientSoftwareVersion = 3, "test", "1"
	versions, err := request.RequestWith(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	offered := map[int16][2]int16{}
	for _, key := range versions.ApiKeys {
		offered[key.ApiKey] = [2]int16{key.MinVersion, key.MaxVersion}
	}
	for key := int16(94); key <= 104; key++ {
		if offered[key] != [2]int16{} {
			t.Errorf("key %d is offered as %v", key, offered[key])
		}
		if _, ok := offered[key]; !ok {
			t.Errorf("key %d is not offered", key)
		}
	}
	if got := offered[10][1]; got != 7 {
		t.Errorf("FindCoordinator up to %d", got)
	}
	conn := dialTo(t, w.server.node(0))
	for key := int16(94); key <= 104; key++ {
		header := append([]byte{0, byte(key), 0, 0, 0, 0, 0, byte(key)}, 0, 1, 'c', 0)
		send(t, conn, rawFrame(header, []byte{0}))
		if got := receive(t, conn); string(got[9:]) != "local "+strconv.Itoa(int(key)) {
			t.Errorf("key %d: %q", key, got)
		}
	}
}
