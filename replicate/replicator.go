package replicate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// leaseLook is how often the lease is looked at beside every change of the view.
const leaseLook = 500 * time.Millisecond

// Replicator copies what the view says while this process owns the mirrors.
type Replicator struct {
	cfg    Config
	budget *Budget
	filler *batch.FillerMaker

	wrongOffsets atomic.Int64

	left map[state.PartitionID]state.Progress // of Run: what the last tenure left

	mu     sync.Mutex
	tenure *tenure // nil while this process is not the owner
}

// New makes a Replicator.
func New(cfg Config) (*Replicator, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	filler, err := batch.NewFillerMaker(batch.FillerMakerConfig{Cached: 8})
	if err != nil {
		return nil, err
	}
	return &Replicator{cfg: cfg, budget: NewBudget(cfg.Settings.BudgetBytes), filler: filler}, nil
}

// Run replicates until ctx ends. It then waits for the answers to what is in flight and records
// that it stopped cleanly, so the store (and the lease) must outlive it.
func (r *Replicator) Run(ctx context.Context) error {
	changed, cancel := r.cfg.Store.Subscribe()
	defer cancel()
	ticker := time.NewTicker(leaseLook)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if err := r.reconcile(); err != nil {
			r.endTenure()
			return err
		}
		select {
		case <-changed:
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	r.endTenure()
	return nil
}

// reconcile begins or ends a tenure as the lease says, and brings its runners in line with the view.
func (r *Replicator) reconcile() error {
	generation := r.cfg.Store.Generation()
	owner := r.cfg.Store.Lease() && generation != 0 && r.cfg.Store.View().Loaded()
	if t := r.current(); t != nil && (!owner || t.generation != generation) {
		r.cfg.Log.Info().Int64("generation", t.generation).Msg("the mirrors are not ours any more; replication ends")
		r.endTenure()
	}
	if !owner {
		return nil
	}
	t := r.current()
	if t == nil {
		var err error
		if t, err = r.newTenure(generation); err != nil {
			return err
		}
		r.cfg.Log.Info().Int64("generation", generation).Msg("this process owns the mirrors; replication begins")
	}
	t.reconcile()
	return nil
}

func (r *Replicator) current() *tenure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tenure
}

func (r *Replicator) endTenure() {
	r.mu.Lock()
	t := r.tenure
	r.tenure = nil
	r.mu.Unlock()
	if t != nil {
		t.end()
		r.left = t.left
	}
}

// tenure is the time of one ownership: runners, sources and the produce engine live and end with
// it, so that nothing of an ownership that was lost goes on in the next one. reconcile and end
// are called by one goroutine.
type tenure struct {
	cfg        *Config
	log        zerolog.Logger
	generation int64
	budget     *Budget
	filler     *batch.FillerMaker
	engine     *produce.Engine

	ctx          context.Context // ends the runners
	cancel       context.CancelFunc
	engineCtx    context.Context // ends the connections, after the runners
	cancelEngine context.CancelFunc
	group        sync.WaitGroup // of the engine

	// before is what the last tenure of this process would have stored about partitions that were
	// answered for, had it not lost the ownership. A short loss is no unclean end.
	before map[state.PartitionID]state.Progress

	mu         sync.Mutex
	partitions map[state.PartitionID]*partition
	sources    map[string]*source
	handing    map[state.TopicID]*handOver
	left       map[state.PartitionID]state.Progress // becomes before in the next one
	destID     string
}

func (r *Replicator) newTenure(generation int64) (*tenure, error) {
	s := &r.cfg.Settings
	engine, err := produce.New(produce.Config{
		Client: r.cfg.Clusters.Destination(), Dial: r.cfg.Clusters.DialDestination, Now: r.cfg.Clock,
		Lease:                func() bool { return owns(r.cfg.Store, generation) },
		ConnectionsPerBroker: s.ConnectionsPerBroker, RequestBytes: s.RequestBytes, CheckToSend: s.CheckToSend,
		WrongOffsets: &r.wrongOffsets,
	})
	if err != nil {
		return nil, err
	}
	t := &tenure{
		cfg: &r.cfg, log: r.cfg.Log, generation: generation, budget: r.budget, filler: r.filler, engine: engine,
		partitions: map[state.PartitionID]*partition{}, sources: map[string]*source{}, handing: map[state.TopicID]*handOver{},
		before: r.left, left: map[state.PartitionID]state.Progress{},
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.engineCtx, t.cancelEngine = context.WithCancel(context.Background())
	t.group.Go(func() { t.engine.Run(t.engineCtx) })
	t.group.Go(func() { t.keepExpiration(t.ctx) })
	r.mu.Lock()
	r.tenure = t
	r.mu.Unlock()
	return t, nil
}

// owns says that this process still has the ownership that the tenure began with: a lease of
// another generation is not the tenure's.
func (t *tenure) owns() bool { return owns(t.cfg.Store, t.generation) }

func owns(store state.Store, generation int64) bool {
	return store.Lease() && store.Generation() == generation
}

// reconcile starts a runner for every mirror partition of the view, ends those of what is gone,
// and wakes all others to look at what has changed.
func (t *tenure) reconcile() {
	view := t.cfg.Store.View()
	t.reconcileSources(view)
	wanted := map[state.PartitionID]bool{}
	for _, mirror := range view.Mirrors() {
		for _, topic := range view.TopicsOf(mirror.Name) {
			for i := range topic.Partitions {
				wanted[state.PartitionID{Topic: topic.ID, Partition: i}] = true
			}
		}
	}
	t.mu.Lock()
	var gone []*partition
	for id, p := range t.partitions {
		if !wanted[id] {
			gone = append(gone, p)
			delete(t.partitions, id)
		} else {
			delete(wanted, id)
			p.nudge()
		}
	}
	for id := range wanted {
		p := newPartition(t, id)
		t.partitions[id] = p
		go p.run()
	}
	t.mu.Unlock()
	for _, p := range gone { // all at once: each may wait for an answer
		p.cancel()
	}
	for _, p := range gone {
		p.end()
		t.cfg.Live.Remove(p.id)
	}
}

// reconcileSources ends the sources of mirrors that are gone or were altered; runners that use
// one find their fetcher ended and connect anew.
func (t *tenure) reconcileSources(view *state.View) {
	t.mu.Lock()
	var old []*source
	for name, s := range t.sources {
		if mirror, ok := view.Mirror(name); !ok || mirror.Revision != s.mirror.Revision {
			old = append(old, s)
			delete(t.sources, name)
		}
	}
	t.mu.Unlock()
	for _, s := range old {
		s.close()
		t.cfg.Live.SetMirrorError(s.mirror.Name, "")
	}
}

// source is the source of a mirror as the view configures it.
func (t *tenure) source(mirror *state.Mirror) *source {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sources[mirror.Name]
	if s == nil {
		s = newSource(t, mirror)
		t.sources[mirror.Name] = s
	}
	return s
}

// destinationID is the destination's cluster id.
func (t *tenure) destinationID(ctx context.Context) (string, error) {
	t.mu.Lock()
	id := t.destID
	t.mu.Unlock()
	if id != "" {
		return id, nil
	}
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{} // none; nil would mean all
	answer, err := request.RequestWith(ctx, t.cfg.Clusters.Destination())
	if err != nil {
		return "", err
	}
	if answer.ClusterID == nil {
		return "", errors.New("it has none")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.destID = *answer.ClusterID
	return t.destID, nil
}

// leave notes what could not be stored about a partition whose runner ends.
func (t *tenure) leave(id state.PartitionID, progress state.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left[id] = progress
}

// end stops everything, runners first, and waits.
func (t *tenure) end() {
	t.cancel()
	t.mu.Lock()
	partitions, sources := t.partitions, t.sources
	t.partitions, t.sources = map[state.PartitionID]*partition{}, map[string]*source{}
	t.mu.Unlock()
	for id, p := range partitions {
		p.end()
		t.cfg.Live.Remove(id)
	}
	for _, s := range sources {
		s.close()
		t.cfg.Live.SetMirrorError(s.mirror.Name, "")
	}
	t.cancelEngine()
	t.group.Wait()
}
