package mirrorapi

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

// undecidedStates are those of a transaction that may still write to the partitions that it names, if only a marker.
// (TransactionState)
var undecidedStates = []string{"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"}

// describedAtOnce bounds the transactions of one DescribeTransactions request.
const describedAtOnce = 500

// proveNoTransactions refuses topics that an undecided transaction has written to, or has announced to write to.
func (h *Handler) proveNoTransactions(ctx context.Context, additions []*addition) {
	topics := pending(additions)
	if len(topics) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, emptyTimeout)
	defer cancel()
	client := h.clusters.Destination()
	var announced map[string]string
	var writing map[string]writer
	err := untilAnswered(ctx, func() (err error) { // each time from the beginning: a transaction may have gone on meanwhile
		if announced, err = announcedTransactions(ctx, client, namesOf(topics)); err == nil {
			writing, err = writingProducers(ctx, client, topics)
		}
		return err
	})
	if err != nil {
		failAll(topics, "look for transactions in it", err)
		return
	}
	const advice = "end it, or wait until it has timed out, and add the topic again"
	for _, a := range topics {
		if id, ok := announced[a.name]; ok {
			a.err = failf(mirrormsg.InvalidRequest, "topic %s takes part in transaction %q, which has not ended; %s", a.name, id, advice)
		} else if w, ok := writing[a.name]; ok {
			a.err = failf(mirrormsg.InvalidRequest, "topic %s has an open transaction of producer %d in partition %d; %s",
				a.name, w.producerID, w.partition, advice)
		}
	}
}

// announcedTransactions returns, by topic, the id of an undecided transaction that names it.
func announcedTransactions(ctx context.Context, client *kgo.Client, topics []string) (map[string]string, error) {
	list := kmsg.NewPtrListTransactionsRequest()
	list.StateFilters = undecidedStates
	listed, err := list.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	if slices.Contains(listed.UnknownStateFilters, undecidedStates[0]) {
		return nil, failf(mirrormsg.UnsupportedVersion, "list transactions: the destination knows no state %s", undecidedStates[0])
	}
	if err := brokerError(listed.ErrorCode, nil); err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	ids := make([]string, 0, len(listed.TransactionStates))
	for _, t := range listed.TransactionStates {
		ids = append(ids, t.TransactionalID)
	}
	found := map[string]string{}
	for some := range slices.Chunk(ids, describedAtOnce) {
		describe := kmsg.NewPtrDescribeTransactionsRequest()
		describe.TransactionalIDs = some
		described, err := describe.RequestWith(ctx, client)
		if err != nil {
			return nil, fmt.Errorf("describe transactions: %w", err)
		}
		for i := range described.TransactionStates {
			t := &described.TransactionStates[i]
			if t.ErrorCode == transactionalIDNotFound {
				continue // it has ended and is forgotten
			}
			if err := brokerError(t.ErrorCode, nil); err != nil {
				return nil, fmt.Errorf("describe transaction %q: %w", t.TransactionalID, err)
			}
			if !slices.ContainsFunc(undecidedStates, func(s string) bool { return strings.EqualFold(s, t.State) }) {
				continue
			}
			for _, topic := range t.Topics {
				if slices.Contains(topics, topic.Topic) {
					found[topic.Topic] = t.TransactionalID
				}
			}
		}
	}
	return found, nil
}

// transactionalIDNotFound is TRANSACTIONAL_ID_NOT_FOUND.
const transactionalIDNotFound int16 = 105

// writer is a producer with an open transaction.
type writer struct {
	producerID int64
	partition  int32
}

// writingProducers returns, by topic, a producer whose transaction has written to it and is open.
func writingProducers(ctx context.Context, client *kgo.Client, additions []*addition) (map[string]writer, error) {
	req := kmsg.NewPtrDescribeProducersRequest()
	for _, a := range additions {
		topic := kmsg.NewDescribeProducersRequestTopic()
		topic.Topic = a.name
		for partition := range a.destination.partitions {
			topic.Partitions = append(topic.Partitions, partition)
		}
		req.Topics = append(req.Topics, topic)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("describe producers: %w", err)
	}
	found := map[string]writer{}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if err := brokerError(p.ErrorCode, p.ErrorMessage); err != nil {
				return nil, fmt.Errorf("describe producers of %s-%d: %w", t.Topic, p.Partition, err)
			}
			for _, producer := range p.ActiveProducers {
				if producer.CurrentTxnStartOffset >= 0 {
					found[t.Topic] = writer{producerID: producer.ProducerID, partition: p.Partition}
				}
			}
		}
	}
	return found, nil
}
