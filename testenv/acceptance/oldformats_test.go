package acceptance

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/testenv"
)

// oldFormats are values of message.format.version, and the magic byte that each stands for. Magic 0 has no timestamps; magic
// 0 and 1 have no headers, and their compressed batches are messages in a message.
var oldFormats = []struct {
	version string
	magic   byte
}{{"0.9.0", 0}, {"0.10.0", 1}, {"2.1", 2}, {"0.10.0", 1}, {"0.9.0", 0}}

// TestOldFormats mirrors a topic that an old broker keeps in every message format one after the other, in every codec: the
// destination knows none but the newest, and gets each record at its offset. Brokers of 3.0 and later write the newest alone.
func TestOldFormats(t *testing.T) {
	versions := []string{oldVersion}
	if long() {
		versions = append(versions, "2.8.2")
	}
	for _, version := range versions {
		t.Run("from "+version, func(t *testing.T) {
			useSource(t, version)
			mirrorOldFormats(t)
		})
	}
}

func mirrorOldFormats(t *testing.T) {
	topic, mirror := uniqueName("grown-old"), uniqueName("old")
	createTopic(t, topic, 1)
	var want []*kgo.Record
	for _, format := range oldFormats {
		setFormat(t, topic, format.version)
		for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression()} {
			want = append(want, writeOld(t, topic, format.magic, codec, int64(len(want)))...)
		}
	}
	wantMagics(t, topic, int64(len(want)))
	p := startProxy(t)
	p.CreateMirror(mirror)
	p.MustMirrors("", "--add", "--mirror", mirror, "--topic", topic)
	p.WaitNoLag(mirror, topic, 1)
	verifyEqual(t, source.Kafka(t).Bootstrap(), p.Bootstrap(), int64(len(want)), topic)

	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	client := newClient(t, p.Bootstrap(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	for read := 0; read < len(want); {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d of %d records: %v", read, len(want), err)
		}
		for _, got := range fetches.Records() {
			w := want[read]
			if got.Offset != w.Offset || !bytes.Equal(got.Key, w.Key) || (got.Key == nil) != (w.Key == nil) ||
				!bytes.Equal(got.Value, w.Value) || (got.Value == nil) != (w.Value == nil) || !got.Timestamp.Equal(w.Timestamp) || len(got.Headers) != 0 {
				t.Fatalf("record %d is %+v, want %+v", read, got, w)
			}
			read++
		}
	}
	p.DropMirror(mirror)
}

// setFormat sets the message format of the source's topic and waits until the broker has it.
func setFormat(t *testing.T, topic, version string) {
	t.Helper()
	client := newClient(t, source.Kafka(t).Bootstrap())
	defer client.Close()
	admin := kadm.NewClient(client)
	altered, err := admin.AlterTopicConfigsState(within(t), []kadm.AlterConfig{{Name: "message.format.version", Value: &version}}, topic)
	if err == nil {
		_, err = altered.On(topic, nil)
	}
	if err != nil {
		t.Fatalf("set the format %s of %s: %v", version, topic, err)
	}
	testenv.Eventually(t, callTimeout, fmt.Sprintf("the format %s of %s", version, topic), func() error {
		configs, err := admin.DescribeTopicConfigs(within(t), topic)
		if err != nil {
			return err
		}
		described, err := configs.On(topic, nil)
		if err != nil {
			return err
		}
		for _, c := range described.Configs {
			if c.Key == "message.format.version" && c.MaybeValue() == version+"-IV0" || c.MaybeValue() == version {
				return nil
			}
		}
		return kerr.InvalidConfig
	})
}

// writeOld writes records whose first lands at offset at, one batch of several and one of a single record, and returns what
// a mirror must have of them.
func writeOld(t *testing.T, topic string, magic byte, codec kgo.CompressionCodec, at int64) []*kgo.Record {
	t.Helper()
	client := newClient(t, source.Kafka(t).Bootstrap(), kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(50*time.Millisecond))
	defer client.Close()
	first := time.UnixMilli(time.Now().UnixMilli())
	var all []*kgo.Record
	for _, count := range []int{20, 1} {
		var records []*kgo.Record
		for i := range count {
			r := &kgo.Record{Topic: topic, Timestamp: first.Add(time.Duration(i*i) * time.Millisecond)}
			if i%4 != 1 {
				r.Key = fmt.Appendf(nil, "key-%d", i)
			}
			if i%5 != 2 {
				r.Value = bytes.Repeat(fmt.Appendf(nil, "value-%d-%d ", at, i), 1+i)
			}
			records = append(records, r)
		}
		if err := client.ProduceSync(within(t), records...).FirstErr(); err != nil {
			t.Fatalf("write magic %d to %s: %v", magic, topic, err)
		}
		all = append(all, records...)
	}
	for i, r := range all {
		if r.Offset != at+int64(i) {
			t.Fatalf("record %d was written to %s at offset %d, want %d", i, topic, r.Offset, at+int64(i))
		}
		if magic == 0 {
			r.Timestamp = time.UnixMilli(-1)
		}
	}
	return all
}

// wantMagics wants the source's log to have batches of each magic byte, compressed ones among them.
func wantMagics(t *testing.T, topic string, end int64) {
	t.Helper()
	client := newClient(t, source.Kafka(t).Bootstrap())
	defer client.Close()
	const lengthAt, bodyAt, magicAt = 8, 12, 16
	kinds := map[string]int{}
	for offset := int64(0); offset < end; {
		request := kmsg.NewPtrFetchRequest()
		request.MaxWaitMillis, request.MinBytes, request.MaxBytes = 500, 1, 1<<20
		aim := kmsg.NewFetchRequestTopic()
		aim.Topic = topic
		p := kmsg.NewFetchRequestTopicPartition()
		p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
		aim.Partitions = append(aim.Partitions, p)
		request.Topics = append(request.Topics, aim)
		answer, err := client.Broker(1).Request(within(t), request)
		if err != nil {
			t.Fatal(err)
		}
		raw := answer.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
		if len(raw) <= magicAt {
			t.Fatalf("a fetch of %s at %d of %d returned %d bytes", topic, offset, end, len(raw))
		}
		for len(raw) > magicAt {
			length := bodyAt + int(binary.BigEndian.Uint32(raw[lengthAt:]))
			magic := raw[magicAt]
			attributes, last := raw[magicAt+1], int64(binary.BigEndian.Uint64(raw))
			if magic == 2 {
				attributes = raw[magicAt+1+4+1] // behind the checksum, the low byte of two
				last += int64(binary.BigEndian.Uint32(raw[magicAt+1+4+2:]))
			}
			kinds[fmt.Sprintf("magic %d, codec %d", magic, attributes&7)]++
			offset, raw = last+1, raw[min(length, len(raw)):]
		}
	}
	t.Logf("the source has %v", kinds)
	for magic := range 3 {
		for codec := range 4 {
			if kind := fmt.Sprintf("magic %d, codec %d", magic, codec); kinds[kind] == 0 {
				t.Fatalf("the source has no batch of %s: %v", kind, kinds)
			}
		}
	}
}
