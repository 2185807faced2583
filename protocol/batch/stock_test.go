package batch_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/testenv"
)

const producerID = 1<<60 + 99

// TestStockBrokerKeepsWhatWeWrite: for every codec, a compacted source topic's
// batches, re-encoded, and filler are taken by a stock broker at the source's
// offsets, come back as they were sent, and read the same with Java and
// librdkafka.
func TestStockBrokerKeepsWhatWeWrite(t *testing.T) {
	kafka := testenv.RequireKafka(t, testenv.KafkaConfig{})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(kafka.Bootstrap()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	maker, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 4})
	if err != nil {
		t.Fatal(err)
	}

	for codec, name := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(name, func(t *testing.T) {
			topic := "batch-" + name
			newTopic(t, ctx, client, topic)
			source, want := sourceBatches(t, codec)
			fresh, err := coder.Reencode(nil, source, batch.ReencodeOptions{PreviousTimestampMs: -1, MaxBatchBytes: 1 << 19})
			if err != nil {
				t.Fatal(err)
			}
			var sent [][]byte
			end := int64(0)
			fillTo := func(offset int64) {
				for end < offset {
					n := min(offset-end, batch.MaxFillerRecords)
					raw, err := maker.Append(nil, int32(n), 1_700_000_000_000, producerID, 0, int32(end))
					if err != nil {
						t.Fatal(err)
					}
					sent = append(sent, produce(t, ctx, client, topic, raw, end))
					end += n
				}
			}
			if _, err := batch.Each(fresh, func(b batch.Batch) error {
				fillTo(b.BaseOffset())
				end = b.LastOffset() + 1
				raw := bytes.Clone(b)
				batch.SetProducer(raw, producerID, 0, int32(b.BaseOffset()))
				sent = append(sent, produce(t, ctx, client, topic, raw, b.BaseOffset()))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			stored := fetchAll(t, ctx, client, topic, end)
			if len(stored) != len(sent) {
				t.Fatalf("%d batches stored, %d sent", len(stored), len(sent))
			}
			for i, b := range stored {
				batch.SetLeaderEpoch(b, -1)
				if !bytes.Equal(b, sent[i]) {
					t.Errorf("batch at %d was changed by the broker", batch.Batch(b).BaseOffset())
				}
			}

			got := strings.ReplaceAll(testenv.RunKcat(t, "-C", "-e", "-q", "-b", kafka.Bootstrap()[0], "-t", topic, "-o", "beginning", "-f", "%o %S %T %s\n"), "\r", "")
			compare(t, "librdkafka", got, want)
			out, stderr, exit := kafka.Tool(ctx, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", kafka.Bootstrap()[0], "--topic", topic,
				"--from-beginning", "--max-messages", fmt.Sprint(end), "--timeout-ms", "60000",
				"--formatter-property", "print.offset=true", "--formatter-property", "print.timestamp=true")
			if exit != 0 {
				t.Fatalf("console consumer: %s", stderr)
			}
			var java strings.Builder
			for line := range strings.Lines(out) {
				fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t") // CreateTime:1\tOffset:2\tvalue
				if len(fields) != 3 {
					t.Fatalf("console consumer: %q", line)
				}
				value, size := fields[2], len(fields[2])
				if value == "null" {
					value, size = "", -1
				}
				fmt.Fprintln(&java, strings.TrimPrefix(fields[1], "Offset:"), size, strings.TrimPrefix(fields[0], "CreateTime:"), value)
			}
			compare(t, "Java", java.String(), want)
		})
	}
}

// sourceBatches are batches of a compacted topic (holes of many widths), and
// the lines that a consumer prints of their records.
func sourceBatches(t *testing.T, codec int) (blob []byte, want []string) {
	t.Helper()
	offset, value := int64(0), strings.Repeat("some text that compresses ", 30)
	for i := range 12 {
		b := kmsg.RecordBatch{FirstOffset: offset, Magic: 2, ProducerID: 4, FirstTimestamp: 1_700_000_000_000, Attributes: int16(codec), MaxTimestamp: 1_700_000_000_000}
		var plain []byte
		for j := range 40 {
			switch {
			case j%10 == 3:
				offset += int64(i * j)
			case j == 20 && i == 7:
				offset += 150_000
			}
			r := kmsg.Record{OffsetDelta: int32(offset - b.FirstOffset), TimestampDelta64: int64(i*100 + j), Key: []byte("k"), Value: []byte(fmt.Sprint(i, j, " ", value))}
			r.Length = int32(len(r.AppendTo(nil)) - 1)
			plain = r.AppendTo(plain)
			b.NumRecords++
			b.LastOffsetDelta, b.MaxTimestamp = r.OffsetDelta, b.FirstTimestamp+r.TimestampDelta64
			want = append(want, fmt.Sprintln(offset, len(r.Value), b.MaxTimestamp, string(r.Value)))
			offset++
		}
		b.Records = plain
		if codec != 0 {
			c, err := kgo.DefaultCompressor([]kgo.CompressionCodec{{}, kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}[codec])
			if err != nil {
				t.Fatal(err)
			}
			b.Records, _ = c.Compress(new(bytes.Buffer), plain)
		}
		raw := b.AppendTo(nil)
		b.Length = int32(len(raw) - 12)
		raw = b.AppendTo(nil)
		b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
		blob = b.AppendTo(blob)
	}
	return blob, want
}

// compare wants the data lines among filler lines, which have no value.
func compare(t *testing.T, who, got string, want []string) {
	t.Helper()
	i, next := 0, int64(0)
	for line := range strings.Lines(got) {
		var offset, size int64
		if _, err := fmt.Sscan(line, &offset, &size); err != nil || offset != next {
			t.Fatalf("%s: %q where offset %d is due: %v", who, line, next, err)
		}
		next++
		if size < 0 {
			continue
		}
		if i == len(want) || line != want[i] {
			t.Fatalf("%s: data record %d is %.80q", who, i, line)
		}
		i++
	}
	if i != len(want) {
		t.Errorf("%s: %d of %d records", who, i, len(want))
	}
}

func newTopic(t *testing.T, ctx context.Context, client *kgo.Client, topic string) {
	t.Helper()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 1, 1, map[string]*string{"compression.type": kadm.StringPtr("producer"), "retention.ms": kadm.StringPtr("-1")}, topic); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, time.Minute, "the new topic", func() error {
		offsets, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		return offsets.Error()
	})
}

// produce sends one batch, wants it at the offset, and returns it as it should
// be stored.
func produce(t *testing.T, ctx context.Context, client *kgo.Client, topic string, raw []byte, wantBase int64) []byte {
	t.Helper()
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = raw
	named := kmsg.NewProduceRequestTopic()
	named.Topic, named.Partitions = topic, []kmsg.ProduceRequestTopicPartition{partition}
	ids, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	named.TopicID = ids[topic].ID
	request.Topics = []kmsg.ProduceRequestTopic{named}
	answer, err := client.SeedBrokers()[0].Request(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	p := answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil || p.BaseOffset != wantBase {
		t.Fatalf("produce: %v at %d, want %d", err, p.BaseOffset, wantBase)
	}
	stored := bytes.Clone(raw)
	batch.SetBaseOffset(stored, wantBase)
	return stored
}

// fetchAll returns the stored batches up to an offset.
func fetchAll(t *testing.T, ctx context.Context, client *kgo.Client, topic string, end int64) (stored [][]byte) {
	t.Helper()
	ids, err := kadm.NewClient(client).ListTopics(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	for next := int64(0); next < end; {
		request := kmsg.NewPtrFetchRequest()
		request.MaxBytes, request.MaxWaitMillis, request.MinBytes = 8<<20, 1000, 1
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.FetchOffset, partition.PartitionMaxBytes = next, 1<<20
		named := kmsg.NewFetchRequestTopic()
		named.Topic, named.TopicID, named.Partitions = topic, ids[topic].ID, []kmsg.FetchRequestTopicPartition{partition}
		request.Topics = []kmsg.FetchRequestTopic{named}
		answer, err := client.SeedBrokers()[0].Request(ctx, request)
		if err != nil {
			t.Fatal(err)
		}
		p := answer.(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatal(err)
		}
		before := next
		if _, err := batch.Each(p.RecordBatches, func(b batch.Batch) error {
			stored, next = append(stored, bytes.Clone(b)), b.LastOffset()+1
			return batch.Validate(b)
		}); err != nil {
			t.Fatal(err)
		}
		if next == before {
			t.Fatalf("nothing at offset %d of %d", next, end)
		}
	}
	return stored
}
