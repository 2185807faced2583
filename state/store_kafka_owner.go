package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Limits of one group commit.
const (
	maxRequestsPerCommit = 1_000
	maxRecordsPerCommit  = 20_000
)

// errOwnerChanged: between the decision to take over and the fence somebody else did.
var errOwnerChanged = errors.New("another proxy has taken over meanwhile")

// request is one call of Do on its way to the owner's loop, which always answers it.
type request struct {
	ctx      context.Context
	commands []Command
	result   chan error // capacity 1
}

// ownership is one time of being the owner, from take-over to release or loss. Its loop runs in Run's goroutine.
type ownership struct {
	kafka    *Kafka
	tail     *tail
	producer *kgo.Client // transactional; used for this ownership only
	requests chan *request
	ended    chan struct{} // closed when no request is taken any more
	self     ownerState
}

// lead waits until the mirrors have no owner, takes over, and serves, again and again until ctx ends. Transactions under
// way when ctx ends are finished under outer.
func (k *Kafka) lead(ctx, outer context.Context, t *tail) {
	lost := int64(0) // the generation that this process lost last
	for ctx.Err() == nil {
		observed := t.awaitVacancy(ctx, lost)
		if ctx.Err() != nil {
			return
		}
		o, err := k.takeOver(ctx, t, observed)
		if err == nil {
			lost = o.self.Generation
			k.cfg.Log.Info().Int64("generation", lost).Msg("this proxy owns the mirrors")
			err = o.serve(ctx, outer)
		}
		if ctx.Err() != nil {
			return
		}
		k.cfg.Log.Warn().Err(err).Msg("this proxy does not own the mirrors")
		select {
		case <-time.After(k.cfg.HeartbeatInterval):
		case <-ctx.Done():
		}
	}
}

// awaitVacancy returns, with the owner record that it concludes from, when there never was an owner, the last one
// released, or none has been heard for TakeoverAfter. An owner that was this very process, in the generation lost, need
// not be waited for: it has stopped already.
func (t *tail) awaitVacancy(ctx context.Context, lost int64) ownerState {
	cfg := t.kafka.cfg
	for {
		owner, seenAt, moved := t.lastOwner()
		own := owner.InstanceID == cfg.InstanceID && owner.Generation == lost
		wait := time.Until(seenAt.Add(cfg.TakeoverAfter))
		if owner.InstanceID == "" || owner.Released || own || wait <= 0 {
			return owner
		}
		timer := time.NewTimer(wait)
		select {
		case <-moved:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return owner
		}
		timer.Stop()
	}
}

// checkVacancy reads up to this moment and fails when the owner record is not the one observed any more. A process that
// was stopped for a while concludes from what it had read before; it must not fence an owner that lives.
func (t *tail) checkVacancy(ctx context.Context, observed ownerState) error {
	ctx, cancel := context.WithTimeout(ctx, t.kafka.transactionTimeout)
	defer cancel()
	written, err := t.produce(ctx, t.syncRecords()...)
	if err != nil {
		return err
	}
	if err := t.await(ctx, written); err != nil {
		return err
	}
	return t.checkOwner(observed)
}

func (t *tail) checkOwner(observed ownerState) error {
	if last, _, _ := t.lastOwner(); last != observed {
		return errOwnerChanged
	}
	return nil
}

// takeOver fences whoever was owner and becomes it, unless the owner record is no longer the one observed: then somebody
// took over between, whose lease may still run although it is fenced now.
func (k *Kafka) takeOver(ctx context.Context, t *tail, observed ownerState) (*ownership, error) {
	if err := t.checkVacancy(ctx, observed); err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	producer, err := kgo.NewClient(append(k.clientOpts(),
		kgo.TransactionalID(OwnerTransactionalID),
		kgo.TransactionTimeout(k.transactionTimeout),
	)...)
	if err != nil {
		return nil, fmt.Errorf("take over: make a client: %w", err)
	}
	o := &ownership{kafka: k, tail: t, producer: producer, requests: make(chan *request), ended: make(chan struct{})}
	if err := o.begin(ctx, observed); err != nil {
		producer.Close()
		return nil, fmt.Errorf("take over: %w", err)
	}
	return o, nil
}

func (o *ownership) begin(ctx context.Context, observed ownerState) error {
	initializing, cancel := context.WithTimeout(ctx, 2*o.kafka.transactionTimeout)
	defer cancel()
	if _, _, err := o.producer.ProducerID(initializing); err != nil {
		return fmt.Errorf("initialize the producer: %w", err)
	}
	// From here on nobody else's transaction commits. Reading our own records back from every partition shows all of them.
	if _, err := o.transact(ctx, o.tail.syncRecords()); err != nil {
		return err
	}
	if err := o.tail.checkOwner(observed); err != nil {
		return err
	}
	o.self.Owner = Owner{InstanceID: o.kafka.cfg.InstanceID, Address: o.kafka.cfg.Address, Generation: observed.Generation + 1}
	start, err := o.transact(ctx, []*kgo.Record{o.heartbeat()})
	if err != nil {
		return err
	}
	o.kafka.generation.Store(o.self.Generation)
	o.renewLease(start)
	o.kafka.ownership.Store(o)
	return nil
}

// heartbeat is the owner record of the next transaction.
func (o *ownership) heartbeat() *kgo.Record {
	o.self.Heartbeat++
	return o.tail.kafkaRecord(ownerRecord{o.self})
}

func (o *ownership) renewLease(start time.Time) {
	o.kafka.leaseUntil.Store(int64(start.Sub(o.kafka.base) + o.kafka.cfg.LeaseDuration))
}

// serve carries out requests and heartbeats until ctx ends or the ownership is lost.
func (o *ownership) serve(ctx, outer context.Context) error {
	err := o.loop(ctx, outer)
	o.kafka.leaseUntil.Store(0)
	o.kafka.generation.Store(0)
	o.kafka.ownership.Store(nil)
	close(o.ended)
	if err == nil {
		err = o.release(outer)
	}
	o.producer.Close()
	return err
}

func (o *ownership) loop(ctx, outer context.Context) error {
	heartbeats := time.NewTicker(o.kafka.cfg.HeartbeatInterval)
	defer heartbeats.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-heartbeats.C:
			err = o.commit(outer, nil)
		case r := <-o.requests:
			err = o.commit(outer, r)
		}
		if err != nil {
			return err
		}
	}
}

// commit decides the request, and those that wait behind it, and stores what they change in one transaction together
// with a heartbeat.
func (o *ownership) commit(ctx context.Context, first *request) error {
	batch, decided, records := o.decide(first)
	if first != nil && len(records) == 0 && o.kafka.Lease() {
		answer(batch, decided, nil) // nothing to store: what was decided follows from what is stored
		return nil
	}
	kafkaRecords := make([]*kgo.Record, 0, len(records)+1)
	for _, r := range records {
		kafkaRecords = append(kafkaRecords, o.tail.kafkaRecord(r))
	}
	start, err := o.transact(ctx, append(kafkaRecords, o.heartbeat()))
	if err == nil {
		o.renewLease(start)
	}
	answer(batch, decided, err)
	return err
}

// answer tells each request what became of it; lost is why the transaction failed, if it did.
func answer(batch []*request, decided []error, lost error) {
	for i, r := range batch {
		switch {
		case decided[i] != nil:
			r.result <- decided[i]
		case lost != nil:
			r.result <- fmt.Errorf("%w (%w)", ErrOutcomeUnknown, lost)
		default:
			r.result <- nil
		}
	}
}

// decide collects the requests that wait and decides them one after another, each on what those before it change. A
// refused one is alone in that.
func (o *ownership) decide(first *request) (batch []*request, decided []error, records []record) {
	if first == nil {
		return nil, nil, nil
	}
	o.tail.mu.Lock()
	pending := o.tail.draft.fork()
	o.tail.mu.Unlock()
	for r := first; r != nil; r = o.nextRequest() {
		var changes []record
		err := r.ctx.Err()
		if err == nil {
			changes, err = pending.decideAll(r.commands, time.Now().UnixMilli())
		}
		batch, decided, records = append(batch, r), append(decided, err), append(records, changes...)
		if len(batch) >= maxRequestsPerCommit || len(records) >= maxRecordsPerCommit {
			break
		}
	}
	return batch, decided, records
}

func (o *ownership) nextRequest() *request {
	select {
	case r := <-o.requests:
		return r
	default:
		return nil
	}
}

// transact commits the records in one transaction and returns when they have been read back; start is a moment before
// the transaction began. After an error its outcome is unknown and the ownership is over.
func (o *ownership) transact(ctx context.Context, records []*kgo.Record) (start time.Time, err error) {
	start = time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.kafka.transactionTimeout)
	defer cancel()
	o.tail.hold()
	defer o.tail.release()
	written, err := o.write(ctx, records)
	if err != nil {
		return start, err
	}
	return start, o.tail.await(ctx, written)
}

func (o *ownership) write(ctx context.Context, records []*kgo.Record) (ends, error) {
	if hook := o.kafka.beforeTransaction; hook != nil {
		if err := hook(ctx); err != nil {
			return nil, err
		}
	}
	// Not every call heeds ctx: records that may have reached a broker cannot be cancelled, as their sequence numbers are
	// used up. Closing the client ends them all, and after an error this one is of no use any more anyway.
	stop := context.AfterFunc(ctx, o.producer.Close)
	defer stop()
	if err := o.producer.BeginTransaction(); err != nil {
		return nil, fmt.Errorf("begin a transaction: %w", err)
	}
	written, err := produceAll(ctx, o.producer, records)
	if err != nil {
		return nil, err // the next epoch aborts it, ours or another's; until then nobody sees it
	}
	if err := o.producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return nil, fmt.Errorf("commit a transaction: %w", err)
	}
	return written, nil
}

// release tells the next owner that nothing of this one is left behind.
func (o *ownership) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	o.self.Released = true
	if _, err := o.write(ctx, []*kgo.Record{o.heartbeat()}); err != nil {
		return fmt.Errorf("release the ownership: %w", err)
	}
	o.kafka.cfg.Log.Info().Int64("generation", o.self.Generation).Msg("this proxy has released the mirrors")
	return nil
}
