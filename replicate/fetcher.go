package replicate

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/replicate/produce"
)

// coderLimitBytes bounds what a source batch may decompress to when it has to be looked into.
const coderLimitBytes = 64 << 20

// shortWait is the wait for data while some partition has no room: its room comes back at any
// moment, and a long poll for the others must not keep it waiting.
const shortWait = 10 * time.Millisecond

// fetchSink takes what was fetched for a partition. Its methods are called on the fetcher's
// goroutine and must not block.
type fetchSink interface {
	// wants is what to fetch next, and the leader epoch of the record before it; ok is false while there is no room.
	wants() (offset int64, epoch int32, ok bool)
	// deliver brings an answer without an error: batches (whole ones, the last may be cut), and where the source's log begins
	// and ends. held is given back by whoever keeps parts of them beyond the call; coder may be used during the call.
	deliver(answer *kmsg.FetchResponseTopicPartition, held *holding, coder *batch.Coder)
	// broken ends fetching for this partition.
	broken(fault *produce.Fault)
}

// fetchKey names a partition in a Fetch answer by topic name or id.
type fetchKey struct {
	topic     string
	partition int32
}

// fetcher fetches from one broker of one source for many partitions (there may be several such), one request at a time. One
// goroutine (run) does that; partitions come and go from any.
type fetcher struct {
	source  *source
	cluster *connect.Cluster
	client  *kgo.Client
	broker  int32
	index   int // among those of the broker
	wake    chan struct{}
	coder   *batch.Coder // of run, made when first needed

	bytes, requests atomic.Int64

	mu         sync.Mutex
	partitions map[fetchKey]*fetchPartition
	ended      bool
	order      []*fetchPartition // round robin: an answer is full before its last partitions have their turn
}

type fetchPartition struct {
	key  fetchKey
	id   [16]byte
	sink fetchSink
	// leaderEpoch is of the leader that the session has compared itself with. A broker that is not the leader in this epoch
	// answers with an error: it would serve a fetch without one as a follower, also after it has cut its log back.
	leaderEpoch int32
}

func newFetcher(s *source, cluster *connect.Cluster, client *kgo.Client, key fetcherKey) *fetcher {
	return &fetcher{source: s, cluster: cluster, client: client, broker: key.broker, index: key.index, wake: make(chan struct{}, 1), partitions: map[fetchKey]*fetchPartition{}}
}

// clientID names the fetcher in metrics as Kafka names its fetcher threads (KIP-1279).
func (f *fetcher) clientID() string {
	return fmt.Sprintf("MirrorFetcherThread-%d-%d-%s", f.index, f.broker, f.source.mirror.Name)
}

func (f *fetcher) address() (host, port string) {
	addr, _ := f.cluster.Addr(f.broker)
	host, port, _ = net.SplitHostPort(addr)
	return host, port
}

// add begins to fetch a partition, instead of whoever fetched it before.
func (f *fetcher) add(topic connect.Topic, partition int32, sink fetchSink) *fetchPartition {
	p := &fetchPartition{key: fetchKey{topic.Name, partition}, id: topic.ID, sink: sink, leaderEpoch: -1}
	if leader, err := topic.Leader(partition); err == nil {
		p.leaderEpoch = leader.Epoch
	}
	f.mu.Lock()
	if f.ended {
		f.mu.Unlock()
		sink.broken(f.over())
		return p
	}
	if old := f.partitions[p.key]; old != nil {
		f.drop(old)
	}
	f.partitions[p.key] = p
	f.order = append(f.order, p)
	f.mu.Unlock()
	f.nudge()
	return p
}

// remove ends fetching a partition. A delivery may still be under way.
func (f *fetcher) remove(p *fetchPartition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(p)
}

// drop forgets a partition. Called with mu held.
func (f *fetcher) drop(p *fetchPartition) {
	if f.partitions[p.key] == p {
		delete(f.partitions, p.key)
	}
	for i, other := range f.order {
		if other == p {
			f.order = append(f.order[:i], f.order[i+1:]...)
			return
		}
	}
}

// nudge makes the fetcher look again at who has room.
func (f *fetcher) nudge() {
	select {
	case f.wake <- struct{}{}:
	default: // a token is there already
	}
}

// over is what its partitions are told when a fetcher ends: their sessions begin anew with another one.
func (f *fetcher) over() *produce.Fault {
	return produce.Faultf(produce.Stale, "the connection to broker %d of the source of mirror %s was given up", f.broker, f.source.mirror.Name)
}

func (f *fetcher) end() {
	f.mu.Lock()
	f.ended = true
	order := f.order
	f.order = nil
	clear(f.partitions)
	f.mu.Unlock()
	for _, p := range order {
		p.sink.broken(f.over())
	}
}

func (f *fetcher) run(ctx context.Context) {
	defer f.end()
	for ctx.Err() == nil {
		request, asked := f.request()
		if len(asked) == 0 {
			select {
			case <-f.wake:
			case <-ctx.Done():
			}
			continue
		}
		f.fetch(ctx, request, asked)
	}
}

// request asks for every partition with room. The first of asked is behind the last next time.
func (f *fetcher) request() (*kmsg.FetchRequest, []*fetchPartition) {
	settings := &f.source.owner.cfg.Settings
	r := kmsg.NewPtrFetchRequest()
	r.ReplicaID, r.MinBytes, r.MaxBytes, r.SessionEpoch = -1, 1, settings.FetchBytes, -1
	r.IsolationLevel = 1 // only what is decided: below the last stable offset
	r.MaxWaitMillis = int32(settings.FetchWait.Milliseconds())
	f.mu.Lock()
	defer f.mu.Unlock()
	var asked []*fetchPartition
	topics := map[string]int{}
	for _, p := range f.order {
		offset, epoch, ok := p.sink.wants()
		if !ok {
			r.MaxWaitMillis = int32(shortWait.Milliseconds())
			continue
		}
		at, known := topics[p.key.topic]
		if !known {
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = p.key.topic, p.id
			at = len(r.Topics)
			topics[p.key.topic] = at
			r.Topics = append(r.Topics, t)
		}
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.CurrentLeaderEpoch, fp.FetchOffset, fp.LastFetchedEpoch = p.key.partition, p.leaderEpoch, offset, epoch
		fp.PartitionMaxBytes = settings.FetchPartitionBytes
		r.Topics[at].Partitions = append(r.Topics[at].Partitions, fp)
		asked = append(asked, p)
	}
	if len(f.order) > 1 {
		f.order = append(f.order[1:], f.order[0])
	}
	return r, asked
}

// fetch does one request and hands out the answer.
func (f *fetcher) fetch(ctx context.Context, request *kmsg.FetchRequest, asked []*fetchPartition) {
	settings := &f.source.owner.cfg.Settings
	budget := f.source.owner.budget
	reserved := min(int64(settings.FetchBytes), int64(len(asked))*int64(settings.FetchPartitionBytes))
	if budget.Acquire(ctx, reserved) != nil {
		return
	}
	answer, err := request.RequestWith(ctx, f.client.Broker(int(f.broker)))
	if ctx.Err() != nil {
		budget.Adjust(-reserved)
		return
	}
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	f.requests.Add(1)
	if err != nil {
		budget.Adjust(-reserved)
		fault := produce.Because(produce.Retry, err, "fetch from broker %d of the source of mirror %s", f.broker, f.source.mirror.Name)
		f.source.trouble(fault)
		for _, p := range asked {
			f.fail(p, fault)
		}
		return
	}
	f.source.trouble(nil)
	size := int64(0)
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			size += int64(len(p.RecordBatches))
		}
	}
	f.bytes.Add(size)
	budget.Adjust(size - reserved)
	held := budget.hold(size)
	defer held.release()
	f.handOut(answer, asked, held)
}

func (f *fetcher) handOut(answer *kmsg.FetchResponse, asked []*fetchPartition, held *holding) {
	byName := make(map[fetchKey]*fetchPartition, len(asked))
	names := map[[16]byte]string{}
	f.mu.Lock()
	for _, p := range asked {
		if f.partitions[p.key] == p { // it may have been removed, or replaced, meanwhile
			byName[p.key] = p
			names[p.id] = p.key.topic
		}
	}
	f.mu.Unlock()
	for ti := range answer.Topics {
		t := &answer.Topics[ti]
		name := t.Topic
		if answer.Version >= 13 {
			name = names[t.TopicID]
		}
		for pi := range t.Partitions {
			if p := byName[fetchKey{name, t.Partitions[pi].Partition}]; p != nil {
				f.deliver(p, &t.Partitions[pi], held)
			}
		}
	}
}

func (f *fetcher) deliver(p *fetchPartition, answer *kmsg.FetchResponseTopicPartition, held *holding) {
	if fault := f.verdict(p, answer); fault != nil {
		f.fail(p, fault)
		return
	}
	if f.coder == nil && len(answer.RecordBatches) > 0 {
		coder, err := batch.NewCoder(batch.CoderConfig{LimitBytes: coderLimitBytes})
		if err != nil {
			f.fail(p, produce.Because(produce.Refused, err, "fetch %s-%d", p.key.topic, p.key.partition))
			return
		}
		f.coder = coder
	}
	p.sink.deliver(answer, held, f.coder)
}

func (f *fetcher) fail(p *fetchPartition, fault *produce.Fault) {
	f.remove(p)
	p.sink.broken(fault)
}

// verdict judges the answer for a partition; nil when there is data, or none yet.
func (f *fetcher) verdict(p *fetchPartition, answer *kmsg.FetchResponseTopicPartition) *produce.Fault {
	where := fmt.Sprintf("fetch %s-%d from broker %d of the source", p.key.topic, p.key.partition, f.broker)
	switch err := kerr.ErrorForCode(answer.ErrorCode); err {
	case nil:
	case kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed:
		return produce.Because(produce.Refused, err, "%s (it takes the right to READ the topic)", where)
	default: // out of range, moved, deleted, recreated: Align and the source's metadata tell
		return produce.Because(produce.Retry, err, "%s", where)
	}
	if d := answer.DivergingEpoch; d.Epoch >= 0 && d.EndOffset >= 0 {
		next, _, _ := p.sink.wants() // the record before it is not there, at least
		return historyRewritten(p.key.topic+"-"+strconv.Itoa(int(p.key.partition)), d.Epoch, d.EndOffset, min(d.EndOffset, next-1))
	}
	return nil
}
