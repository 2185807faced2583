package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KafkaConfig configures a store in the topic __mirror_state. Zero values of numbers and durations mean the defaults.
type KafkaConfig struct {
	// Opts reach the destination cluster: seed brokers, security. No consumer or producer options.
	Opts []kgo.Opt
	// Partitions and ReplicationFactor of __mirror_state when it is created: 50, and 3 or the number of brokers where there
	// are fewer. An existing topic is taken with the partitions that it has.
	Partitions        int32
	ReplicationFactor int16
	// InstanceID tells this process from the others; Address is where clients find it (host:port).
	InstanceID, Address string
	// HeartbeatInterval (1 s) is how often the owner says that it lives, LeaseDuration (4 s) how long it may act on one
	// heartbeat, TakeoverAfter (8 s) how long another waits without having seen one.
	HeartbeatInterval, LeaseDuration, TakeoverAfter time.Duration
	// AcceptMissing takes a __mirror_state that has lost its content as empty: everything that was mirrored becomes writable.
	// Only the first time that this store loads: content that goes missing later is never accepted.
	AcceptMissing bool
	Log           zerolog.Logger
}

func (c KafkaConfig) withDefaults() (KafkaConfig, error) {
	setDefault(&c.Partitions, 50)
	setDefault(&c.ReplicationFactor, 3)
	setDefault(&c.HeartbeatInterval, time.Second)
	setDefault(&c.LeaseDuration, 4*time.Second)
	setDefault(&c.TakeoverAfter, 8*time.Second)
	switch {
	case c.InstanceID == "":
		return c, errors.New("an instance id is needed")
	case c.Partitions < 1 || c.ReplicationFactor < 1:
		return c, fmt.Errorf("%s with %d partitions and replication factor %d makes no sense", stateTopic, c.Partitions, c.ReplicationFactor)
	case c.HeartbeatInterval < 0 || c.HeartbeatInterval >= c.LeaseDuration || c.LeaseDuration >= c.TakeoverAfter:
		return c, fmt.Errorf("the heartbeat interval (%v) must be below the lease duration (%v), and that below the time after which another takes over (%v)",
			c.HeartbeatInterval, c.LeaseDuration, c.TakeoverAfter)
	}
	return c, nil
}

func setDefault[T comparable](v *T, value T) {
	if *v == *new(T) {
		*v = value
	}
}

// Kafka is a Store in the compacted topic __mirror_state on the destination. Run owns everything that moves; the other
// methods may be called from any goroutine at any time.
//
// The log alone is the truth: views come from what was read back from it (READ_COMMITTED), the owner's own changes
// included. So there is nothing to undo when the outcome of a transaction is unknown, and the owner and a standby are
// the same code. The owner writes in transactions; whoever asks for the transactional id's next epoch fences it.
type Kafka struct {
	cfg KafkaConfig
	// base is the origin of leaseUntil; its monotonic clock goes on while the process is stopped.
	base       time.Time
	leaseUntil atomic.Int64 // nanoseconds since base
	// confirmedAt is when the view was last known to show all there is, in nanoseconds since base; 0 for never.
	confirmedAt atomic.Int64
	generation  atomic.Int64
	ownership   atomic.Pointer[ownership] // nil unless this process is the owner
	problem     atomic.Pointer[string]
	view        atomic.Pointer[View]
	subscribers

	mu       sync.Mutex
	revision int64 // of the newest view

	// transactionTimeout bounds each transaction of the owner, and each write outside of one.
	transactionTimeout time.Duration
	// beforeTransaction is for tests that freeze or break an owner; nil otherwise.
	beforeTransaction func(ctx context.Context) error
}

// OpenKafka checks the configuration. Nothing is loaded, nor connected to, before Run.
func OpenKafka(cfg KafkaConfig) (*Kafka, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open the state store: %w", err)
	}
	k := &Kafka{cfg: cfg, base: time.Now(), transactionTimeout: 10 * time.Second}
	k.view.Store(newDraft().view())
	k.setProblem("the state of the mirrors has not been loaded yet")
	return k, nil
}

// View implements Store.
func (k *Kafka) View() *View { return k.view.Load() }

// Lease implements Store.
func (k *Kafka) Lease() bool { return int64(time.Since(k.base)) < k.leaseUntil.Load() }

// Fresh says that the view is loaded and shows every change that was made until LeaseDuration ago at the latest. A
// process that was stopped, or cannot read the log, must not judge by what it knew then.
func (k *Kafka) Fresh() bool {
	at := k.confirmedAt.Load()
	return k.View().Loaded() && at > 0 && time.Since(k.base)-time.Duration(at) < k.cfg.LeaseDuration
}

// FreshView is the view to judge clients by: it is not Loaded while it may be out of date, so that a proxy that was stopped
// for a while lets nothing through by what it knew then. What must not depend on that it shows all the same, above all
// the id of the state topic.
func (k *Kafka) FreshView() *View {
	if k.Fresh() {
		return k.View()
	}
	return k.View().unloaded()
}

// Generation implements Store.
func (k *Kafka) Generation() int64 { return k.generation.Load() }

// Problem says why the state is not loaded, "" when it is.
func (k *Kafka) Problem() string { return *k.problem.Load() }

func (k *Kafka) setProblem(text string) { k.problem.Store(&text) }

// Do implements Store.
func (k *Kafka) Do(ctx context.Context, commands ...Command) error {
	view := k.View()
	if !view.Loaded() {
		return refuse(CodeNotLoaded, "The state of the mirrors is not loaded: %s.", k.Problem())
	}
	o := k.ownership.Load()
	if o == nil {
		return k.notOwner(view)
	}
	r := &request{ctx: ctx, commands: commands, result: make(chan error, 1)}
	select {
	case o.requests <- r:
	case <-o.ended:
		return k.notOwner(view)
	case <-ctx.Done():
		return fmt.Errorf("change the state of the mirrors: %w", ctx.Err())
	}
	select {
	case err := <-r.result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("change the state of the mirrors: %w", ctx.Err())
	}
}

func (k *Kafka) notOwner(view *View) *Error {
	owner := view.Owner()
	if owner.InstanceID == "" || owner.InstanceID == k.cfg.InstanceID {
		return refuse(CodeNotOwner, "No proxy owns the mirrors at this moment; try again.")
	}
	return refuse(CodeNotOwner, "The mirrors are owned by the proxy at %s; ask that one.", owner.Address)
}

// Run loads the state, follows it, and owns the mirrors while it may, until ctx ends; then it gives the ownership back.
// End whatever writes to mirror topics before ctx: who takes over from a release does not wait for a lease to run out.
// It tries for ever; Problem says what is in the way. The error is always nil.
func (k *Kafka) Run(ctx context.Context) error {
	for {
		err := k.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		k.unload(err)
		select {
		case <-time.After(k.cfg.HeartbeatInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

// unload makes it known that the state cannot be relied on any more, or still not.
func (k *Kafka) unload(reason error) {
	text := reason.Error()
	if text != k.Problem() {
		k.cfg.Log.Error().Err(reason).Msg("the state of the mirrors is not loaded")
	}
	k.setProblem(text)
	if old := k.View(); old.loaded {
		k.publish(old.unloaded())
	}
}

// publish makes v the newest view.
func (k *Kafka) publish(v *View) {
	k.mu.Lock()
	k.revision++
	v.revision = k.revision
	k.view.Store(v)
	k.mu.Unlock()
	k.notify()
}

// session is one life with one loaded log: from finding the topic until it cannot be relied on any more (an error) or
// ctx ends.
func (k *Kafka) session(ctx context.Context) error {
	// The readers outlive ctx, so that the release at the end is not cut off.
	reading, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)

	client, err := kgo.NewClient(append(k.clientOpts(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),                    // or the end of a log that ends in one would never be reached
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), // a log that lost its end or start is not to be read on
		kgo.FetchMaxWait(500*time.Millisecond),
		kgo.DisableIdempotentWrite(), // writes only sync and born records, which may be doubled
	)...)
	if err != nil {
		return fmt.Errorf("make a client for the destination: %w", err)
	}
	defer client.Close()

	topic, err := k.openTopic(ctx, client)
	if err != nil {
		return err
	}
	t := newTail(k, client, topic)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	running.Go(func() { stop(t.follow(reading)) })
	running.Go(func() { stop(t.watch(reading)) })
	running.Go(func() { stop(t.confirm(reading)) })

	living, end := context.WithCancelCause(ctx) // ends with ctx, and with the readers
	defer end(nil)
	context.AfterFunc(reading, func() { end(context.Cause(reading)) })

	if err := t.load(living); err != nil {
		return cause(living, err)
	}
	k.setProblem("")
	k.cfg.AcceptMissing = false
	t.publishLoaded()
	k.cfg.Log.Info().Int32("partitions", topic.partitions).Msg("the state of the mirrors is loaded")
	k.lead(living, reading, t)
	return cause(living, living.Err())
}

// cause prefers why ctx was cancelled to the error that came of it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (k *Kafka) clientOpts() []kgo.Opt {
	opts := append([]kgo.Opt(nil), k.cfg.Opts...)
	return append(opts,
		kgo.DisableClientMetrics(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MetadataMinAge(250*time.Millisecond),
		kgo.RetryTimeout(requestTimeout),
		kgo.RecordDeliveryTimeout(k.transactionTimeout),
	)
}

// requestTimeout bounds the retries of one request: after it the error is shown, and everything is tried again.
const requestTimeout = 5 * time.Second

var (
	_ Store = (*Kafka)(nil)
	_ Store = (*Memory)(nil)
)
