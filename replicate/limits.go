package replicate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/replicate/produce"
)

const (
	maxMessageBytesConfig = "max.message.bytes"
	// limitSlackBytes is room for the next batches, and for batches that grow when they are written anew.
	limitSlackBytes = 64 << 10
	// limitPauseMost is the longest pause between two looks whether a limit was raised.
	limitPauseMost = 10 * time.Second
	// limitTimeout bounds asking for a limit, or raising it.
	limitTimeout = 10 * time.Second
)

// copyWithin is mirror for a topic whose max.message.bytes may be too small: the limit is raised where that is allowed
// (mirror.raise-topic-limits; the topic gets its own back at STOPPED). Otherwise the partition is FAILED, and goes on as
// soon as somebody else has raised it: until then the batch is not sent again.
func (p *partition) copyWithin(w *wanted) error {
	if p.tooLarge != nil {
		limit, err := p.topicLimit(w.topic.Name)
		if err == nil && limit < p.tooLarge.TooLargeBytes && !raisesTopicLimits(w.mirror) {
			return p.tooLarge
		}
	}
	err := p.mirror(w, true)
	var fault *produce.Fault
	if !errors.As(err, &fault) || fault.TooLargeBytes == 0 {
		if err == nil {
			p.tooLarge = nil
		}
		return err
	}
	p.tooLarge = fault
	if !raisesTopicLimits(w.mirror) {
		return err
	}
	return p.raiseLimit(w, fault)
}

// raiseLimit makes room for a batch; nil means that it may be tried again at once.
func (p *partition) raiseLimit(w *wanted, fault *produce.Fault) error {
	ctx, cancel := context.WithTimeout(p.ctx, limitTimeout)
	defer cancel()
	target := w.target(p.id)
	limit, err := p.topicLimit(w.topic.Name)
	if err == nil && limit >= fault.TooLargeBytes {
		return produce.Faultf(produce.Retry, "%s; it was raised to %d, which the leader has not learnt yet", fault.Text, limit)
	}
	// By its name, which must still be the same topic's.
	if err := p.tenure.engine.CheckTopic(ctx, target, p.tenure.cfg.Clock()); err != nil {
		return err
	}
	if !p.tenure.owns() {
		return produce.Faultf(produce.LostLease, "this process does not own the mirrors any more")
	}
	raised := strconv.Itoa(min(fault.TooLargeBytes+limitSlackBytes, math.MaxInt32))
	err = alterTopic(ctx, p.tenure.cfg.Clusters.Destination(), w.topic.Name, map[string]*string{maxMessageBytesConfig: &raised})
	switch {
	case err == nil:
		p.tenure.log.Info().Str("topic", w.topic.Name).Int32("partition", p.id.Partition).Int("bytes", fault.TooLargeBytes).Str(maxMessageBytesConfig, raised).
			Msg("a batch is larger than the topic allows here: its limit was raised")
		return nil
	case codeOf(err) == 0:
		return produce.Because(produce.Retry, err, "raise max.message.bytes of topic %s", w.topic.Name)
	}
	refused := *fault
	refused.Text = fmt.Sprintf("%s, and the destination does not let the mirror raise it to %s (%v). Raise it, or give the mirror the right to ALTER_CONFIGS of the topic", fault.Text, raised, err)
	return &refused
}

// topicLimit is the max.message.bytes of a topic of the destination.
func (p *partition) topicLimit(topic string) (int, error) {
	ctx, cancel := context.WithTimeout(p.ctx, limitTimeout)
	defer cancel()
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, topic, []string{maxMessageBytesConfig}
	request.Resources = append(request.Resources, resource)
	answer, err := request.RequestWith(ctx, p.tenure.cfg.Clusters.Destination())
	if err != nil {
		return 0, err
	}
	for _, r := range answer.Resources {
		if err := kerr.ErrorForCode(r.ErrorCode); err != nil {
			return 0, err
		}
		for _, config := range r.Configs {
			if config.Name == maxMessageBytesConfig && config.Value != nil {
				return strconv.Atoi(*config.Value)
			}
		}
	}
	return 0, errors.New("the destination does not tell max.message.bytes of topic " + topic)
}
