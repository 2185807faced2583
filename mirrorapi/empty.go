package mirrorapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

const (
	earliestOffset int64 = -2
	latestOffset   int64 = -1

	// debuggingReplicaID makes ListOffsets answer with the log's end, which for a consumer would be the high watermark:
	// a record that is not replicated yet counts too. (ListOffsetsRequest.DEBUGGING_REPLICA_ID)
	debuggingReplicaID int32 = -2

	emptyTimeout = 20 * time.Second
	emptyPause   = 100 * time.Millisecond
)

// proveEmpty refuses the topics that hold something or may come to: records, or an undecided transaction, whose marker would
// take an offset. It must come after the barrier, behind which no transaction begins that names the topics. Transactions
// come first: one that ends after they were looked for was found, and one that ended before has left its marker, which
// counts as a record. What a topic held when this mirror stopped it is the replicator's to compare with its notes; only
// transactions are looked for there.
func (h *Handler) proveEmpty(ctx context.Context, additions []*addition) {
	h.proveNoTransactions(ctx, additions)
	view := h.store.View()
	var unknown []*addition
	for _, a := range pending(additions) {
		if topic, ok := view.TopicByID(a.destination.id); !ok || !topic.WasStopped {
			unknown = append(unknown, a)
		}
	}
	if len(unknown) > 0 {
		h.proveNoRecords(ctx, unknown)
	}
}

func (h *Handler) proveNoRecords(ctx context.Context, additions []*addition) {
	ctx, cancel := context.WithTimeout(ctx, emptyTimeout)
	defer cancel()
	client := h.clusters.Destination()
	starts, err := listOffsets(ctx, client, additions, earliestOffset)
	if err != nil {
		failAll(additions, "look for records in it", err)
		return
	}
	ends, err := listOffsets(ctx, client, additions, latestOffset)
	if err != nil {
		failAll(additions, "look for records in it", err)
		return
	}
	for _, a := range additions {
		a.err = describeRecords(a.name, starts[a.name], ends[a.name])
	}
}

// describeRecords returns nil for an empty topic: every partition's log ends at offset 0.
func describeRecords(name string, starts, ends []int64) error {
	var records int64
	first := -1
	for partition, end := range ends {
		if end == 0 {
			continue
		}
		held := end - starts[partition]
		if first < 0 || records == 0 && held > 0 {
			first = partition
		}
		records += held
	}
	const advice = "a mirror begins with an empty topic: delete this one, so that it is created from the source's, " +
		"or mirror to a cluster where the name is free"
	switch {
	case first < 0:
		return nil
	case records == 0:
		return failf(mirrormsg.InvalidRequest, "topic %s once held records (partition %d: the next offset is %d); %s",
			name, first, ends[first], advice)
	default:
		return failf(mirrormsg.InvalidRequest, "topic %s already holds %d records (partition %d: offsets %d to %d); %s",
			name, records, first, starts[first], ends[first]-1, advice)
	}
}

// listOffsets returns the offsets of all partitions by topic. Leaders that move are asked again until ctx ends.
func listOffsets(ctx context.Context, client *kgo.Client, additions []*addition, timestamp int64) (map[string][]int64, error) {
	for {
		offsets, err := listOffsetsOnce(ctx, client, additions, timestamp)
		if err == nil || !kerr.IsRetriable(err) {
			return offsets, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(emptyPause):
		}
	}
}

func listOffsetsOnce(ctx context.Context, client *kgo.Client, additions []*addition, timestamp int64) (map[string][]int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = debuggingReplicaID
	offsets := make(map[string][]int64, len(additions))
	for _, a := range additions {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = a.name
		for partition := range a.destination.partitions {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = partition, timestamp
			topic.Partitions = append(topic.Partitions, p)
		}
		req.Topics = append(req.Topics, topic)
		offsets[a.name] = slices.Repeat([]int64{-1}, int(a.destination.partitions))
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if err := brokerError(p.ErrorCode, nil); err != nil {
				return nil, fmt.Errorf("list offsets of %s-%d: %w", t.Topic, p.Partition, err)
			}
			if list := offsets[t.Topic]; p.Partition >= 0 && int(p.Partition) < len(list) {
				list[p.Partition] = p.Offset
			}
		}
	}
	for name, list := range offsets {
		if missing := slices.Index(list, -1); missing >= 0 {
			return nil, fmt.Errorf("list offsets of %s-%d: %w", name, missing, errNotAnswered)
		}
	}
	return offsets, nil
}

var errNotAnswered = errors.New("the answer leaves it out")
