package produce

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ErrFenceForbidden is wrapped when the destination does not let us write a marker (it takes
// ALTER or CLUSTER_ACTION on the cluster) or has no such API.
var ErrFenceForbidden = errors.New("the destination does not permit the closing marker")

// Fence appends one control record with the next epoch of the mirror's producer: whatever an
// earlier owner still has under way is answered with INVALID_PRODUCER_EPOCH from then on. It
// takes up one offset, is invisible to consumers, and must be recorded in the state beforehand.
// A second one does no harm but takes another offset: ask Position first whether it is Fenced.
func (e *Engine) Fence(ctx context.Context, target Target, leader int32) error {
	if !e.cfg.Lease() {
		return Faultf(LostLease, "this process does not own the mirrors any more")
	}
	request := kmsg.NewPtrWriteTxnMarkersRequest()
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	marker.ProducerID, marker.ProducerEpoch, marker.Committed = target.ProducerID(), 1, false
	t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	t.Topic, t.Partitions = target.Topic, []int32{target.Partition}
	marker.Topics = append(marker.Topics, t)
	request.Markers = append(request.Markers, marker)
	answer, err := request.RequestWith(ctx, e.cfg.Client.Broker(int(leader)))
	if err != nil {
		return Because(Ambiguous, err, "write the closing marker to %s", target)
	}
	for _, m := range answer.Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				if t.Topic != target.Topic || p.Partition != target.Partition {
					continue
				}
				switch err := kerr.ErrorForCode(p.ErrorCode); err {
				case nil:
					return nil
				case kerr.ClusterAuthorizationFailed, kerr.TopicAuthorizationFailed, kerr.UnsupportedVersion, kerr.UnsupportedForMessageFormat:
					return fmt.Errorf("write the closing marker to %s: %w: %w", target, ErrFenceForbidden, err)
				default:
					return Because(Retry, err, "write the closing marker to %s", target)
				}
			}
		}
	}
	return Faultf(Ambiguous, "write the closing marker to %s: the answer leaves it out", target)
}
