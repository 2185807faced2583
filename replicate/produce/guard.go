package produce

import (
	"context"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// expirationConfig is how long after its last record's timestamp a broker may forget a producer.
	expirationConfig = "producer.id.expiration.ms"
	// requestBytesConfig is the largest request that a broker reads; it closes the connection on a larger one.
	requestBytesConfig = "socket.request.max.bytes"
	// standardRequestBytes is its default.
	standardRequestBytes = 100 << 20

	// guardSlack is how far the clocks of a broker and of this process may be apart.
	guardSlack = 5 * time.Minute
	// oneAckLeast is how long the guard must still hold, at least, for a batch that no follower has confirmed.
	oneAckLeast = 10 * time.Minute
)

// brokerFacts is what the engine has to know of a broker's configs. The numbers may change while streams go on.
type brokerFacts struct {
	expirationMs atomic.Int64 // 0 where the broker does not tell
	requestBytes atomic.Int64
	readAt       time.Time // with Engine.mu held
}

// guardedUntilMs is until when (Unix milliseconds) the broker refuses what is out of sequence, after a batch with this
// last timestamp; 0 for not at all. A broker forgets a producer by the timestamp of its last record
// (ProducerStateManager.isProducerExpired), at the next of its checks.
func (f *brokerFacts) guardedUntilMs(lastTimestampMs int64) int64 {
	expirationMs := f.expirationMs.Load() - guardSlack.Milliseconds()
	if expirationMs <= 0 || lastTimestampMs < 0 {
		return 0
	}
	return min(lastTimestampMs, math.MaxInt64-expirationMs) + expirationMs
}

// Guarded says that the leader will go on refusing what is out of sequence, for at least so long:
// it remembers the mirror's producer and will not forget it before. A producer that is forgotten
// may begin with any sequence. What a broker does not tell counts as no.
func (e *Engine) Guarded(ctx context.Context, target Target, p *Position, least time.Duration) (bool, error) {
	untilMs, err := e.guardedUntilMs(ctx, target, p, e.cfg.Now())
	return untilMs > e.cfg.Now().Add(least).UnixMilli(), err
}

// guardedUntilMs is until when the leader refuses what is out of sequence behind what its log holds now; 0 for not at all.
// The leader's configs must have been read no longer ago than since.
func (e *Engine) guardedUntilMs(ctx context.Context, target Target, p *Position, since time.Time) (int64, error) {
	facts, err := e.readFacts(ctx, p.Leader.ID, since) // also for the stream that follows
	if err != nil {
		return 0, Because(Retry, err, "ask for how long the producer of %s is remembered", target)
	}
	if p.Producer == nil {
		return 0, nil
	}
	return facts.guardedUntilMs(p.Producer.LastTimestampMs), nil
}

// facts is what is known of a broker.
func (e *Engine) facts(broker int32) *brokerFacts {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.brokers[broker]
	if f == nil {
		f = &brokerFacts{}
		f.requestBytes.Store(standardRequestBytes)
		e.brokers[broker] = f
	}
	return f
}

// readFacts asks a broker for its configs where they were read before since.
func (e *Engine) readFacts(ctx context.Context, broker int32, since time.Time) (*brokerFacts, error) {
	f := e.facts(broker)
	e.mu.Lock()
	fresh := !f.readAt.IsZero() && !f.readAt.Before(since)
	e.mu.Unlock()
	if fresh {
		return f, nil
	}
	begun := e.cfg.Now()
	values, err := e.brokerConfigs(ctx, broker, expirationConfig, requestBytesConfig)
	if err != nil {
		return f, err
	}
	f.expirationMs.Store(values[expirationConfig])
	if n := values[requestBytesConfig]; n > 0 {
		f.requestBytes.Store(n)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	f.readAt = begun
	return f, nil
}

// keepFacts reads the brokers' configs now and then: a stream that goes on for days must notice a change.
func (e *Engine) keepFacts(ctx context.Context) {
	for sleep(ctx, e.cfg.FactsAge) == nil {
		e.mu.Lock()
		brokers := make([]int32, 0, len(e.brokers))
		for broker := range e.brokers {
			brokers = append(brokers, broker)
		}
		e.mu.Unlock()
		for _, broker := range brokers {
			if _, err := e.readFacts(ctx, broker, e.cfg.Now()); err != nil {
				e.facts(broker).expirationMs.Store(0) // not known any more: not relied on
			}
		}
	}
}

// brokerConfigs is the values of numeric configs that are in effect at a broker, without those that it does not tell.
func (e *Engine) brokerConfigs(ctx context.Context, broker int32, names ...string) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerSlack)
	defer cancel()
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeBroker, strconv.Itoa(int(broker)), names
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, e.cfg.Client.Broker(int(broker)))
	if err != nil {
		return nil, err
	}
	values := map[string]int64{}
	for _, r := range answer.Resources {
		if kerr.ErrorForCode(r.ErrorCode) != nil {
			continue // it takes the right to DESCRIBE_CONFIGS on the cluster
		}
		for _, config := range r.Configs {
			if config.Value == nil {
				continue
			}
			if n, err := strconv.ParseInt(*config.Value, 10, 64); err == nil {
				values[config.Name] = n
			}
		}
	}
	return values, nil
}
