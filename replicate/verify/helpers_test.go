package verify

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/testenv"
)

// writtenMs is the timestamp of records whose timestamp is not what is tested.
const writtenMs = 1_700_000_000_000

// filled stands for a filler record in a list of records; others are "key=value", "key" for a tombstone, "\x00=value" for one
// without a key.
const filled = "filler"

// written is a batch as a broker is sent it.
type written kmsg.RecordBatch

// mirrored is a batch that a mirror writes at an offset.
func mirrored(base int64, records ...string) written {
	w := written{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: 1, LastOffsetDelta: int32(len(records) - 1), FirstTimestamp: writtenMs, MaxTimestamp: writtenMs,
		ProducerID: batch.FirstMirrorProducer + 7, FirstSequence: batch.SequenceOf(base), NumRecords: int32(len(records)),
	}
	var plain []byte
	for i, text := range records {
		record := kmsg.Record{OffsetDelta: int32(i)}
		if text == filled {
			record.Key = []byte(batch.FillerKey)
		} else if key, value, ok := strings.Cut(text, "="); ok {
			record.Key, record.Value = []byte(key), []byte(value)
			if key == "\x00" {
				record.Key = nil
			}
		} else {
			record.Key = []byte(text)
		}
		body := record.AppendTo(nil)[1:] // behind the length, which was one byte for 0
		record.Length = int32(len(body))
		plain = record.AppendTo(plain)
	}
	var packed strings.Builder
	compressor := gzip.NewWriter(&packed)
	if _, err := compressor.Write(plain); err != nil {
		panic(err)
	}
	if err := compressor.Close(); err != nil {
		panic(err)
	}
	w.Records = []byte(packed.String())
	return w
}

// bytes are the batch with length and CRC put in.
func (w written) bytes() []byte {
	const throughLength, crc, behindCRC = 12, 17, 21
	b := kmsg.RecordBatch(w)
	b.Length = int32(len(b.AppendTo(nil)) - throughLength)
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[crc:], crc32.Checksum(raw[behindCRC:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// write appends batches to partition 0 of topic t.
func write(t *testing.T, c *kgo.Client, batches ...written) {
	t.Helper()
	topics, err := kadm.NewClient(c).ListTopics(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range batches {
		request := kmsg.NewPtrProduceRequest()
		request.Acks, request.TimeoutMillis = -1, 10_000
		aim, p := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		p.Records = b.bytes()
		aim.Topic, aim.TopicID, aim.Partitions = "t", topics["t"].ID, append(aim.Partitions, p)
		request.Topics = append(request.Topics, aim)
		answer, err := request.RequestWith(t.Context(), c.Broker(int(topics["t"].Partitions[0].Leader)))
		if err == nil {
			err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// throughProxy is a cluster with the log of the given one, whose Fetch answers hide filler as the proxy does.
func throughProxy(t *testing.T, original *kgo.Client) *kgo.Client {
	t.Helper()
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: batch.MinLimitBytes})
	if err != nil {
		t.Fatal(err)
	}
	fake := testenv.NewFake(t, testenv.FakeConfig{})
	c := client(t, kgo.SeedBrokers(fake.Bootstrap()...))
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 1, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	topics, err := kadm.NewClient(original).ListTopics(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	l := &log{client: original, topic: "t", topicID: topics["t"].ID, leader: topics["t"].Partitions[0].Leader, throttle: newComparer(Config{}).throttle}
	stored, err := l.fetchOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var visible []byte
	if _, err := batch.Each(stored.RecordBatches, func(b batch.Batch) error {
		out, hidden, err := coder.AppendVisible(visible, b)
		if visible = out; err == nil && !hidden {
			visible = append(visible, b...)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	stored.RecordBatches = visible
	fake.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		fetch := request.(*kmsg.FetchRequest)
		answer := fetch.ResponseKind().(*kmsg.FetchResponse)
		for _, asked := range fetch.Topics {
			topic := kmsg.NewFetchResponseTopic()
			topic.Topic, topic.TopicID = asked.Topic, asked.TopicID
			topic.Partitions = append(topic.Partitions, stored)
			answer.Topics = append(answer.Topics, topic)
		}
		return answer, nil, true
	})
	fake.ControlKey(int16(kmsg.ListOffsets), func(request kmsg.Request) (kmsg.Response, error, bool) {
		fake.KeepControl()
		asked := request.(*kmsg.ListOffsetsRequest)
		answer := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
		topic, p := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
		topic.Topic = "t"
		if p.Offset = 0; asked.Topics[0].Partitions[0].Timestamp == -1 {
			p.Offset = stored.HighWatermark
		}
		topic.Partitions = append(topic.Partitions, p)
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	return c
}

// policied is a cluster with topic t of this cleanup.policy, and these batches in it.
func policied(t *testing.T, policy string, batches ...written) *kgo.Client {
	t.Helper()
	fake := testenv.NewFake(t, testenv.FakeConfig{})
	c := client(t, kgo.SeedBrokers(fake.Bootstrap()...))
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 1, 1, map[string]*string{"cleanup.policy": &policy}, "t"); err != nil {
		t.Fatal(fmt.Errorf("policy %s: %w", policy, err))
	}
	write(t, c, batches...)
	return c
}
