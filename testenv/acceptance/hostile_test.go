package acceptance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/testenv"
)

const (
	// hostileKey begins the key of every record of a hostile producer, so that one that was let in is found in the log.
	hostileKey = "hostile-"
	// readOnlyCode is what a refused produce is answered with.
	readOnlyCode = 134
	// hostilePace is how often each of them tries.
	hostilePace = 25 * time.Millisecond
	// hostilePatience is how long one record may be tried.
	hostilePatience = 5 * time.Second
)

// hostile is a producer that aims at a mirror topic by way of the proxy, over and over, whatever the answer.
type hostile struct {
	kind       string
	topic      string
	partitions int
	newClient  func() (*kgo.Client, error)
	attempt    func(context.Context, *kgo.Client, *kgo.Record) error

	attempts, refused, accepted atomic.Int64
	other                       atomic.Pointer[error] // the last that was neither: the proxy or a broker was away
}

// hostiles are one of each kind.
type hostiles struct {
	t      *testing.T
	all    []*hostile
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

func startHostiles(t *testing.T, p *proxy, topic string, partitions int) *hostiles {
	t.Helper()
	kinds := []struct {
		name    string
		opts    []kgo.Opt
		attempt func(context.Context, *kgo.Client, *kgo.Record) error
	}{
		{"idempotent", []kgo.Opt{kgo.AllowIdempotentProduceCancellation()}, produceOne},
		{"acks=0", []kgo.Opt{kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()}, produceOne},
		{"acks=1", []kgo.Opt{kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}, produceOne},
		{"acks=all", []kgo.Opt{kgo.RequiredAcks(kgo.AllISRAcks()), kgo.DisableIdempotentWrite()}, produceOne},
		{"transactional", []kgo.Opt{kgo.TransactionalID(uniqueName("hostile")), kgo.TransactionTimeout(10 * time.Second)}, produceInTransaction},
	}
	ctx, cancel := context.WithCancel(t.Context())
	group := &hostiles{t: t, cancel: cancel}
	t.Cleanup(func() { cancel(); group.ended.Wait() })
	for _, kind := range kinds {
		opts := append([]kgo.Opt{kgo.SeedBrokers(p.Address()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100 * time.Millisecond)}, kind.opts...)
		h := &hostile{kind: kind.name, topic: topic, partitions: partitions, attempt: kind.attempt,
			newClient: func() (*kgo.Client, error) { return kgo.NewClient(opts...) }}
		client, err := h.newClient()
		if err != nil {
			t.Fatalf("hostile producer %s: %v", h.kind, err)
		}
		group.all = append(group.all, h)
		group.ended.Go(func() { h.run(ctx, client) })
	}
	return group
}

func produceOne(ctx context.Context, client *kgo.Client, record *kgo.Record) error {
	return client.ProduceSync(ctx, record).FirstErr()
}

// errUnusable says that a client cannot go on after what happened to it.
type errUnusable struct{ error }

// produceInTransaction commits when the record was accepted, and else aborts: the marker of an empty transaction alone
// would shift the log.
func produceInTransaction(ctx context.Context, client *kgo.Client, record *kgo.Record) error {
	if err := client.BeginTransaction(); err != nil {
		return errUnusable{err}
	}
	produced := produceOne(ctx, client, record)
	end := kgo.TryAbort
	if produced == nil {
		end = kgo.TryCommit
	}
	if err := client.EndTransaction(ctx, end); err != nil {
		return errUnusable{errors.Join(produced, err)}
	}
	return produced
}

func (h *hostile) run(ctx context.Context, client *kgo.Client) {
	defer func() { client.Close() }()
	pace := time.NewTicker(hostilePace)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		record := &kgo.Record{Topic: h.topic, Partition: int32(n % h.partitions), Key: fmt.Appendf(nil, "%s%s-%d", hostileKey, h.kind, n), Value: []byte("not of the source")}
		attempt, cancel := context.WithTimeout(ctx, hostilePatience)
		err := h.attempt(attempt, client, record)
		cancel()
		h.count(err)
		if unusable := (errUnusable{}); errors.As(err, &unusable) {
			fresh, err := h.newClient()
			if err != nil {
				h.other.Store(&err)
				return
			}
			client.Close()
			client = fresh
		}
	}
}

func (h *hostile) count(err error) {
	h.attempts.Add(1)
	var broker *kerr.Error
	switch {
	case err == nil && h.kind != "acks=0": // whose success means no more than that the bytes left
		h.accepted.Add(1)
	case errors.As(err, &broker) && broker.Code == readOnlyCode:
		h.refused.Add(1)
	case err != nil:
		h.other.Store(&err)
	}
}

// tries counts what shows that a hostile producer has got through to the proxy.
func (h *hostile) tries() int64 {
	if h.kind == "acks=0" {
		return h.attempts.Load()
	}
	return h.refused.Load()
}

// AwaitMore waits until each of them was refused so many times more: the proxy is at work, and they at it.
func (g *hostiles) AwaitMore(count int64) {
	g.t.Helper()
	began, before := time.Now(), make([]int64, len(g.all))
	for i, h := range g.all {
		before[i] = h.tries()
	}
	testenv.Eventually(g.t, mirrorTimeout, "hostile producers to be refused", func() error {
		for i, h := range g.all {
			if got := h.tries() - before[i]; got < count {
				last := h.other.Load()
				if last == nil {
					last = new(error)
				}
				return fmt.Errorf("%s was refused %d times, want %d more; the last other error: %v", h.kind, got, count, *last)
			}
		}
		return nil
	})
	g.t.Logf("%d refusals more of each hostile producer: %v", count, time.Since(began).Round(time.Millisecond))
	g.wantNoneAccepted()
}

func (g *hostiles) wantNoneAccepted() {
	g.t.Helper()
	for _, h := range g.all {
		if accepted := h.accepted.Load(); accepted > 0 {
			g.t.Fatalf("%d records of the hostile producer %s were accepted", accepted, h.kind)
		}
	}
}

// Finish ends them; none of their records may have been accepted.
func (g *hostiles) Finish() {
	g.t.Helper()
	g.cancel()
	g.ended.Wait()
	g.wantNoneAccepted()
	for _, h := range g.all {
		g.t.Logf("hostile producer %s: %d attempts, %d refused, %d accepted", h.kind, h.attempts.Load(), h.refused.Load(), h.accepted.Load())
	}
}

// wantNoHostiles wants none of their records, and no transaction marker, in a log.
func wantNoHostiles(t *testing.T, topic string, log [][]entry) {
	t.Helper()
	for partition := range log {
		for _, e := range log[partition] {
			if e.control || strings.HasPrefix(e.key, hostileKey) {
				t.Errorf("%s-%d: offset %d holds %+v, which is not the source's", topic, partition, e.offset, e)
			}
		}
	}
}

// wantMarkersRefused writes a transaction marker by way of the proxy: one alone would shift the log.
func wantMarkersRefused(t *testing.T, p *proxy, topic string) {
	t.Helper()
	client := newClient(t, p.Bootstrap())
	defer client.Close()
	request := kmsg.NewPtrWriteTxnMarkersRequest()
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch = 4711, 0
	aim := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	aim.Topic, aim.Partitions = topic, []int32{0}
	marker.Topics = append(marker.Topics, aim)
	request.Markers = append(request.Markers, marker)
	leader, err := leaderOf(t, client, topic, 0)
	if err != nil {
		t.Fatal(err)
	}
	response, err := request.RequestWith(within(t), client.Broker(int(leader)))
	if err != nil {
		t.Fatalf("write a marker to %s: %v", topic, err)
	}
	if code := response.Markers[0].Topics[0].Partitions[0].ErrorCode; code != readOnlyCode {
		t.Fatalf("a transaction marker to %s-0 was answered with error code %d, want %d", topic, code, readOnlyCode)
	}
}
