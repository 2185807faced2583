package replicate

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/batch"
)

// abortedTransactions tells the batches of one READ_COMMITTED answer that belong to aborted transactions, as a consumer
// does (CompletedFetch of the Java client): a transaction begins at its first offset and ends with its ABORT marker.
type abortedTransactions struct {
	coming []kmsg.FetchResponseTopicPartitionAbortedTransaction // lowest first offset first
	open   map[int64]bool                                       // by producer id
}

func newAborted(listed []kmsg.FetchResponseTopicPartitionAbortedTransaction) *abortedTransactions {
	if len(listed) == 0 {
		return nil
	}
	slices.SortFunc(listed, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return int(min(max(a.FirstOffset-b.FirstOffset, -1), 1))
	})
	return &abortedTransactions{coming: listed, open: map[int64]bool{}}
}

// discards says that the records of a batch are no data. It must be asked for every batch of the answer, in order.
func (a *abortedTransactions) discards(b batch.Batch, coder *batch.Coder) (bool, error) {
	if a == nil || b.Magic() < 2 {
		return false, nil
	}
	for len(a.coming) > 0 && a.coming[0].FirstOffset <= b.LastOffset() {
		a.open[a.coming[0].ProducerID] = true
		a.coming = a.coming[1:]
	}
	if !b.Transactional() || !a.open[b.ProducerID()] {
		return false, nil
	}
	if !b.Control() {
		return true, nil
	}
	return false, coder.Records(b, func(marker *batch.Record) error {
		if len(marker.Key) == 4 && marker.Key[2] == 0 && marker.Key[3] == 0 { // ControlRecordType ABORT
			delete(a.open, b.ProducerID())
		}
		return nil
	})
}
