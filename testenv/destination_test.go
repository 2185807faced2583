package testenv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The tests of this file say what a destination must do for the produce engine, and hold the
// fake against the real broker: what both do here, tests may rely on with either.

var sharedKafka = Shared(KafkaConfig{})

func TestMain(m *testing.M) { Main(m, sharedKafka) }

// unregisteredPID is a producer id that no broker handed out.
const unregisteredPID = int64(1)<<60 + 77

// logAppendTimeBit is the attribute bit of a batch that the broker stamps.
const logAppendTimeBit = 0x08

// batchSpec describes a batch of records with timestamp base.
type batchSpec struct {
	epoch      int16
	sequence   int32
	records    int32
	attributes int16
	base, max  int64
}

// encode is the batch as a produce request carries it.
func (s batchSpec) encode() []byte {
	var records []byte
	for i := range s.records {
		record := kmsg.Record{OffsetDelta: i, Key: []byte("key"), Value: fmt.Append(nil, i)}
		record.Length = int32(len(record.AppendTo(nil)) - 1) // its own varint is one byte
		records = record.AppendTo(records)
	}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: s.attributes, LastOffsetDelta: s.records - 1,
		FirstTimestamp: s.base, MaxTimestamp: s.max,
		ProducerID: unregisteredPID, ProducerEpoch: s.epoch, FirstSequence: s.sequence,
		NumRecords: s.records, Records: records,
	}
	batch.Length = int32(len(batch.AppendTo(nil)) - 12)
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], batchCRC(raw))
	return raw
}

func batchCRC(raw []byte) uint32 {
	return crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli))
}

// destination is one partition of a cluster.
type destination struct {
	t       *testing.T
	ctx     context.Context
	client  *kgo.Client
	admin   *kadm.Client
	topic   string
	topicID [16]byte
}

// newDestination creates a topic whose name starts with prefix: the real broker is shared.
func newDestination(t *testing.T, bootstrap []string, prefix string, configs map[string]*string) *destination {
	t.Helper()
	topic := fmt.Sprintf("%s-%d", prefix, time.Now().UnixNano())
	ctx, cancel := context.WithTimeout(t.Context(), restartTimeout)
	t.Cleanup(cancel)
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	created, err := admin.CreateTopic(ctx, 1, 1, configs, topic)
	if err != nil {
		t.Fatal(err)
	}
	d := &destination{t: t, ctx: ctx, client: client, admin: admin, topic: topic, topicID: created.ID}
	Eventually(t, netTimeout, "the new topic", func() error {
		offsets, err := admin.ListEndOffsets(ctx, topic)
		return errors.Join(err, offsets.Error())
	})
	return d
}

// request sends to the only broker.
func (d *destination) request(request kmsg.Request) kmsg.Response {
	d.t.Helper()
	response, err := d.client.SeedBrokers()[0].Request(d.ctx, request)
	if err != nil {
		d.t.Fatal(err)
	}
	return response
}

// produce sends a batch by topic id and wants this error, and without one this base offset.
func (d *destination) produce(raw []byte, wantErr error, wantBase int64) {
	d.t.Helper()
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10000
	topic := kmsg.NewProduceRequestTopic()
	topic.TopicID = d.topicID
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = raw
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	answer := d.request(request).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if request.Version != 13 {
		d.t.Errorf("produce version %d, want 13", request.Version)
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); !errors.Is(err, wantErr) || wantErr == nil && answer.BaseOffset != wantBase {
		d.t.Errorf("produce: %v at %d, want %v at %d", err, answer.BaseOffset, wantErr, wantBase)
	}
}

// fetch returns the stored batches from offset on, raw.
func (d *destination) fetch(offset int64) [][]byte {
	d.t.Helper()
	request := kmsg.NewPtrFetchRequest()
	request.MaxBytes, request.MaxWaitMillis, request.MinBytes = 1<<20, 1000, 1<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.TopicID = d.topicID
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset, partition.PartitionMaxBytes = offset, 1<<20
	topic.Partitions = append(topic.Partitions, partition)
	request.Topics = append(request.Topics, topic)
	answer := d.request(request).(*kmsg.FetchResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		d.t.Fatalf("fetch: %v", err)
	}
	var batches [][]byte
	for raw := answer.RecordBatches; len(raw) > 12; {
		size := 12 + int(binary.BigEndian.Uint32(raw[8:]))
		batches = append(batches, raw[:size])
		raw = raw[size:]
	}
	return batches
}

func (d *destination) deleteRecords(before int64) error {
	d.t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: d.topic, At: before})
	responses, err := d.admin.DeleteRecords(d.ctx, offsets)
	if err != nil {
		d.t.Fatal(err)
	}
	response, _ := responses.Lookup(d.topic, 0)
	if response.Err == nil && response.LowWatermark != before {
		d.t.Errorf("low watermark %d, want %d", response.LowWatermark, before)
	}
	return response.Err
}

func (d *destination) activeProducers() []kmsg.DescribeProducersResponseTopicPartitionActiveProducer {
	d.t.Helper()
	request := kmsg.NewPtrDescribeProducersRequest()
	topic := kmsg.NewDescribeProducersRequestTopic()
	topic.Topic, topic.Partitions = d.topic, []int32{0}
	request.Topics = append(request.Topics, topic)
	answer := d.request(request).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		d.t.Fatalf("describe producers: %v", err)
	}
	return answer.ActiveProducers
}

// onBoth runs a test with the fake and with a real broker.
func onBoth(t *testing.T, test func(t *testing.T, bootstrap []string)) {
	t.Run("fake", func(t *testing.T) { test(t, NewFake(t, FakeConfig{}).Bootstrap()) })
	t.Run("real", func(t *testing.T) { test(t, sharedKafka.Kafka(t).Bootstrap()) })
}

func TestDestinationSequenceIsCompareAndAppend(t *testing.T) {
	onBoth(t, func(t *testing.T, bootstrap []string) {
		d := newDestination(t, bootstrap, "sequences", nil)
		now := time.Now().UnixMilli()
		at := func(sequence int32) []byte {
			return batchSpec{sequence: sequence, records: 5, base: now, max: now}.encode()
		}
		d.produce(at(1000), nil, 0) // the first sequence is free: a caller must check the base offset
		d.produce(at(1005), nil, 5)
		d.produce(at(1000), nil, 0) // a duplicate has its old offset
		d.produce(at(1011), kerr.OutOfOrderSequenceNumber, 0)
		d.produce(at(1008), kerr.OutOfOrderSequenceNumber, 0)
		for i := range int32(5) {
			d.produce(at(1010+5*i), nil, int64(10+5*i))
		}
		d.produce(at(1000), kerr.OutOfOrderSequenceNumber, 0) // only five batches are remembered
		if err := d.deleteRecords(35); err != nil {
			t.Fatal(err)
		}
		d.produce(at(1099), kerr.OutOfOrderSequenceNumber, 0) // an emptied log keeps the state
		d.produce(at(1035), nil, 35)
		if err := d.deleteRecords(1000); !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("delete beyond the end: %v", err)
		}
	})
}

func TestDestinationKeepsBatches(t *testing.T) {
	onBoth(t, func(t *testing.T, bootstrap []string) {
		d := newDestination(t, bootstrap, "batches", map[string]*string{"cleanup.policy": kmsg.StringPtr("delete"), "retention.ms": kmsg.StringPtr("-1")})
		now := time.Now().UnixMilli()
		monthOld := now - 30*24*3600*1000
		var sent [][]byte
		for i, spec := range []batchSpec{
			{base: now, max: now}, {base: monthOld, max: monthOld}, {base: -1, max: -1},
			{base: now, max: now, attributes: 0x80}, // an unused bit
			{base: now, max: now, attributes: 0x40}, // a delete horizon
		} {
			spec.sequence, spec.records = int32(i*4), 4
			raw := spec.encode()
			d.produce(raw, nil, int64(i*4))
			sent = append(sent, raw)
		}
		stored := d.fetch(0)
		for i := 0; len(stored) < len(sent); i++ { // a real broker may answer in parts
			more := d.fetch(int64(len(stored) * 4))
			if len(more) == 0 || i > len(sent) {
				t.Fatalf("%d batches stored, want %d", len(stored), len(sent))
			}
			stored = append(stored, more...)
		}
		for i, raw := range sent {
			if offset := binary.BigEndian.Uint64(stored[i]); offset != uint64(i*4) {
				t.Errorf("batch %d is at %d", i, offset)
			}
			// All but base offset and leader epoch.
			if string(stored[i][16:]) != string(raw[16:]) || string(stored[i][8:12]) != string(raw[8:12]) {
				t.Errorf("batch %d was changed: %x, sent %x", i, stored[i], raw)
			}
		}
		broken := batchSpec{sequence: 20, records: 4, base: now, max: now}.encode()
		broken[len(broken)-1] ^= 1
		d.produce(broken, kerr.CorruptMessage, 0)
		d.produce(batchSpec{sequence: 20, records: 4, attributes: 0x20, base: now, max: now}.encode(), kerr.InvalidRecord, 0)
	})
}

func TestDestinationConfigs(t *testing.T) {
	onBoth(t, func(t *testing.T, bootstrap []string) {
		d := newDestination(t, bootstrap, "configs", map[string]*string{"max.message.bytes": kmsg.StringPtr("2000000")})
		value := func(name string) string {
			t.Helper()
			described, err := d.admin.DescribeTopicConfigs(d.ctx, d.topic)
			if err != nil {
				t.Fatal(err)
			}
			for _, config := range described[0].Configs {
				if config.Key == name {
					return config.MaybeValue()
				}
			}
			return "missing"
		}
		alter := func(op kadm.IncrementalOp, name, value string) {
			t.Helper()
			altered, err := d.admin.AlterTopicConfigs(d.ctx, []kadm.AlterConfig{{Op: op, Name: name, Value: &value}}, d.topic)
			if err != nil || altered[0].Err != nil {
				t.Fatalf("alter %s: %v, %v", name, err, altered)
			}
		}
		alter(kadm.SetConfig, "retention.ms", "5000")
		for want, got := range map[string]func() string{
			"2000000": func() string { return value("max.message.bytes") },
			"5000":    func() string { return value("retention.ms") },
		} {
			Eventually(t, netTimeout, "the altered config", func() error {
				if got := got(); got != want {
					return fmt.Errorf("%q, want %q", got, want)
				}
				return nil
			})
		}
		alter(kadm.DeleteConfig, "retention.ms", "")
		Eventually(t, netTimeout, "the default", func() error {
			if got := value("retention.ms"); got != "604800000" {
				return fmt.Errorf("%q", got)
			}
			return nil
		})
		expiration := "2000000000"
		altered, err := d.admin.AlterBrokerConfigs(d.ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "producer.id.expiration.ms", Value: &expiration}})
		if err != nil || altered[0].Err != nil {
			t.Errorf("producer.id.expiration.ms for the cluster: %v, %v", err, altered)
		}
		if grown, err := d.admin.UpdatePartitions(d.ctx, 3, d.topic); err != nil || grown.Error() != nil {
			t.Errorf("more partitions: %v, %v", err, grown)
		}
	})
}

func TestDestinationTransactions(t *testing.T) {
	onBoth(t, func(t *testing.T, bootstrap []string) {
		d := newDestination(t, bootstrap, "state", map[string]*string{"cleanup.policy": kmsg.StringPtr("compact")})
		record := func() *kgo.Record { return &kgo.Record{Topic: d.topic, Key: []byte("key"), Value: []byte("value")} }
		open := func() *kgo.Client {
			client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.TransactionalID("writer"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			return client
		}
		write := func(client *kgo.Client, commit kgo.TransactionEndTry) error {
			if err := client.BeginTransaction(); err != nil {
				return err
			}
			return errors.Join(client.ProduceSync(d.ctx, record()).FirstErr(), client.EndTransaction(d.ctx, commit))
		}
		first := open()
		if err := errors.Join(write(first, kgo.TryCommit), write(first, kgo.TryAbort)); err != nil {
			t.Fatal(err)
		}
		if err := write(open(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		if err := write(first, kgo.TryCommit); !errors.Is(err, kerr.InvalidProducerEpoch) && !errors.Is(err, kerr.ProducerFenced) {
			t.Errorf("the fenced writer: %v", err)
		}
		// A transaction that also commits the offsets of a group (KIP-447).
		session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap...), kgo.TransactionalID("member"),
			kgo.ConsumerGroup("owners"), kgo.ConsumeTopics(d.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		seen := 0
		for seen < 2 { // the two committed ones
			fetches := session.PollFetches(d.ctx)
			if err := fetches.Err0(); err != nil {
				t.Fatal(err)
			}
			seen += fetches.NumRecords()
		}
		if seen != 2 {
			t.Errorf("read %d records, want the 2 committed ones", seen)
		}
		if err := errors.Join(session.Begin(), session.ProduceSync(d.ctx, record()).FirstErr()); err != nil {
			t.Fatal(err)
		}
		if committed, err := session.End(d.ctx, kgo.TryCommit); !committed || err != nil {
			t.Errorf("committed %t, %v", committed, err)
		}
		// A real broker answers EndTxn before the markers are written.
		Eventually(t, netTimeout, "the group's offset", func() error {
			offsets, err := d.admin.FetchOffsets(d.ctx, "owners")
			if at, found := offsets.Lookup(d.topic, 0); err != nil || !found || at.At < 5 {
				return fmt.Errorf("%+v (found: %t), %v", at, found, err)
			}
			return nil
		})
	})
}
