package replicate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// moods draws the faults of a run from one seed. It is safe for concurrent use; which
// connection meets which fault depends on scheduling, so a seed narrows a failure down but does
// not always repeat it.
type moods struct {
	mu     sync.Mutex
	random *rand.Rand
	on     atomic.Bool
}

func (m *moods) oneIn(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on.Load() && m.random.IntN(n) == 0
}

func (m *moods) intN(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.random.IntN(n)
}

// faultyConn loses requests (never sent, half sent) and answers (sent, appended, never heard).
type faultyConn struct {
	net.Conn
	moods *moods
}

var errCut = errors.New("cut by the test")

func (c *faultyConn) Write(b []byte) (int, error) {
	switch {
	case c.moods.oneIn(40):
		c.Conn.Close()
		return 0, errCut
	case c.moods.oneIn(40):
		n, _ := c.Conn.Write(b[:len(b)/2])
		c.Conn.Close()
		return n, errCut
	}
	return c.Conn.Write(b)
}

func (c *faultyConn) Read(b []byte) (int, error) {
	if c.moods.oneIn(40) {
		n, err := c.Conn.Read(b) // the answer was on its way
		c.Conn.Close()
		return 0, errors.Join(errCut, err, fmt.Errorf("%d bytes lost", n))
	}
	return c.Conn.Read(b)
}

// passing are errors of a produce for which nothing was appended.
var passing = []*kerr.Error{kerr.NotLeaderForPartition, kerr.NotEnoughReplicas, kerr.OutOfOrderSequenceNumber, kerr.RequestTimedOut,
	kerr.CorruptMessage, kerr.KafkaStorageError, kerr.UnknownTopicID, kerr.InvalidProducerEpoch, kerr.UnknownServerError}

// refuse makes the destination answer some produces with an error for every partition.
func refuse(f *testenv.Fake, m *moods) {
	f.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		f.KeepControl()
		if !m.oneIn(15) {
			return nil, nil, false
		}
		produce := request.(*kmsg.ProduceRequest)
		answer := produce.ResponseKind().(*kmsg.ProduceResponse)
		code := passing[m.intN(len(passing))].Code
		for _, t := range produce.Topics {
			at := kmsg.NewProduceResponseTopic()
			at.Topic, at.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				ap := kmsg.NewProduceResponseTopicPartition()
				ap.Partition, ap.ErrorCode, ap.BaseOffset = p.Partition, code, -1
				at.Partitions = append(at.Partitions, ap)
			}
			answer.Topics = append(answer.Topics, at)
		}
		return answer, nil, true
	})
}

// TestDestinationEqualsSourceAfterFaults runs two replicators, each of which believes to own
// the mirror, over a destination that loses requests and answers, refuses produces and moves
// leaders, while owners come and go. In the end the destination is the source.
func TestDestinationEqualsSourceAfterFaults(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) { faults(t, seed) })
	}
}

func faults(t *testing.T, seed uint64) {
	const topic, partitions = "chaos", 3
	r, _, destination := fakeRig(t)
	other := newRig(t, r.clusters.source, r.clusters.destination)
	m := &moods{random: rand.New(rand.NewPCG(seed, 1))}
	m.on.Store(true)
	refuse(destination, m)
	r.createTopic(topic, partitions, nil)
	rigs := []*rig{r, other}
	var id state.TopicID
	for i, one := range rigs {
		dial := one.clusters.dial
		one.clusters.dial = func(ctx context.Context, addr string) (net.Conn, error) {
			conn, err := dial(ctx, addr)
			if err != nil {
				return nil, err
			}
			return &faultyConn{conn, m}, nil
		}
		one.settings.Backoff, one.settings.BackoffMax = 5*time.Millisecond, 20*time.Millisecond
		one.settings.FailAfter = 3
		one.store.generation.Store(int64(i + 1))
		one.start()
		id = one.add(topic, partitions)
	}
	total := 0
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); {
		n := 1 + m.intN(40)
		r.produce(topic, int32(m.intN(partitions)), total, n, make([]byte, m.intN(2000)))
		total += n
		if m.oneIn(10) {
			if err := destination.MoveTopicPartition(topic, int32(m.intN(partitions)), int32(m.intN(2))); err != nil {
				t.Fatal(err)
			}
		}
		if m.oneIn(12) { // an owner is frozen, or comes back as a new one
			one := rigs[m.intN(2)].store
			if !one.lost.Swap(true) {
				continue
			}
			one.generation.Add(2)
			one.lost.Store(false)
		}
		for _, one := range rigs {
			for i := range int32(partitions) {
				if p := one.partition(id, i); p.Status == state.Failed && !p.Retriable {
					t.Fatalf("partition %d: %s", i, p.Error)
				}
			}
		}
	}
	m.on.Store(false)
	for _, one := range rigs {
		one.store.generation.Add(2)
		one.store.lost.Store(false)
	}
	r.awaitCaughtUp(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	other.awaitStatus(id, partitions, state.Mirroring)
	r.compare(topic, partitions)
	t.Logf("%d records", total)
}
