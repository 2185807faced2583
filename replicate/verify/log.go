package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
)

// Limits of what one partition's log may hold in memory: one fetch answer and one batch of it, decompressed.
const (
	fetchBytes      = 4 << 20
	decompressBytes = 256 << 20
	fetchWaitMs     = 250
)

// log reads one partition of one cluster as a READ_COMMITTED consumer does, record by record, and passes filler over in
// either form. One goroutine uses it.
type log struct {
	side      string // source or destination
	client    *kgo.Client
	admin     *kadm.Client
	topic     string
	topicID   [16]byte
	partition int32
	patience  time.Duration // how long nothing may come before the end
	throttle  func(ctx context.Context, bytes int) error

	coder    *batch.Coder
	leader   int32
	position int64 // of the next fetch
	end      int64 // exclusive
	start    int64 // where the log starts, as the leader last said
	facts    facts

	blob    []byte // what is left of the last answer
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
	open    map[int64]bool // producers in an aborted transaction
	ours    bool           // the current batch is a mirror's
	records []batch.Record // of the current batch, before end
	at      int
}

// seek makes the next record the first at or behind an offset and the last one that before end.
func (l *log) seek(from, end int64) {
	l.position, l.end = from, end
	l.blob, l.records, l.at = nil, l.records[:0], 0
}

// errShort says that a log ended, for longer than we are patient, before the offset it was to be read up to.
var errShort = errors.New("log ends early")

// next returns the next record before the end, nil at the end. The record is good until the following call.
func (l *log) next(ctx context.Context) (*batch.Record, error) {
	for {
		for l.at < len(l.records) {
			r := &l.records[l.at]
			l.at++
			if !l.ours || !filler(r) {
				return r, nil
			}
			l.facts.Filler++
		}
		more, err := l.nextBatch()
		if err != nil {
			return nil, err
		}
		if more {
			continue
		}
		if l.position >= l.end {
			return nil, nil
		}
		if err := l.fetch(ctx); err != nil {
			return nil, err
		}
	}
}

// filler records, in a mirror's batch, take up offsets for which the source has no record; whoever reads around the proxy
// sees them.
func filler(r *batch.Record) bool {
	return r.Value == nil && r.HeaderCount() == 0 && string(r.Key) == batch.FillerKey
}

// nextBatch fills records from what was fetched, and returns false when that is used up.
func (l *log) nextBatch() (bool, error) {
	b, rest, err := batch.Next(l.blob)
	if err != nil {
		return false, l.broken(err)
	}
	if b == nil {
		l.blob = nil
		return false, nil
	}
	l.blob, l.records, l.at = rest, l.records[:0], 0
	if b.Magic() < 2 {
		return true, l.read(b, b.BaseOffset()) // which is that of its last record
	}
	if err := batch.Validate(b); err != nil {
		return false, l.broken(err)
	}
	last := b.LastOffset()
	if last < l.position || b.BaseOffset() >= l.end {
		l.position = max(l.position, min(last+1, l.end))
		return true, nil
	}
	skip := l.skip(b)
	l.facts.see(b, skip)
	if skip {
		l.position = last + 1
		return true, nil
	}
	l.ours = batch.OfMirror(b)
	return true, l.read(b, last)
}

// read takes the records of a batch that are not read yet.
func (l *log) read(b batch.Batch, last int64) error {
	err := l.coder.Records(b, func(r *batch.Record) error {
		if r.Offset >= l.position && r.Offset < l.end {
			l.records = append(l.records, *r)
		}
		return nil
	})
	if err != nil {
		return l.broken(err)
	}
	l.position = max(l.position, last+1)
	return nil
}

// skip says whether a READ_COMMITTED consumer passes the batch over: markers, and data of aborted transactions.
func (l *log) skip(b batch.Batch) bool {
	for len(l.aborted) > 0 && l.aborted[0].FirstOffset <= b.LastOffset() {
		l.open[l.aborted[0].ProducerID] = true
		l.aborted = l.aborted[1:]
	}
	if b.Control() {
		delete(l.open, b.ProducerID()) // a commit of a producer that is not open changes nothing
		return true
	}
	return b.Transactional() && l.open[b.ProducerID()]
}

func (l *log) broken(err error) error {
	return fmt.Errorf("read %s-%d from offset %d: %w", l.topic, l.partition, l.position, err)
}

// fetch asks the leader for more, until something comes, the log turns out to have nothing more before the end, or
// patience is over.
func (l *log) fetch(ctx context.Context) error {
	deadline := time.Now().Add(l.patience)
	for {
		p, err := l.fetchOnce(ctx)
		if err == nil {
			err = kerr.ErrorForCode(p.ErrorCode)
		}
		if err == kerr.OffsetOutOfRange {
			var moved bool
			if moved, err = l.trimmed(ctx); moved {
				return nil
			}
		} else if err == nil {
			l.start = max(l.start, p.LogStartOffset)
			l.blob, l.aborted = p.RecordBatches, p.AbortedTransactions
			clear(l.open)
			slices.SortFunc(l.aborted, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int { // they come as they ended
				return cmp.Compare(a.FirstOffset, b.FirstOffset)
			})
			if b, _, err := batch.Next(l.blob); err != nil || b != nil {
				return l.brokenIf(err)
			}
			if p.LastStableOffset >= l.end { // nothing left there: the cleaner took it
				l.position = l.end
				return nil
			}
		}
		if err != nil && !retriable(err) {
			return l.broken(err)
		}
		if time.Now().After(deadline) {
			if err != nil {
				return l.broken(err)
			}
			return fmt.Errorf("%s-%d: %w: offset %d was waited for, the log ends at %d", l.topic, l.partition, errShort, l.end, p.LastStableOffset)
		}
		if err != nil {
			if err := l.findLeader(ctx); err != nil {
				return err
			}
		}
	}
}

// trimmed goes on behind what was deleted from the start of the log while it was read; false, and out of range, is a
// log that has not got so far.
func (l *log) trimmed(ctx context.Context) (bool, error) {
	start, err := l.listed(ctx, l.admin.ListStartOffsets)
	if err != nil {
		return false, err
	}
	if start <= l.position {
		return false, l.shortOf(ctx)
	}
	l.start, l.position = start, min(start, l.end)
	return true, nil
}

// shortOf waits a little for a log that ends before the offset that is asked for.
func (l *log) shortOf(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(fetchWaitMs * time.Millisecond):
		return nil
	}
}

// listed is one offset of the partition: where it starts or ends.
func (l *log) listed(ctx context.Context, list func(context.Context, ...string) (kadm.ListedOffsets, error)) (int64, error) {
	all, err := list(ctx, l.topic)
	if err != nil {
		return 0, l.broken(err)
	}
	o, ok := all.Lookup(l.topic, l.partition)
	if !ok {
		return 0, l.broken(errors.New("there is no such partition any more"))
	}
	return o.Offset, l.brokenIf(o.Err)
}

func (l *log) brokenIf(err error) error {
	if err != nil {
		return l.broken(err)
	}
	return nil
}

func retriable(err error) bool {
	var broker *kerr.Error
	return !errors.As(err, &broker) || broker.Retriable // else the connection: tried again until patience is over
}

func (l *log) fetchOnce(ctx context.Context) (kmsg.FetchResponseTopicPartition, error) {
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = fetchWaitMs, 1, fetchBytes
	request.IsolationLevel = 1 // READ_COMMITTED
	request.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = l.topic, l.topicID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = l.partition, l.position, fetchBytes
	t.Partitions = append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	response, err := request.RequestWith(ctx, l.client.Broker(int(l.leader)))
	if err != nil {
		return kmsg.FetchResponseTopicPartition{}, err
	}
	if response.ErrorCode != 0 {
		return kmsg.FetchResponseTopicPartition{}, kerr.ErrorForCode(response.ErrorCode)
	}
	if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
		return kmsg.FetchResponseTopicPartition{}, errors.New("the broker did not answer for the partition")
	}
	answer := response.Topics[0].Partitions[0]
	return answer, l.throttle(ctx, len(answer.RecordBatches))
}

// findLeader asks the cluster anew where the partition is, a little later.
func (l *log) findLeader(ctx context.Context) error {
	if err := l.shortOf(ctx); err != nil {
		return l.broken(err)
	}
	topics, err := l.admin.ListTopics(ctx, l.topic)
	if err != nil {
		return nil //nolint:nilerr // the cluster may be away for a moment; patience ends it
	}
	if p, ok := topics[l.topic].Partitions[l.partition]; ok && p.Leader >= 0 {
		l.leader = p.Leader
	}
	return nil
}

// compacted says whether the cleaner may have taken records out of the log.
func (l *log) compacted(ctx context.Context) (bool, error) {
	policy, err := topicConfig(ctx, l.admin, l.topic, "cleanup.policy")
	if err != nil {
		return false, fmt.Errorf("%s: a record is on one side only; whether compaction explains it cannot be told: %w", l.side, err)
	}
	return hasCompact(policy), nil
}
