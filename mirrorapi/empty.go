package mirrorapi

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

const (
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
	logs, err := h.readLogs(ctx, additions)
	if err != nil {
		failAll(additions, "look for records in it", err)
		return
	}
	for _, a := range additions {
		a.err = describeRecords(a.name, logs[a.name])
	}
}

// readLogs asks the leaders until all have answered as leaders, at most until ctx ends.
func (h *Handler) readLogs(ctx context.Context, additions []*addition) (logs map[string][]logBounds, err error) {
	err = untilAnswered(ctx, func() error {
		logs, err = h.readLogsOnce(ctx, additions)
		return err
	})
	return logs, err
}

// untilAnswered asks until there is an answer or an error that will not change, at most until ctx ends. A topic that was
// just created, or a broker that was just restarted, has leaders who do not know of it yet.
func untilAnswered(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil || isFinal(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(emptyPause):
		}
	}
}

// isFinal tells an answer that will not change from a leader that moved or cannot be reached at the moment.
func isFinal(err error) bool {
	var f *failure
	var k *kerr.Error
	return errors.As(err, &f) || errors.As(err, &k) && !k.Retriable
}

func (h *Handler) readLogsOnce(ctx context.Context, additions []*addition) (map[string][]logBounds, error) {
	client := h.clusters.Destination()
	names := namesOf(additions)
	info, err := readMetadata(ctx, client, names)
	if err != nil {
		return nil, err
	}
	logs, led := make(map[string][]logBounds, len(additions)), map[int32][]leadership{}
	for _, a := range additions {
		topic := info.topics[a.name]
		if err := topic.notReady(); err != nil {
			return nil, err
		}
		if topic.id != a.destination.id {
			return nil, failf(mirrormsg.InconsistentTopicID, "it was deleted and created again meanwhile")
		}
		logs[a.name] = make([]logBounds, topic.partitions)
		for partition, leader := range topic.leaders {
			led[leader] = append(led[leader], leadership{
				topic: a.name, partition: int32(partition), epoch: topic.epochs[partition], bounds: &logs[a.name][partition],
			})
		}
	}
	for leader, partitions := range led {
		if err := readBounds(ctx, client.Broker(int(leader)), partitions); err != nil {
			return nil, err
		}
	}
	return logs, nil
}

// describeRecords returns nil for an empty topic: every partition's log ends at offset 0.
func describeRecords(name string, logs []logBounds) error {
	var records int64
	first := -1
	for partition, log := range logs {
		if log.end == 0 {
			continue
		}
		held := log.end - log.start
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
			name, first, logs[first].end, advice)
	default:
		return failf(mirrormsg.InvalidRequest, "topic %s already holds %d records (partition %d: offsets %d to %d); %s",
			name, records, first, logs[first].start, logs[first].end-1, advice)
	}
}
