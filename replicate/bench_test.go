package replicate

import (
	"context"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// BenchmarkMirrorReal copies 2 GB of 1 KiB records in 64 KiB batches over 12 partitions between
// two one-broker clusters. It reports the rate and this process's CPU time per GB (everything
// it does while copying, the test's own polling included).
func BenchmarkMirrorReal(b *testing.B) {
	const partitions, total = 12, 2 << 30
	source := testenv.RequireKafka(b, testenv.KafkaConfig{JVMHeapMiB: 1024})
	destination := testenv.RequireKafka(b, testenv.KafkaConfig{JVMHeapMiB: 1024})
	for b.Loop() {
		benchMirror(b, source, destination, partitions, total)
	}
}

func benchMirror(b *testing.B, source, destination *testenv.Kafka, partitions int32, total int) {
	t := &testing.T{}
	r := newRig(t, source.Bootstrap(), destination.Bootstrap())
	r.settings = Settings{}
	topic := "bench"
	r.createTopic(topic, partitions, nil)
	producer, err := kgo.NewClient(kgo.SeedBrokers(source.Bootstrap()...), kgo.ProducerBatchMaxBytes(64<<10), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(20*time.Millisecond), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.DefaultProduceTopic(topic), kgo.MaxBufferedRecords(50_000))
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 1024)
	for i := range value {
		value[i] = byte(rand.Int())
	}
	for range total / 1024 {
		producer.Produce(context.Background(), &kgo.Record{Value: value}, nil)
	}
	if err := producer.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	producer.Close()
	before, began := cpu(b), time.Now()
	r.start()
	id := r.add(topic, partitions)
	for {
		time.Sleep(100 * time.Millisecond)
		var done int64
		for i := range partitions {
			p := state.PartitionID{Topic: id, Partition: i}
			if live, ok := r.live.Get(p); ok {
				done += max(live.DestinationOffset.Load(), 0)
			}
		}
		if done >= int64(total/1024) {
			break
		}
	}
	took, used := time.Since(began), cpu(b)-before
	r.stop()
	gb := float64(total) / 1e9
	b.ReportMetric(gb*1000/took.Seconds(), "MB/s")
	b.ReportMetric(used.Seconds()/gb, "cpu-s/GB")
}

func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
