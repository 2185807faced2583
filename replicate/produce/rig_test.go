package produce

import (
	"context"
	"fmt"
	"hash/crc32"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/testenv"
)

const patience = 30 * time.Second

// rig is an engine in front of a fake destination with one topic of two partitions.
type rig struct {
	t      *testing.T
	fake   *testenv.Fake
	client *kgo.Client
	engine *Engine
	target Target
	lease  atomic.Bool
	ahead  atomic.Int64                                     // of the engine's clock
	wrap   func(net.Conn) net.Conn                          // nil: as it is
	answer func(*kmsg.ProduceRequest) *kmsg.ProduceResponse // nil or nil result: the fake's own
	state  *ProducerState                                   // what DescribeProducers says of the target's producer
	sent   atomic.Int64                                     // produce requests that arrived
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, fake: testenv.NewFake(t, testenv.FakeConfig{Brokers: 2, Topics: map[string]int32{"t": 2}})}
	r.lease.Store(true)
	client, err := kgo.NewClient(kgo.SeedBrokers(r.fake.Bootstrap()...), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r.client = client
	topics, err := kadm.NewClient(client).ListTopics(context.Background(), "t")
	if err != nil {
		t.Fatal(err)
	}
	r.target = Target{Mirror: "m", Topic: "t", TopicID: topics["t"].ID, Partition: 1}
	cfg := Config{
		Client: client, Lease: r.lease.Load, SettleTimeout: 300 * time.Millisecond,
		Now: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) },
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", addr)
			if err == nil && r.wrap != nil {
				conn = r.wrap(conn)
			}
			return conn, err
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	r.engine, err = New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.control()
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { r.engine.Run(ctx) })
	t.Cleanup(func() { cancel(); group.Wait() })
	return r
}

func (r *rig) control() {
	r.fake.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		r.fake.KeepControl()
		r.sent.Add(1)
		if r.answer != nil {
			if answer := r.answer(request.(*kmsg.ProduceRequest)); answer != nil {
				return answer, nil, true
			}
		}
		return nil, nil, false
	})
	r.fake.ControlKey(int16(kmsg.DescribeProducers), func(request kmsg.Request) (kmsg.Response, error, bool) {
		r.fake.KeepControl()
		answer := request.ResponseKind().(*kmsg.DescribeProducersResponse)
		p := kmsg.NewDescribeProducersResponseTopicPartition()
		p.Partition = r.target.Partition
		other := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		other.ProducerID, other.LastSequence = 7, 12345
		p.ActiveProducers = append(p.ActiveProducers, other)
		if r.state != nil {
			own := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
			own.ProducerID, own.ProducerEpoch, own.LastSequence = r.target.ProducerID(), r.state.Epoch, r.state.LastSequence
			own.LastTimestamp = r.state.LastTimestampMs
			p.ActiveProducers = append(p.ActiveProducers, own)
		}
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic, t.Partitions = r.target.Topic, append(t.Partitions, p)
		answer.Topics = append(answer.Topics, t)
		return answer, nil, true
	})
}

// dense is a batch of n records, of a producer, as it stands in a log.
func dense(producerID int64, epoch int16, base int64, sequence int32, n int32, value string) []byte {
	return denseAt(1000, producerID, epoch, base, sequence, n, value)
}

func denseAt(timestampMs, producerID int64, epoch int16, base int64, sequence int32, n int32, value string) []byte {
	var records []byte
	for i := range n {
		record := kmsg.Record{OffsetDelta: i, Value: fmt.Appendf(nil, "%s-%d", value, base+int64(i))}
		record.Length = int32(len(record.AppendTo(nil)) - 1)
		records = record.AppendTo(records)
	}
	b := kmsg.RecordBatch{FirstOffset: base, PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: n - 1, FirstTimestamp: timestampMs, MaxTimestamp: timestampMs,
		ProducerID: producerID, ProducerEpoch: epoch, FirstSequence: sequence, NumRecords: n, Records: records}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	crc := crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli))
	raw[17], raw[18], raw[19], raw[20] = byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc)
	return raw
}

// source is n records as the source holds them from an offset on, in batches of ten.
func source(from, n int64, value string) []byte {
	var log []byte
	for base := from; base < from+n; base += 10 {
		log = append(log, dense(77, 3, base, 5, int32(min(10, from+n-base)), value)...)
	}
	return log
}

// put appends a batch to the destination around the engine.
func (r *rig) put(raw []byte) {
	r.t.Helper()
	raw = append([]byte(nil), raw...)
	batch.SetBaseOffset(raw, 0)
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = r.target.Partition, raw
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID, t.Partitions = r.target.Topic, r.target.TopicID, append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	topic, err := r.engine.cluster.Topic(context.Background(), r.target.Topic, time.Time{})
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := request.RequestWith(context.Background(), r.client.Broker(int(topic.Leaders[r.target.Partition].ID)))
	if err == nil {
		err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// fill puts n records of the mirror's own, equal to source(0, n, value), in batches of ten.
func (r *rig) fill(n int64, value string) {
	r.t.Helper()
	for base := int64(0); base < n; base += 10 {
		r.put(dense(r.target.ProducerID(), 0, base, batch.SequenceOf(base), int32(min(10, n-base)), value))
	}
}

// deleteAll deletes the records below an offset.
func (r *rig) deleteAll(offset int64) {
	r.t.Helper()
	var offsets kadm.Offsets
	offsets.AddOffset(r.target.Topic, r.target.Partition, offset, -1)
	if _, err := kadm.NewClient(r.client).DeleteRecords(context.Background(), offsets); err != nil {
		r.t.Fatal(err)
	}
}

// open begins a stream at offset 0 with a wide reservation.
func (r *rig) open(reserved int64) *Stream {
	r.t.Helper()
	position, err := r.engine.Position(context.Background(), r.target, time.Time{})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.engine.Open(StreamConfig{Target: r.target, StartOffset: position.EndOffset, CheckedAt: position.CheckedAt, ReservedOffset: reserved, Leader: position.Leader.ID})
}

// next is a batch of the mirror's, ready to be pushed.
func (r *rig) next(base int64, n int32) Batch {
	raw := dense(77, 3, base, 5, n, "v")
	batch.SetProducer(raw, r.target.ProducerID(), 0, batch.SequenceOf(base))
	return Batch{Bytes: raw, BaseOffset: base, Count: n}
}

// await waits for the stream until it has come to an end offset or ended.
func (r *rig) await(s *Stream, want int64) *Fault {
	r.t.Helper()
	deadline := time.After(patience)
	for {
		end, _, _, fault := s.Status()
		if fault != nil || end >= want {
			return fault
		}
		select {
		case <-s.Events():
		case <-deadline:
			r.t.Fatalf("the stream stands at %d, want %d", end, want)
		}
	}
}

func (r *rig) end() int64 {
	r.t.Helper()
	ends, err := kadm.NewClient(r.client).ListEndOffsets(context.Background(), "t")
	if err != nil {
		r.t.Fatal(err)
	}
	return ends["t"][r.target.Partition].Offset
}
