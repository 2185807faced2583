package acceptance

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchRecords is how many records a batch of bulk has.
const batchRecords = 100_000

// bulk is a gzipped batch of batchRecords tiny records: the quick way to a log of millions.
func bulk(t *testing.T) []byte {
	t.Helper()
	var records []byte
	for i := range int32(batchRecords) {
		record := kmsg.Record{OffsetDelta: i, Value: []byte("x")}
		body := record.AppendTo(nil)[1:] // behind the length, which was one byte for 0
		record.Length = int32(len(body))
		records = record.AppendTo(records)
	}
	var packed bytes.Buffer
	compressor := gzip.NewWriter(&packed)
	if _, err := compressor.Write(records); err != nil {
		t.Fatal(err)
	}
	if err := compressor.Close(); err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixMilli()
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: 1, LastOffsetDelta: batchRecords - 1, FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: batchRecords, Records: packed.Bytes(),
	}
	const beforeCRC, throughCRC, throughLength = 17, 21, 12
	batch.Length = int32(len(batch.AppendTo(nil)) - throughLength)
	raw := batch.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[beforeCRC:], crc32.Checksum(raw[throughCRC:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// writeBulk appends so many batches of batchRecords records to a partition of the source.
func writeBulk(t *testing.T, client *kgo.Client, topic string, partition int32, batches int) {
	t.Helper()
	topics, err := kadm.NewClient(client).ListTopics(within(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	raw := bulk(t)
	for i := range batches {
		request := kmsg.NewPtrProduceRequest()
		request.Acks, request.TimeoutMillis = -1, 30_000
		aim := kmsg.NewProduceRequestTopic()
		aim.Topic, aim.TopicID = topic, topics[topic].ID
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = partition, raw
		aim.Partitions = append(aim.Partitions, p)
		request.Topics = append(request.Topics, aim)
		response, err := request.RequestWith(within(t), client.Broker(int(topics[topic].Partitions[partition].Leader)))
		if err == nil {
			err = kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			t.Fatalf("write batch %d to %s-%d: %v", i, topic, partition, err)
		}
	}
}

// TestLogStart mirrors logs that do not start at 0. Partition 0 starts at 5,000,000, between two batches; partition 1 in the
// middle of a batch; partition 2 at 0; partition 3 is empty behind its start. All arrive as they are.
func TestLogStart(t *testing.T) {
	newRand(t)
	mirror, topic := uniqueName("trimmed"), uniqueName("history")
	starts := []int64{5_000_000, 4_123_456, 0, batchRecords}
	if !long() {
		starts[1] = 123_456
	}
	partitions := len(starts)
	createTopic(t, topic, partitions)
	client := newClient(t, source.Kafka(t).Bootstrap())
	trim := kadm.Offsets{}
	for partition, start := range starts {
		writeBulk(t, client, topic, int32(partition), int((start+batchRecords-1)/batchRecords))
		trim.Add(kadm.Offset{Topic: topic, Partition: int32(partition), At: start})
	}
	deleted, err := kadm.NewClient(client).DeleteRecords(within(t), trim)
	if err == nil {
		err = deleted.Error()
	}
	if err != nil {
		t.Fatalf("delete the records before %v: %v", starts, err)
	}
	w := newWriter(t, topic, 3)
	w.Write(3_000) // none to the empty one

	p := startProxy(t)
	p.CreateMirror(mirror)
	p.MustMirrors("", "--add", "--mirror", mirror, "--topic", topic)
	p.WaitNoLag(mirror, topic, partitions)
	wantStarts := func() {
		t.Helper()
		onSource, onDestination := offsets(t, source, topic), offsets(t, destination, topic)
		if !slices.Equal(onSource, onDestination) {
			t.Fatalf("the logs start and end at %v, on the source at %v", onDestination, onSource)
		}
		for partition, start := range starts {
			if onDestination[partition].start != start {
				t.Fatalf("partition %d starts at %d, want %d", partition, onDestination[partition].start, start)
			}
		}
	}
	wantStarts()

	w.partitions = partitions // now the empty one too
	w.Write(4_000)
	p.WaitNoLag(mirror, topic, partitions)
	wantStarts()
	records := int64(w.next) + (batchRecords - starts[1]%batchRecords) // what is left of the batch that was cut
	verifyEqual(t, source.Kafka(t).Bootstrap(), p.Bootstrap(), records, topic)
	verifyEqual(t, source.Kafka(t).Bootstrap(), destination.Kafka(t).Bootstrap(), records, topic)
	p.MustMirrors("", "--remove", "--mirror", mirror, "--topic", topic)
	p.WaitState(mirror, topic, partitions, "STOPPED")
	if first := userWrites(t, p, topic, partitions, 1); !slices.Equal(first, ends(t, source, topic)) {
		t.Fatalf("the first writes after the failover landed at %v, the source ends at %v", first, ends(t, source, topic))
	}
	p.DropMirror(mirror)
}
