package mirrorapi

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"kafka-mirror-proxy/protocol/mirrormsg"
)

const leadersValid = time.Second

// stateTopic is the topic of the mirrors' state; its partitions place the coordinators.
const stateTopic = "__mirror_state"

// leaderCache keeps the destination's metadata for a second: a client that asks every broker in turn for the mirrors it
// leads should cost one question and, as far as possible, get answers that fit together.
type leaderCache struct {
	client func() *kgo.Client
	clock  func() time.Time

	mu      sync.Mutex
	info    *clusterInfo
	err     error           // of the last question; kept too, so that those who waited do not ask one after the other
	names   map[string]bool // what was asked for
	validTo time.Time
}

// get returns metadata of at least the named topics. A topic that does not exist is missing or has an err.
func (c *leaderCache) get(ctx context.Context, names []string) (*clusterInfo, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clock().Before(c.validTo) && (c.err != nil || c.covers(names)) {
		return c.info, c.err
	}
	if names == nil {
		names = []string{} // nil would ask for every topic
	}
	// The question is not this client's alone: others wait for its answer.
	c.info, c.err = readMetadata(context.WithoutCancel(ctx), c.client(), names)
	if c.err != nil {
		c.err = failf(mirrormsg.CoordinatorNotAvailable, "destination cluster: %v", c.err)
	}
	c.names = make(map[string]bool, len(names))
	for _, name := range names {
		c.names[name] = true
	}
	c.validTo = c.clock().Add(leadersValid)
	return c.info, c.err
}

func (c *leaderCache) covers(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !c.names[name] })
}

// reporter returns the broker on whose listener a partition is reported: its leader, or the live broker with the lowest id
// for a partition that has none, so that each partition is reported by one broker and none is left out.
func (i *clusterInfo) reporter(topic string, partition int32) int32 {
	if t, ok := i.topics[topic]; ok && partition >= 0 && int(partition) < len(t.leaders) {
		if leader := t.leaders[partition]; slices.Contains(i.brokers, leader) {
			return leader
		}
	}
	if len(i.brokers) == 0 {
		return -1
	}
	return i.brokers[0]
}

// stateLeader returns the leader of the __mirror_state partition that place chooses out of the topic's number.
func (h *Handler) stateLeader(ctx context.Context, place func(partitions int32) int32) (int32, error) {
	info, err := h.leaders.get(ctx, []string{stateTopic})
	if err != nil {
		return -1, err
	}
	topic, ok := info.topics[stateTopic]
	if !ok || topic.err != nil || topic.partitions == 0 {
		return -1, failf(mirrormsg.CoordinatorNotAvailable, "topic %s does not exist yet", stateTopic)
	}
	partition := place(topic.partitions)
	leader := topic.leaders[partition]
	if leader < 0 {
		return -1, failf(mirrormsg.CoordinatorNotAvailable, "%s-%d has no leader", stateTopic, partition)
	}
	return leader, nil
}
