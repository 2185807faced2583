package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// load says what is written to a topic and read from it.
type load struct {
	topic       string
	partitions  int32
	recordBytes int // of each value; there are no keys
	batchBytes  int32
}

// createTopic makes the topic of a load with one replica.
func createTopic(ctx context.Context, f *front, l load) error {
	client, err := f.client()
	if err != nil {
		return fmt.Errorf("create topic %s: %w", l.topic, err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, l.partitions, 1, nil, l.topic); err != nil {
		return fmt.Errorf("create topic %s: %w", l.topic, err)
	}
	return nil
}

func deleteTopic(ctx context.Context, f *front, topic string) error {
	client, err := f.client()
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopic(ctx, topic); err != nil {
		return fmt.Errorf("delete topic %s: %w", topic, err)
	}
	return nil
}

// checkEvery is how many records are produced between two looks at the clock.
const checkEvery = 1024

// produce writes records, spread evenly, until enough says so, and returns how many the broker
// has acknowledged: idempotent, acks=all, uncompressed, in batches as big as allowed. Values are
// windows of random bytes, and records are used again, to keep this side cheap.
func produce(ctx context.Context, f *front, l load, enough func(records int64) bool) (int64, error) {
	client, err := f.client(
		kgo.DefaultProduceTopic(l.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(l.batchBytes),
		kgo.ProducerLinger(20*time.Millisecond),
		kgo.MaxBufferedRecords(1<<20),
		kgo.MaxBufferedBytes(64<<20),
	)
	if err != nil {
		return 0, fmt.Errorf("produce to %s: %w", l.topic, err)
	}
	defer client.Close()
	payload := randomBytes(1<<20 + l.recordBytes)
	records := sync.Pool{New: func() any { return new(kgo.Record) }}
	var acknowledged atomic.Int64
	var failure atomic.Pointer[error]
	done := func(r *kgo.Record, err error) {
		if err != nil {
			failure.CompareAndSwap(nil, &err)
			return
		}
		acknowledged.Add(1)
		*r = kgo.Record{}
		records.Put(r)
	}
	for sent := int64(0); ; sent++ {
		if sent%checkEvery == 0 && (failure.Load() != nil || ctx.Err() != nil || enough(sent)) {
			break
		}
		r := records.Get().(*kgo.Record)
		start := int(sent*127) & (1<<20 - 1)
		r.Value = payload[start : start+l.recordBytes]
		r.Partition = int32(sent % int64(l.partitions))
		client.Produce(ctx, r, done)
	}
	if err := client.Flush(ctx); err != nil {
		return 0, fmt.Errorf("produce to %s: %w", l.topic, err)
	}
	if err := failure.Load(); err != nil {
		return 0, fmt.Errorf("produce to %s: %w", l.topic, *err)
	}
	return acknowledged.Load(), nil
}

// randomBytes does not compress. The seed is fixed: every row gets the same bytes.
func randomBytes(count int) []byte {
	b := make([]byte, count)
	rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return b
}

// consume reads the first count records of a topic, all partitions from their start.
func consume(ctx context.Context, f *front, l load, count int64) error {
	offsets := map[int32]kgo.Offset{}
	for p := range l.partitions {
		offsets[p] = kgo.NewOffset().AtStart()
	}
	client, err := f.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: offsets}),
		kgo.DisableFetchCRCValidation(), // measured is what is in between, not this side
	)
	if err != nil {
		return fmt.Errorf("consume %s: %w", l.topic, err)
	}
	defer client.Close()
	for read := int64(0); read < count; {
		fetches := client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			return fmt.Errorf("consume %s-%d after %d records: %w", e.Topic, e.Partition, read, e.Err)
		}
		read += int64(fetches.NumRecords())
	}
	return nil
}

// measurement is one measured stretch of work. Bytes counts record values only.
type measurement struct {
	Records             int64   `json:"records"`
	Bytes               int64   `json:"bytes"`
	Seconds             float64 `json:"seconds"`
	ProcessCPUSeconds   float64 `json:"process_cpu_seconds"` // of what is between client and broker
	GeneratorCPUSeconds float64 `json:"generator_cpu_seconds"`
}

func (m measurement) plus(n measurement) measurement {
	return measurement{
		Records: m.Records + n.Records, Bytes: m.Bytes + n.Bytes, Seconds: m.Seconds + n.Seconds,
		ProcessCPUSeconds:   m.ProcessCPUSeconds + n.ProcessCPUSeconds,
		GeneratorCPUSeconds: m.GeneratorCPUSeconds + n.GeneratorCPUSeconds,
	}
}

// megabytesPerSecond counts in 10^6 bytes, perGB in 10^9.
func (m measurement) megabytesPerSecond() float64 { return float64(m.Bytes) / 1e6 / m.Seconds }
func (m measurement) processCPUPerGB() float64    { return m.ProcessCPUSeconds / (float64(m.Bytes) / 1e9) }
func (m measurement) generatorCPUPerGB() float64 {
	return m.GeneratorCPUSeconds / (float64(m.Bytes) / 1e9)
}
func (m measurement) processMicrosPerRecord() float64 {
	return m.ProcessCPUSeconds * 1e6 / float64(m.Records)
}

// stopwatch holds the readings at the start of a stretch.
type stopwatch struct {
	process            *child
	start              time.Time
	processCPU, ownCPU time.Duration
}

func startStopwatch(process *child) (*stopwatch, error) {
	w := &stopwatch{process: process}
	var err error
	if w.ownCPU, err = ownCPU(); err != nil {
		return nil, err
	}
	if process != nil {
		if w.processCPU, err = process.cpu(); err != nil {
			return nil, err
		}
	}
	w.start = time.Now()
	return w, nil
}

func (w *stopwatch) stop(records int64, recordBytes int) (measurement, error) {
	end := time.Since(w.start)
	now, err := startStopwatch(w.process)
	if err != nil {
		return measurement{}, err
	}
	return measurement{
		Records: records, Bytes: records * int64(recordBytes), Seconds: end.Seconds(),
		ProcessCPUSeconds:   (now.processCPU - w.processCPU).Seconds(),
		GeneratorCPUSeconds: (now.ownCPU - w.ownCPU).Seconds(),
	}, nil
}

// measureLoad produces for a time, then consumes what was produced, again and again when that
// is too quick, for at least that time.
func measureLoad(ctx context.Context, f *front, l load, length time.Duration) (produced, consumed measurement, err error) {
	watch, err := startStopwatch(f.process)
	if err != nil {
		return produced, consumed, err
	}
	count, err := produce(ctx, f, l, func(int64) bool { return time.Since(watch.start) >= length })
	if err != nil {
		return produced, consumed, err
	}
	if produced, err = watch.stop(count, l.recordBytes); err != nil {
		return produced, consumed, err
	}
	if watch, err = startStopwatch(f.process); err != nil {
		return produced, consumed, err
	}
	read := int64(0)
	for read == 0 || time.Since(watch.start) < length {
		if err := consume(ctx, f, l, count); err != nil {
			return produced, consumed, err
		}
		read += count
	}
	consumed, err = watch.stop(read, l.recordBytes)
	return produced, consumed, err
}
