package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// writer is an application of the source cluster that keeps writing.
type writer struct {
	cancel  context.CancelFunc
	ended   chan struct{}
	written int64 // read after stop
	client  *kgo.Client
}

func startWriter(ctx context.Context, source []string) (*writer, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(source...), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(5*time.Millisecond))
	if err != nil {
		return nil, err
	}
	if _, err := kadm.NewClient(client).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		client.Close()
		return nil, fmt.Errorf("create %s on the source: %w", topic, err)
	}
	w := &writer{ended: make(chan struct{}), client: client}
	for w.written < backlog {
		client.Produce(ctx, record(w.written), nil)
		w.written++
	}
	if err := client.Flush(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("write to the source: %w", err)
	}
	ctx, w.cancel = context.WithCancel(ctx)
	go w.run(ctx)
	return w, nil
}

// run writes some records every few milliseconds.
func (w *writer) run(ctx context.Context) {
	defer close(w.ended)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for range 10 {
			w.client.Produce(context.WithoutCancel(ctx), record(w.written), nil)
			w.written++
		}
	}
}

func (w *writer) stop() {
	w.cancel()
	<-w.ended
	if err := w.client.Flush(context.Background()); err != nil {
		fmt.Println("flush the source's producer:", err)
	}
	w.client.Close()
}

func record(n int64) *kgo.Record {
	r := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "order-%d", n), Value: fmt.Appendf(nil, `{"order":%d,"item":"tea"}`, n)}
	switch n % 10 {
	case 0:
		r.Headers = []kgo.RecordHeader{{Key: "trace", Value: fmt.Append(nil, n)}, {Key: "empty"}}
	case 1:
		r.Key = nil
	case 2:
		r.Value = nil
	}
	return r
}
