package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// tail reads __mirror_state into a draft and publishes views. follow is its only reader; the others wait for what it has
// read.
type tail struct {
	kafka  *Kafka
	client *kgo.Client
	topic  stateTopicInfo

	mu        sync.Mutex
	draft     *draft
	positions []int64 // by partition: the offset behind the last record read
	// holding: a transaction of our own is being read back; its changes become visible together.
	holding     bool
	heartbeatAt time.Time     // when the last owner record was read
	moved       chan struct{} // closed and replaced when positions advance
}

func newTail(k *Kafka, client *kgo.Client, topic stateTopicInfo) *tail {
	t := &tail{
		kafka: k, client: client, topic: topic,
		draft: newDraft(), positions: make([]int64, topic.partitions), moved: make(chan struct{}),
	}
	t.draft.stateTopicID = topic.id
	return t
}

// follow reads for ever. It returns why the log cannot be relied on any more.
func (t *tail) follow(ctx context.Context) error {
	start := map[int32]kgo.Offset{}
	for p := range t.topic.partitions {
		start[p] = kgo.NewOffset().AtStart()
	}
	t.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{stateTopic: start})
	var lastWarning string
	for ctx.Err() == nil {
		fetches := t.client.PollFetches(ctx)
		for _, e := range fetches.Errors() {
			var lost *kgo.ErrDataLoss
			switch {
			case ctx.Err() != nil:
			case errors.As(e.Err, &lost), errors.Is(e.Err, kerr.OffsetOutOfRange):
				return fmt.Errorf("%s-%d has lost records: %w", stateTopic, e.Partition, e.Err)
			case lastWarning != e.Err.Error():
				lastWarning = e.Err.Error()
				t.kafka.cfg.Log.Warn().Err(e.Err).Int32("partition", e.Partition).Msg("reading " + stateTopic)
			}
		}
		if err := t.apply(fetches); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// apply puts what was fetched into the draft, and publishes a view when it shows something new.
func (t *tail) apply(fetches kgo.Fetches) error {
	if fetches.Empty() {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range fetches.Records() {
		if r.Partition < 0 || r.Partition >= t.topic.partitions {
			return fmt.Errorf("%s has a partition %d beyond the %d that were loaded", stateTopic, r.Partition, t.topic.partitions)
		}
		if err := t.applyRecord(r); err != nil {
			return fmt.Errorf("%s-%d, offset %d: %w", stateTopic, r.Partition, r.Offset, err)
		}
		t.positions[r.Partition] = r.Offset + 1
	}
	close(t.moved)
	t.moved = make(chan struct{})
	t.publishChanges()
	return nil
}

func (t *tail) applyRecord(r *kgo.Record) error {
	if r.Attrs.IsControl() { // read for its position only, see confirm
		return nil
	}
	decoded, err := decodeRecord(r.Key, r.Value)
	if err != nil {
		return err
	}
	// A record elsewhere means that the number of partitions was changed: its key may be in two of them by now, and
	// nobody knows which came last.
	if at := decoded.placement(); at != "" && placePartition(at, t.topic.partitions) != r.Partition {
		return fmt.Errorf("a record that belongs to partition %d of %d: was the number of partitions changed? Go back to the old number",
			placePartition(at, t.topic.partitions), t.topic.partitions)
	}
	if _, ok := decoded.(ownerRecord); ok {
		t.heartbeatAt = time.Now()
	}
	decoded.apply(t.draft)
	return nil
}

func (t *tail) publishChanges() {
	if t.draft.loaded && t.draft.changed && !t.holding {
		t.kafka.publish(t.draft.view())
	}
}

// publishLoaded makes the loaded state visible. An owner that was read while loading counts as just seen: when it lived
// last is not known.
func (t *tail) publishLoaded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heartbeatAt = time.Now()
	t.draft.loaded = true
	t.draft.changed = true
	t.publishChanges()
}

// hold keeps changes from view until release.
func (t *tail) hold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holding = true
}

func (t *tail) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.holding = false
	t.publishChanges()
}

// load returns when everything that was in the log has been read.
func (t *tail) load(ctx context.Context) error {
	offsets, err := t.produce(ctx, t.syncRecords()...)
	if err != nil {
		return fmt.Errorf("load the state: %w", err)
	}
	if err := t.await(ctx, offsets); err != nil {
		return fmt.Errorf("load the state: %w", err)
	}
	t.mu.Lock()
	born := t.draft.born
	t.mu.Unlock()
	if born {
		return nil
	}
	if err := t.kafka.mayStartEmpty(ctx, t.client); err != nil {
		return err
	}
	offsets, err = t.produce(ctx, t.kafkaRecord(bornRecord{}))
	if err != nil {
		return fmt.Errorf("mark %s as begun: %w", stateTopic, err)
	}
	return t.await(ctx, offsets)
}

// syncRecords is one record for each partition.
func (t *tail) syncRecords() []*kgo.Record {
	records := make([]*kgo.Record, t.topic.partitions)
	for p := range records {
		records[p] = t.kafkaRecord(syncRecord{t.kafka.cfg.InstanceID})
		records[p].Partition = int32(p)
	}
	return records
}

func (t *tail) kafkaRecord(r record) *kgo.Record {
	return &kgo.Record{
		Topic: stateTopic, Partition: placePartition(r.placement(), t.topic.partitions),
		Key: r.appendKey(nil), Value: r.appendValue(nil),
	}
}

// produce writes outside of any transaction.
func (t *tail) produce(ctx context.Context, records ...*kgo.Record) (ends, error) {
	ctx, cancel := context.WithTimeout(ctx, t.kafka.transactionTimeout)
	defer cancel()
	return produceAll(ctx, t.client, records)
}

// ends is the highest offset of something in each partition of __mirror_state.
type ends map[int32]int64

func produceAll(ctx context.Context, client *kgo.Client, records []*kgo.Record) (ends, error) {
	written := ends{}
	for _, result := range client.ProduceSync(ctx, records...) {
		if result.Err != nil {
			return nil, fmt.Errorf("produce to %s-%d: %w", stateTopic, result.Record.Partition, result.Err)
		}
		written[result.Record.Partition] = max(written[result.Record.Partition], result.Record.Offset)
	}
	return written, nil
}

// await returns when all that was written has been read back.
func (t *tail) await(ctx context.Context, written ends) error {
	for {
		t.mu.Lock()
		moved, behind := t.moved, int32(-1)
		for p, offset := range written {
			if t.positions[p] <= offset {
				behind = p
			}
		}
		t.mu.Unlock()
		if behind < 0 {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("read back %s-%d up to offset %d: %w", stateTopic, behind, written[behind], ctx.Err())
		}
	}
}

// confirm asks from time to time where the log ends, and notes when all of it up to there has been read: a view that
// was confirmed a moment ago shows every change that was made before.
func (t *tail) confirm(ctx context.Context) error {
	admin := kadm.NewClient(t.client)
	ticker := time.NewTicker(t.kafka.cfg.HeartbeatInterval)
	defer ticker.Stop()
	for {
		asked := time.Since(t.kafka.base)
		if offsets, err := t.committedEnds(ctx, admin); err == nil && t.await(ctx, offsets) == nil {
			t.kafka.confirmedAt.Store(int64(asked))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// committedEnds is the last offset of each partition below its last stable offset.
func (t *tail) committedEnds(ctx context.Context, admin *kadm.Client) (ends, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	listed, err := admin.ListCommittedOffsets(ctx, stateTopic)
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list the ends of %s: %w", stateTopic, err)
	}
	last := ends{}
	for p := range t.topic.partitions {
		end, ok := listed.Lookup(stateTopic, p)
		if !ok {
			return nil, fmt.Errorf("list the ends of %s: partition %d is left out", stateTopic, p)
		}
		last[p] = end.Offset - 1
	}
	return last, nil
}

// lastOwner is the newest owner record, when it was read, and a channel that is closed when more was read.
func (t *tail) lastOwner() (ownerState, time.Time, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.draft.owner, t.heartbeatAt, t.moved
}

// goneChecks is how many times in a row the topic must be found gone or changed: a broker that has just started may not
// know it yet.
const goneChecks = 3

// watch asks for the topic from time to time and returns when it is no longer the one that was loaded.
func (t *tail) watch(ctx context.Context) error {
	ticker := time.NewTicker(t.kafka.cfg.HeartbeatInterval)
	defer ticker.Stop()
	for gone := 0; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		info, _, err := describeStateTopic(ctx, t.client)
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			err = fmt.Errorf("topic %s was deleted", stateTopic)
		case err != nil: // the destination does not answer: that says nothing about the topic
			continue
		case info.id != t.topic.id:
			err = fmt.Errorf("topic %s was deleted and created again", stateTopic)
		case info.partitions != t.topic.partitions:
			err = fmt.Errorf("topic %s has %d partitions now, it had %d", stateTopic, info.partitions, t.topic.partitions)
		default:
			gone = 0
			continue
		}
		if gone++; gone >= goneChecks {
			return err
		}
	}
}
