package produce

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
	"kafka-mirror-proxy/replicate/connect"
)

// Position is what the leader of a destination partition says about its log.
type Position struct {
	Leader     connect.Leader
	Partitions int32 // of the topic
	LogStart   int64
	EndOffset  int64 // of the leader's log, and high watermark: the followers have caught up
	Producer   *ProducerState
	CheckedAt  time.Time // before the first question
}

// ProducerState is what the broker remembers of the mirror partition's producer.
type ProducerState struct {
	Epoch        int32
	LastSequence int32 // -1 after a marker
	// LastTimestampMs is of the last record; when it is too old the broker forgets the producer.
	LastTimestampMs int64
}

// Fenced says that a marker has shut the mirror's producer out (see Engine.Fence).
func (p *Position) Fenced() bool { return p.Producer != nil && p.Producer.Epoch > 0 }

// InSequence says that what stands last in the log was written by the mirror, as far as the
// broker remembers.
func (p *Position) InSequence() bool {
	return p.Producer != nil && p.Producer.Epoch == 0 && p.EndOffset > 0 && p.Producer.LastSequence == batch.SequenceOf(p.EndOffset-1)
}

// settlePause is how long to wait before asking again where a log that moves ends.
const settlePause = 50 * time.Millisecond

// Position reads producer state and log end from the leader, and waits until the leader's
// followers hold everything: only then does what was read stay true. notBefore makes it ask
// for the leader again when that is not known since.
//
// The log end is the leader's own (OffsetForLeaderEpoch of its epoch) and not the high
// watermark alone: a batch above it is in the log, and the producer that wrote it may be
// forgotten already.
func (e *Engine) Position(ctx context.Context, target Target, notBefore time.Time) (Position, error) {
	topic, err := e.destinationTopic(ctx, target, notBefore)
	if err != nil {
		return Position{}, err
	}
	leader, err := topic.Leader(target.Partition)
	if err != nil {
		return Position{}, Because(Retry, err, "destination %s", target)
	}
	partitions := int32(len(topic.Leaders))
	deadline := e.cfg.Now().Add(e.cfg.SettleTimeout)
	var last Position
	for {
		p, logEnd, err := e.readPosition(ctx, target, leader)
		if err != nil {
			return Position{}, Because(Retry, err, "read where %s ends", target)
		}
		p.Partitions = partitions
		settled := logEnd == p.EndOffset
		// State and end are two questions: another owner's append between them looks like a
		// foreign write. Believe it only when it stays so.
		if settled && (p.InSequence() || p.sameAs(&last)) {
			return p, nil
		}
		if e.cfg.Now().After(deadline) {
			if !settled {
				return Position{}, Faultf(Retry, "the followers of %s do not catch up: log end %d, high watermark %d", target, logEnd, p.EndOffset)
			}
			return Position{}, Faultf(Retry, "somebody else keeps writing to %s (log end %d)", target, p.EndOffset)
		}
		last = Position{}
		if settled {
			last = p
		}
		if err := sleep(ctx, settlePause); err != nil {
			return Position{}, Because(Retry, err, "read where %s ends", target)
		}
	}
}

func (p *Position) sameAs(other *Position) bool {
	if other.CheckedAt.IsZero() || p.EndOffset != other.EndOffset || (p.Producer == nil) != (other.Producer == nil) {
		return false
	}
	return p.Producer == nil || *p.Producer == *other.Producer
}

// CheckTopic says with nil that the topic is there and still the same one.
func (e *Engine) CheckTopic(ctx context.Context, target Target, notBefore time.Time) error {
	_, err := e.destinationTopic(ctx, target, notBefore)
	return err
}

// destinationTopic checks that the topic is there and still the same one.
func (e *Engine) destinationTopic(ctx context.Context, target Target, notBefore time.Time) (connect.Topic, error) {
	topic, err := e.cluster.Topic(ctx, target.Topic, notBefore)
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return topic, Faultf(Missing, "the destination topic %s is gone. It is not filled anew by itself: remove it from the mirror, then add it again", target.Topic)
	case err != nil:
		return topic, Because(Retry, err, "ask the destination for topic %s", target.Topic)
	case topic.ID != target.TopicID && target.TopicID != [16]byte{}:
		return topic, Faultf(Missing, "the destination topic %s was recreated (topic id %x is now %x). It is not filled anew by itself: remove it from the mirror, then add it again", target.Topic, target.TopicID, topic.ID)
	}
	return topic, nil
}

// Refresh looks at destination topics; see connect.Cluster.
func (e *Engine) Refresh(ctx context.Context, names []string, look func(name string, topic connect.Topic, err error)) error {
	return e.cluster.Refresh(ctx, names, look)
}

// readPosition asks once. logEnd is the leader's own end, EndOffset the high watermark.
func (e *Engine) readPosition(ctx context.Context, target Target, leader connect.Leader) (p Position, logEnd int64, err error) {
	p = Position{Leader: leader, CheckedAt: e.cfg.Now()}
	if p.Producer, err = e.producerState(ctx, target, leader.ID); err != nil {
		return p, 0, err
	}
	if logEnd, err = e.logEnd(ctx, target, leader); err != nil {
		return p, 0, err
	}
	if p.EndOffset, err = e.cluster.ListOffset(ctx, leader.ID, target.Topic, target.Partition, connect.LatestOffset); err != nil {
		return p, 0, err
	}
	if p.LogStart, err = e.cluster.ListOffset(ctx, leader.ID, target.Topic, target.Partition, connect.EarliestOffset); err != nil {
		return p, 0, err
	}
	if logEnd < 0 {
		logEnd = p.EndOffset
	}
	return p, logEnd, nil
}

// HighWatermark is the end of what the followers of a partition have, as its leader knows it.
func (e *Engine) HighWatermark(ctx context.Context, target Target, leader int32) (int64, error) {
	return e.cluster.ListOffset(ctx, leader, target.Topic, target.Partition, connect.LatestOffset)
}

func (e *Engine) producerState(ctx context.Context, target Target, leader int32) (*ProducerState, error) {
	request := kmsg.NewPtrDescribeProducersRequest()
	t := kmsg.NewDescribeProducersRequestTopic()
	t.Topic, t.Partitions = target.Topic, []int32{target.Partition}
	request.Topics = append(request.Topics, t)
	answer, err := request.RequestWith(ctx, e.cfg.Client.Broker(int(leader)))
	if err != nil {
		return nil, fmt.Errorf("describe producers: %w", err)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return nil, errors.New("describe producers: the answer holds other partitions")
	}
	p := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return nil, fmt.Errorf("describe producers: %w", err)
	}
	id := target.ProducerID()
	for _, producer := range p.ActiveProducers {
		if producer.ProducerID == id {
			return &ProducerState{Epoch: producer.ProducerEpoch, LastSequence: producer.LastSequence, LastTimestampMs: producer.LastTimestamp}, nil
		}
	}
	return nil, nil
}

// logEnd is the end of the leader's own log, -1 when the broker does not tell.
func (e *Engine) logEnd(ctx context.Context, target Target, leader connect.Leader) (int64, error) {
	request := kmsg.NewPtrOffsetForLeaderEpochRequest()
	request.ReplicaID = -1
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = target.Partition, leader.Epoch, leader.Epoch
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic, t.Partitions = target.Topic, append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	answer, err := request.RequestWith(ctx, e.cfg.Client.Broker(int(leader.ID)))
	if err != nil {
		return -1, fmt.Errorf("offset for leader epoch: %w", err)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return -1, errors.New("offset for leader epoch: the answer holds other partitions")
	}
	result := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
		return -1, fmt.Errorf("offset for leader epoch: %w", err)
	}
	return result.EndOffset, nil
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
