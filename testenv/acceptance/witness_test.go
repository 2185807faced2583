package acceptance

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/testenv"
)

// witness is an ordinary client that must not notice what others do to the proxy: it writes a record and reads it back,
// over and over, on connections that were there before. Its first error, a lost, doubled or misplaced record, is final.
type witness struct {
	t      *testing.T
	rounds atomic.Int64
	failed atomic.Pointer[error]
	cancel context.CancelFunc
	ended  chan struct{}
}

// witnessPatience is how long one round may take. It is not a measure of speed: the shortest of the proxy's own
// timeouts that could hold a request up is longer.
const witnessPatience = 20 * time.Second

func startWitness(t *testing.T, p *proxy) *witness {
	t.Helper()
	topic := uniqueName("witness")
	createOrdinary(t, p, topic, []int32{1, 2, 3}, []int32{2, 3, 1})
	client := newClient(t, p.Bootstrap(), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(500*time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	w := &witness{t: t, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for n := 0; ctx.Err() == nil; n++ {
			if err := witnessRound(ctx, client, topic, n); err != nil {
				if ctx.Err() == nil {
					w.failed.Store(&err)
				}
				return
			}
			w.rounds.Add(1)
		}
	}()
	t.Cleanup(func() { cancel(); <-w.ended })
	w.AwaitRounds("at first", 5)
	return w
}

// witnessRound writes to both partitions and reads back.
func witnessRound(ctx context.Context, client *kgo.Client, topic string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, witnessPatience)
	defer cancel()
	value := fmt.Sprintf("%d", n)
	for partition := range int32(2) {
		record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			return fmt.Errorf("round %d: produce: %w", n, err)
		}
		if record.Offset != int64(n) {
			return fmt.Errorf("round %d: written at offset %d", n, record.Offset)
		}
	}
	for read := 0; read < 2; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("round %d: consume: %w", n, err)
		}
		for _, r := range fetches.Records() {
			if string(r.Value) != value || r.Offset != int64(n) {
				return fmt.Errorf("round %d: read %q at offset %d", n, r.Value, r.Offset)
			}
			read++
		}
	}
	return nil
}

// AwaitRounds wants so many rounds more to be done.
func (w *witness) AwaitRounds(when string, count int64) {
	w.t.Helper()
	goal := w.rounds.Load() + count
	testenv.Eventually(w.t, callTimeout, "another client to go on "+when, func() error {
		if failed := w.failed.Load(); failed != nil {
			w.t.Fatalf("%s, another client noticed: %v", when, *failed)
		}
		if rounds := w.rounds.Load(); rounds < goal {
			return fmt.Errorf("%d rounds are done, want %d", rounds, goal)
		}
		return nil
	})
}
