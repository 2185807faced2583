package mirrorapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// stockCreateTopicsVersion is the version whose answer version 8 shares, and the last that a stock cluster knows.
const stockCreateTopicsVersion int16 = 7

// Texts of the reference for topics with a MirrorInfo.
const (
	mirrorNameRefused = "The 'mirror.name' configuration can only be modified through dedicated mirror management APIs."

	inactiveAssignment = "Some brokers specified in the manual partition assignment for partition %d are fenced or in " +
		"controlled shutdown. For mirror topic creation, all brokers specified in the manual partition assignment must be active."

	inactivePlacement = "Unable to replicate the partition %d time(s): Some brokers are currently fenced or in controlled " +
		"shutdown. For mirror topic creation, all replicas being assigned must be active."
)

// createTopics answers CreateTopics v8 that says of which source topics the topics are to become mirrors. A stock
// controller cannot give a topic a certain id, so the topic gets one of its own; the source's is kept, by which the Add that
// follows notices that the source's topic was recreated.
func (h *Handler) createTopics(ctx context.Context, r Request) ([]byte, error) {
	if r.Version != mirrormsg.CreateTopicsVersion {
		return nil, fmt.Errorf("CreateTopics v%d holds no mirrors", r.Version)
	}
	req, infos, err := mirrormsg.ReadCreateTopicsV8(r.Body)
	if err != nil {
		return nil, err
	}
	results := make([]kmsg.CreateTopicsResponseTopic, len(req.Topics))
	upstream := *req
	upstream.Topics = nil
	refused := h.admit(ctx)
	brokers := sync.OnceValues(func() (brokerSets, error) { return h.brokers(ctx) })
	for i := range req.Topics {
		err := refused
		if err == nil {
			err = h.checkCreate(brokers, req.Topics, infos, i)
		}
		if id, mirrored := infos[i].SourceTopicID(); err == nil && mirrored {
			if h.claim(state.TopicID(id)) {
				defer h.release(state.TopicID(id))
				err = h.checkSourceID(ctx, req.Topics[i].Topic, state.TopicID(id))
			} else {
				err = failf(mirrormsg.InvalidRequest, "another request is creating a topic for source topic id %s", state.TopicID(id))
			}
		}
		if err != nil {
			results[i] = refusedTopic(req.Topics[i].Topic, err)
			continue
		}
		upstream.Topics = append(upstream.Topics, req.Topics[i])
	}
	if len(upstream.Topics) > 0 {
		h.createUpstream(ctx, &upstream, req.Topics, infos, results)
	}
	resp := kmsg.NewPtrCreateTopicsResponse()
	resp.Version = stockCreateTopicsVersion
	resp.Topics = results
	return resp.AppendTo(nil), nil
}

func refusedTopic(name string, err error) kmsg.CreateTopicsResponseTopic {
	code, message := codeOf(err)
	t := kmsg.NewCreateTopicsResponseTopic()
	t.Topic, t.ErrorCode, t.ErrorMessage = name, int16(code), &message
	t.NumPartitions, t.ReplicationFactor = -1, -1
	return t
}

func (h *Handler) checkCreate(brokers func() (brokerSets, error), topics []kmsg.CreateTopicsRequestTopic,
	infos []*mirrormsg.MirrorInfo, i int,
) error {
	topic := &topics[i]
	for j := range topics {
		// As at the reference, one such config refuses the whole request.
		if slices.ContainsFunc(topics[j].Configs, func(c kmsg.CreateTopicsRequestTopicConfig) bool {
			return c.Name == configMirrorName
		}) {
			return failf(mirrormsg.InvalidRequest, mirrorNameRefused)
		}
		if j != i && topics[j].Topic == topic.Topic {
			return failf(mirrormsg.InvalidRequest, "Duplicate topic name.")
		}
	}
	if topic.Topic == stateTopic {
		return failf(mirrormsg.TopicAuthorizationFailed, "topic %s belongs to the proxy", stateTopic)
	}
	id, mirrored := infos[i].SourceTopicID()
	if !mirrored {
		return nil
	}
	for j := range topics {
		if other, ok := infos[j].SourceTopicID(); j != i && ok && other == id {
			return failf(mirrormsg.InvalidRequest, "topics %s and %s name the same source topic id %s",
				topic.Topic, topics[j].Topic, state.TopicID(id))
		}
	}
	known, err := brokers()
	if err != nil {
		return err
	}
	return known.checkReplicas(topic)
}

// checkSourceID refuses a source topic of which another topic is the mirror, or was created to become it.
func (h *Handler) checkSourceID(ctx context.Context, name string, id state.TopicID) error {
	view := h.store.View()
	owner, ok := topicOfSource(view, id)
	if !ok {
		if owner, ok = view.CreatedFrom(id); ok && owner != name {
			found, err := readMetadata(ctx, h.clusters.Destination(), []string{owner})
			if err != nil {
				return fmt.Errorf("look for topic %s, which has the same source topic id: %w", owner, err)
			}
			ok = !errors.Is(found.topics[owner].err, kerr.UnknownTopicOrPartition) // else it was deleted since
		}
	}
	if ok && owner != name {
		return failf(mirrormsg.InvalidRequest, "source topic id %s is that of topic %s already", id, owner)
	}
	return nil
}

// topicOfSource returns the mirror topic that stands for a source topic.
func topicOfSource(view *state.View, sourceID state.TopicID) (string, bool) {
	for _, m := range view.Mirrors() {
		for _, topic := range view.TopicsOf(m.Name) {
			if topic.SourceID == sourceID {
				return topic.Name, true
			}
		}
	}
	return "", false
}

// brokerSets are a cluster's brokers by id: those that are active, and those that are registered only.
type brokerSets struct{ active, fenced []int32 }

// checkReplicas refuses a topic that would get replicas on brokers that are registered but not active: a mirror
// begins with a log that is cut to the same end on all replicas. (ReplicationControlManager)
func (b brokerSets) checkReplicas(topic *kmsg.CreateTopicsRequestTopic) error {
	for _, assignment := range topic.ReplicaAssignment {
		for _, replica := range assignment.Replicas {
			if slices.Contains(b.fenced, replica) {
				return failf(mirrormsg.InvalidReplicaAssignment, inactiveAssignment, assignment.Partition)
			}
		}
	}
	replicas := int(topic.ReplicationFactor)
	if len(topic.ReplicaAssignment) == 0 && replicas > len(b.active) && replicas <= len(b.active)+len(b.fenced) {
		return failf(mirrormsg.InvalidReplicationFactor, inactivePlacement, replicas)
	}
	return nil
}

// describeClusterFencedVersion is the DescribeCluster version that knows of fenced brokers; what an older cluster answers
// are the active ones.
const describeClusterFencedVersion int16 = 2

// brokers describes the destination's brokers.
func (h *Handler) brokers(ctx context.Context) (sets brokerSets, err error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	resp, err := req.RequestWith(ctx, h.clusters.Destination())
	if err != nil {
		return sets, fmt.Errorf("describe the destination cluster: %w", err)
	}
	if err := brokerError(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return sets, fmt.Errorf("describe the destination cluster: %w", err)
	}
	for _, b := range resp.Brokers {
		if resp.Version >= describeClusterFencedVersion && b.IsFenced {
			sets.fenced = append(sets.fenced, b.NodeID)
		} else {
			sets.active = append(sets.active, b.NodeID)
		}
	}
	return sets, nil
}

// createUpstream sends the topics that passed to the destination, fills their results in, and keeps the source ids of those
// that were created.
func (h *Handler) createUpstream(ctx context.Context, upstream *kmsg.CreateTopicsRequest, topics []kmsg.CreateTopicsRequestTopic,
	infos []*mirrormsg.MirrorInfo, results []kmsg.CreateTopicsResponseTopic,
) {
	answered := map[string]*kmsg.CreateTopicsResponseTopic{}
	resp, err := upstream.RequestWith(ctx, h.clusters.Destination())
	if err == nil {
		for i := range resp.Topics {
			answered[resp.Topics[i].Topic] = &resp.Topics[i]
		}
	} else {
		err = fmt.Errorf("create topics on the destination: %w", err)
	}
	for i := range topics {
		name := topics[i].Topic
		if results[i].Topic != "" {
			continue // refused before
		}
		switch answer, ok := answered[name]; {
		case err != nil:
			results[i] = refusedTopic(name, err)
		case !ok:
			results[i] = refusedTopic(name, errNotAnswered)
		default:
			results[i] = *answer
			id, mirrored := infos[i].SourceTopicID()
			if !mirrored || answer.ErrorCode != 0 || upstream.ValidateOnly {
				continue
			}
			if err := h.store.Do(ctx, state.RememberSourceID{Name: name, SourceID: state.TopicID(id)}); err != nil {
				results[i] = refusedTopic(name, fmt.Errorf("topic %s was created, but its source id could not be kept: %w", name, err))
			}
		}
	}
}
