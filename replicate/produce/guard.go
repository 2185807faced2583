package produce

import (
	"context"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// expirationConfig is how long after its last record's timestamp a broker may forget a producer.
const expirationConfig = "producer.id.expiration.ms"

// Guarded says that the leader will go on refusing what is out of sequence, for at least so long:
// it remembers the mirror's producer and will not forget it before. A producer that is forgotten
// may begin with any sequence. What a broker does not tell counts as no.
func (e *Engine) Guarded(ctx context.Context, target Target, p *Position, least time.Duration) (bool, error) {
	if p.Producer == nil {
		return false, nil
	}
	expirationMs, err := e.expirationMs(ctx, p.Leader.ID)
	if err != nil {
		return false, Because(Retry, err, "ask for how long the producer of %s is remembered", target)
	}
	return p.Producer.LastTimestampMs-e.cfg.Now().UnixMilli() > least.Milliseconds()-expirationMs, nil
}

// expirationMs is a broker's producer.id.expiration.ms, 0 where it does not tell.
func (e *Engine) expirationMs(ctx context.Context, broker int32) (int64, error) {
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(broker)), []string{expirationConfig}
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, e.cfg.Client.Broker(int(broker)))
	if err != nil {
		return 0, err
	}
	for _, r := range answer.Resources {
		if kerr.ErrorForCode(r.ErrorCode) != nil {
			continue // it takes the right to DESCRIBE_CONFIGS on the cluster
		}
		for _, config := range r.Configs {
			if config.Name != expirationConfig || config.Value == nil {
				continue
			}
			if ms, err := strconv.ParseInt(*config.Value, 10, 64); err == nil {
				return ms, nil
			}
		}
	}
	return 0, nil
}
