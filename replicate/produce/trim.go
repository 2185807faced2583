package produce

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Trim deletes the records of a destination partition below an offset (DeleteRecords), which
// its followers must hold already. notBefore makes it ask for the leader again when that is not
// known since.
func (e *Engine) Trim(ctx context.Context, target Target, offset int64, notBefore time.Time) error {
	topic, err := e.destinationTopic(ctx, target, notBefore)
	if err != nil {
		return err
	}
	leader, err := topic.Leader(target.Partition)
	if err != nil {
		return Because(Retry, err, "destination %s", target)
	}
	if !e.cfg.Lease() {
		return Faultf(LostLease, "this process does not own the mirrors any more")
	}
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.TimeoutMillis = int32(e.cfg.RequestTimeout.Milliseconds())
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = target.Partition, offset
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic, t.Partitions = target.Topic, append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	answer, err := request.RequestWith(ctx, e.cfg.Client.Broker(int(leader.ID)))
	if err != nil {
		return Because(Retry, err, "delete the records of %s below offset %d", target, offset)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return Faultf(Retry, "delete the records of %s below offset %d: the answer holds other partitions", target, offset)
	}
	switch err := kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode); {
	case err == nil:
		return nil
	case errors.Is(err, kerr.PolicyViolation), errors.Is(err, kerr.TopicAuthorizationFailed):
		return Because(Refused, err, "delete the records of %s below offset %d (this needs the right to DELETE, and delete in cleanup.policy)", target, offset)
	default:
		return Because(Retry, err, "delete the records of %s below offset %d", target, offset)
	}
}
