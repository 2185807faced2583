package mirrorapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	earliestOffset int64 = -2
	latestOffset   int64 = -1
	// consumerReplicaID is who asks; only a leader answers.
	consumerReplicaID int32 = -1
)

// logBounds is a partition's log as its leader has it: end is beyond the last record, replicated or not.
type logBounds struct{ start, end int64 }

// leadership is a partition with its leader's epoch, by which a broker that leads it no longer, or not yet, is found out.
type leadership struct {
	topic     string
	partition int32
	epoch     int32
	bounds    *logBounds
}

var errNotAnswered = errors.New("the answer leaves it out")

// readBounds fills the bounds of partitions that one broker leads. The end is the higher one of the high watermark and the
// end of the leader's own log: a record above the high watermark is as good as written.
func readBounds(ctx context.Context, leader *kgo.Broker, partitions []leadership) error {
	starts, err := listOffsets(ctx, leader, partitions, earliestOffset)
	if err != nil {
		return err
	}
	watermarks, err := listOffsets(ctx, leader, partitions, latestOffset)
	if err != nil {
		return err
	}
	ends, err := logEnds(ctx, leader, partitions)
	if err != nil {
		return err
	}
	for i, p := range partitions {
		*p.bounds = logBounds{start: starts[i], end: max(watermarks[i], ends[i])}
	}
	return nil
}

// listOffsets returns an offset for each partition.
func listOffsets(ctx context.Context, leader *kgo.Broker, partitions []leadership, timestamp int64) ([]int64, error) {
	const doing = "list offsets"
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = consumerReplicaID
	for name, rows := range byTopic(partitions) {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = name
		for _, row := range rows {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.Timestamp = row.partition, row.epoch, timestamp
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, leader)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	found := answers{}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for i := range t.Partitions {
			p := &t.Partitions[i]
			found.add(t.Topic, p.Partition, p.ErrorCode, p.Offset)
		}
	}
	return found.of(doing, partitions)
}

// logEnds returns where the leader's own log ends for each partition: the end of the epoch that it leads in.
func logEnds(ctx context.Context, leader *kgo.Broker, partitions []leadership) ([]int64, error) {
	const doing = "ask for the end of the log"
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = consumerReplicaID
	for name, rows := range byTopic(partitions) {
		topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
		topic.Topic = name
		for _, row := range rows {
			p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = row.partition, row.epoch, row.epoch
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, leader)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	found := answers{}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for i := range t.Partitions {
			p := &t.Partitions[i]
			found.add(t.Topic, p.Partition, p.ErrorCode, p.EndOffset)
		}
	}
	return found.of(doing, partitions)
}

func byTopic(partitions []leadership) map[string][]leadership {
	topics := map[string][]leadership{}
	for _, p := range partitions {
		topics[p.topic] = append(topics[p.topic], p)
	}
	return topics
}

// answers are a broker's, by topic and partition.
type answers map[string]map[int32]answer

type answer struct {
	code   int16
	offset int64
}

func (a answers) add(topic string, partition int32, code int16, offset int64) {
	if a[topic] == nil {
		a[topic] = map[int32]answer{}
	}
	a[topic][partition] = answer{code, offset}
}

// of returns the offsets in the order of partitions, or an error when one was not told.
func (a answers) of(doing string, partitions []leadership) ([]int64, error) {
	offsets := make([]int64, len(partitions))
	for i, p := range partitions {
		got, ok := a[p.topic][p.partition]
		err := brokerError(got.code, nil)
		if err == nil && (!ok || got.offset < 0) {
			err = errNotAnswered
		}
		if err != nil {
			return nil, fmt.Errorf("%s of %s-%d: %w", doing, p.topic, p.partition, err)
		}
		offsets[i] = got.offset
	}
	return offsets, nil
}
