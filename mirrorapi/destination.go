package mirrorapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

const (
	// defaultReplicationFactor asks the cluster for its own default.
	defaultReplicationFactor int16 = -1

	createdTimeout = 15 * time.Second
	createdPause   = 50 * time.Millisecond
)

// ensureDestination finds the destination topics, and creates those that are missing with the source's partition count and
// the configs that they have while mirrored. replicationFactor 0 means that the request does not say.
func (h *Handler) ensureDestination(ctx context.Context, additions []*addition, replicationFactor int16) {
	names := namesOf(additions)
	if len(names) == 0 {
		return
	}
	if replicationFactor == 0 {
		replicationFactor = defaultReplicationFactor
	}
	info, err := readMetadata(ctx, h.clusters.Destination(), names)
	if err != nil {
		failAll(additions, "look for it on the destination", err)
		return
	}
	each(pending(additions), func(a *addition) {
		topic, ok := info.topics[a.name]
		switch {
		case ok && topic.err == nil:
			a.existed = true
		case ok && !errors.Is(topic.err, kerr.UnknownTopicOrPartition):
			a.err = fmt.Errorf("topic %s on the destination: %w", a.name, topic.err)
			return
		default:
			err := h.createTopic(ctx, a.name, a.source.partitions, replicationFactor, a.wanted)
			switch {
			case err == nil:
				a.restore = a.handBack
			case errors.Is(err, kerr.TopicAlreadyExists):
				a.existed = true // somebody was faster
			default:
				a.err = err
				return
			}
		}
		a.destination, a.err = h.awaitTopic(ctx, a.name)
		if a.err == nil {
			a.err = checkDestinationTopic(a)
		}
	})
}

// awaitTopic waits until the destination shows the topic with a leader for every partition: a new topic takes a moment.
func (h *Handler) awaitTopic(ctx context.Context, name string) (topicInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, createdTimeout)
	defer cancel()
	for {
		info, err := readMetadata(ctx, h.clusters.Destination(), []string{name})
		reason := err
		if err == nil {
			topic := info.topics[name]
			if reason = topic.notReady(); reason == nil {
				return topic, nil
			}
		}
		select {
		case <-ctx.Done():
			return topicInfo{}, fmt.Errorf("topic %s on the destination: %w", name, reason)
		case <-time.After(createdPause):
		}
	}
}

// notReady says why the topic cannot be used yet, nil when it can.
func (t topicInfo) notReady() error {
	switch {
	case t.err != nil:
		return t.err
	case t.partitions == 0:
		return kerr.UnknownTopicOrPartition
	}
	for partition, leader := range t.leaders {
		if leader < 0 {
			return fmt.Errorf("partition %d: %w", partition, kerr.LeaderNotAvailable)
		}
	}
	return nil
}

func checkDestinationTopic(a *addition) error {
	switch {
	case a.destination.id.IsZero():
		return failf(mirrormsg.UnsupportedVersion, "topic %s: the destination's brokers give topics no ids; "+
			"Kafka 2.8 or later is needed", a.name)
	case a.destination.internal:
		return failf(mirrormsg.InvalidTopicException, "topic %s is internal on the destination cluster: it cannot be a mirror",
			a.name)
	case a.destination.partitions != a.source.partitions:
		return failf(mirrormsg.InvalidPartitions, "topic %s has %d partitions here and %d on the source: "+
			"they must be equal; delete it here, so that it is created from the source's, or give it the source's count",
			a.name, a.destination.partitions, a.source.partitions)
	}
	return nil
}

// readOverrides reads what the topics that existed have been configured to; it is needed to alter only what differs. It
// must come after the barrier, behind which no client alters them.
func (h *Handler) readOverrides(ctx context.Context, additions []*addition) {
	var existing []*addition
	for _, a := range pending(additions) {
		if a.existed {
			existing = append(existing, a)
		}
	}
	if len(existing) == 0 {
		return
	}
	configs, err := readTopicConfigs(ctx, h.clusters.Destination(), namesOf(existing))
	for _, a := range existing {
		if err == nil {
			a.have, a.err = configs[a.name].overrides, configs[a.name].err
		} else {
			a.err = err
		}
		if a.err != nil {
			a.err = fmt.Errorf("topic %s on the destination: %w", a.name, a.err)
		}
	}
}

func failAll(additions []*addition, doing string, err error) {
	for _, a := range pending(additions) {
		a.err = fmt.Errorf("topic %s: %s: %w", a.name, doing, err)
	}
}
