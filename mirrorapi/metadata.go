package mirrorapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// clusterTimeout bounds each question to a cluster, so that one that is down becomes an answer before the client's own
// request timeout (30 s by default).
const clusterTimeout = 20 * time.Second

// topicInfo is what a cluster says of one of its topics.
type topicInfo struct {
	name       string
	id         state.TopicID // zero for a cluster older than topic ids (2.8)
	partitions int32
	internal   bool
	leaders    []int32 // by partition, -1 for none
	epochs     []int32 // of the leaders, by partition, -1 where the cluster does not tell
	err        error   // why the cluster does not describe the topic
}

// clusterInfo is a cluster's metadata of some topics.
type clusterInfo struct {
	id      string
	brokers []int32 // those that are alive, by id
	topics  map[string]topicInfo
}

// readMetadata asks a cluster for its id and the named topics, or all topics when names is nil. It creates none.
func readMetadata(ctx context.Context, client *kgo.Client, names []string) (*clusterInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	if names != nil {
		req.Topics = make([]kmsg.MetadataRequestTopic, 0, len(names))
		for _, name := range names {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = kmsg.StringPtr(name)
			req.Topics = append(req.Topics, topic)
		}
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("read metadata: %w", err)
	}
	info := &clusterInfo{id: text(resp.ClusterID), topics: make(map[string]topicInfo, len(resp.Topics))}
	for _, b := range resp.Brokers {
		info.brokers = append(info.brokers, b.NodeID)
	}
	slices.Sort(info.brokers)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		topic := topicInfo{
			name: text(t.Topic), id: t.TopicID, internal: t.IsInternal,
			partitions: int32(len(t.Partitions)), leaders: make([]int32, len(t.Partitions)), epochs: make([]int32, len(t.Partitions)),
			err: brokerError(t.ErrorCode, nil),
		}
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if p.Partition < 0 || int(p.Partition) >= len(topic.leaders) {
				return nil, fmt.Errorf("read metadata: topic %s has %d partitions, one of which is number %d",
					topic.name, len(t.Partitions), p.Partition)
			}
			topic.leaders[p.Partition], topic.epochs[p.Partition] = p.Leader, p.LeaderEpoch
		}
		info.topics[topic.name] = topic
	}
	return info, nil
}

// source is a mirror's source cluster as one request sees it.
type source struct {
	client *kgo.Client
	*clusterInfo
}

// readSource asks the mirror's source for topics (nil: all), and makes sure that it is the cluster it always was, and not
// the destination itself. The cluster id is stored at first contact.
func (h *Handler) readSource(ctx context.Context, m *state.Mirror, names []string) (*source, error) {
	client, err := h.clusters.Source(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("connect to the source cluster of mirror %s: %w", m.Name, err)
	}
	info, err := readMetadata(ctx, client, names)
	if err != nil {
		return nil, fmt.Errorf("source cluster of mirror %s: %w", m.Name, err)
	}
	destination, err := readMetadata(ctx, h.clusters.Destination(), []string{})
	if err != nil {
		return nil, fmt.Errorf("destination cluster: %w", err)
	}
	switch {
	case info.id == "":
		return nil, failf(mirrormsg.InvalidRequest, "the source cluster of mirror %s does not tell its cluster id", m.Name)
	case info.id == destination.id:
		return nil, failf(mirrormsg.InvalidRequest, "mirror %s has its own destination as its source: both clusters have the id %s; "+
			"correct %s of the mirror", m.Name, info.id, configBootstrapServers)
	case m.SourceClusterID == "":
		if err := h.store.Do(ctx, state.SetSourceCluster{Mirror: m.Name, ClusterID: info.id}); err != nil {
			return nil, err
		}
	case m.SourceClusterID != info.id:
		return nil, failf(mirrormsg.InvalidRequest, "Source cluster ID changed for mirror %s: expected %s, got %s. "+
			"This may indicate a misconfiguration or that the source cluster has been replaced.", m.Name, m.SourceClusterID, info.id)
	}
	return &source{client: client, clusterInfo: info}, nil
}
