package connect

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// callTimeout bounds one control call, the client's own retries included.
const callTimeout = 15 * time.Second

// Timestamps that ListOffsets gives a meaning.
const (
	LatestOffset   int64 = -1 // the high watermark
	EarliestOffset int64 = -2 // the log start offset
)

// Cluster asks one cluster about topics and logs. Safe for concurrent use; what it remembers is
// the topics that were asked for.
type Cluster struct {
	client *kgo.Client
	now    func() time.Time

	mu        sync.Mutex
	topics    map[string]*topicEntry
	addresses map[int32]string
	clusterID string
}

// topicEntry lets one caller ask while the others wait for that answer.
type topicEntry struct {
	turn  chan struct{} // holds a token while nobody asks
	asked time.Time
	topic Topic
}

// entry is a topic's, with the caller's turn to ask, which must be given back.
func (c *Cluster) entry(ctx context.Context, name string) (*topicEntry, error) {
	c.mu.Lock()
	e := c.topics[name]
	if e == nil {
		e = &topicEntry{turn: make(chan struct{}, 1)}
		e.turn <- struct{}{}
		c.topics[name] = e
	}
	c.mu.Unlock()
	select {
	case <-e.turn:
		return e, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *topicEntry) giveBack() { e.turn <- struct{}{} }

// Topic is a topic as Metadata shows it.
type Topic struct {
	Name    string
	ID      [16]byte // zero where brokers have no topic ids
	Leaders []Leader // by partition
}

// Leader of a partition; ID -1 when there is none.
type Leader struct{ ID, Epoch int32 }

// NewCluster asks through client; now is the clock (monotonic readings are compared).
func NewCluster(client *kgo.Client, now func() time.Time) *Cluster {
	return &Cluster{client: client, now: now, topics: map[string]*topicEntry{}, addresses: map[int32]string{}}
}

// Client is the client that the cluster is asked through.
func (c *Cluster) Client() *kgo.Client { return c.client }

// Topic describes a topic, from memory when the cluster was asked after notBefore. The error is
// the broker's kerr error (kerr.UnknownTopicOrPartition when there is no such topic), or of the
// connection.
func (c *Cluster) Topic(ctx context.Context, name string, notBefore time.Time) (Topic, error) {
	entry, err := c.entry(ctx, name)
	if err != nil {
		return Topic{}, fmt.Errorf("ask for metadata: %w", err)
	}
	defer entry.giveBack()
	if !entry.asked.IsZero() && entry.asked.After(notBefore) {
		return entry.topic, nil
	}
	asked := c.now()
	answer, err := c.Metadata(ctx, c.client, name)
	if err != nil {
		return Topic{}, err
	}
	return entry.take(answer, name, asked)
}

// take remembers a topic, or forgets it when the answer does not show it. Called at its turn.
func (e *topicEntry) take(answer *kmsg.MetadataResponse, name string, asked time.Time) (Topic, error) {
	topic, err := TopicOf(answer, name)
	if err != nil {
		asked = time.Time{}
	}
	e.topic, e.asked = topic, asked
	return topic, err
}

// Refresh describes topics by one request and remembers them. look is called for each, with what
// Topic would return, unless it was described by a newer answer meanwhile.
func (c *Cluster) Refresh(ctx context.Context, names []string, look func(name string, topic Topic, err error)) error {
	asked := c.now()
	answer, err := c.Metadata(ctx, c.client, names...)
	if err != nil {
		return err
	}
	for _, name := range names {
		entry, err := c.entry(ctx, name)
		if err != nil {
			return fmt.Errorf("ask for metadata: %w", err)
		}
		newer := entry.asked.After(asked)
		var topic Topic
		if !newer {
			topic, err = entry.take(answer, name, asked)
		}
		entry.giveBack()
		if !newer {
			look(name, topic, err)
		}
	}
	return nil
}

// Metadata asks for topics through the client or one of its brokers, and remembers where brokers
// are.
func (c *Cluster) Metadata(ctx context.Context, through kmsg.Requestor, names ...string) (*kmsg.MetadataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(name)
		request.Topics = append(request.Topics, topic)
	}
	answer, err := request.RequestWith(ctx, through)
	if err != nil {
		return nil, fmt.Errorf("ask for metadata: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, broker := range answer.Brokers {
		c.addresses[broker.NodeID] = net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port)))
	}
	if answer.ClusterID != nil {
		c.clusterID = *answer.ClusterID
	}
	return answer, nil
}

// TopicOf finds a topic in a Metadata answer; the error is the broker's kerr error for it.
func TopicOf(answer *kmsg.MetadataResponse, name string) (Topic, error) {
	for _, t := range answer.Topics {
		if t.Topic == nil || *t.Topic != name {
			continue
		}
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return Topic{}, err
		}
		topic := Topic{Name: name, ID: t.TopicID, Leaders: make([]Leader, len(t.Partitions))}
		for i := range topic.Leaders {
			topic.Leaders[i].ID = -1
		}
		for _, p := range t.Partitions {
			if int(p.Partition) < len(topic.Leaders) && p.Partition >= 0 && p.Leader >= 0 {
				topic.Leaders[p.Partition] = Leader{ID: p.Leader, Epoch: p.LeaderEpoch}
			}
		}
		return topic, nil
	}
	return Topic{}, kerr.UnknownTopicOrPartition
}

// Leader is the leader of a partition, or an error that says why there is none to ask.
func (t *Topic) Leader(partition int32) (Leader, error) {
	if int(partition) >= len(t.Leaders) {
		return Leader{}, fmt.Errorf("%s has %d partitions and no partition %d", t.Name, len(t.Leaders), partition)
	}
	if t.Leaders[partition].ID < 0 {
		return Leader{}, fmt.Errorf("%s-%d: %w", t.Name, partition, kerr.LeaderNotAvailable)
	}
	return t.Leaders[partition], nil
}

// Addr is the last known "host:port" of a broker.
func (c *Cluster) Addr(broker int32) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr, ok := c.addresses[broker]
	return addr, ok
}

// ID is the cluster id of the last Metadata answer, "" before the first one (or when the
// cluster has none).
func (c *Cluster) ID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clusterID
}

// ListOffset asks the leader for an offset by timestamp, read uncommitted.
func (c *Cluster) ListOffset(ctx context.Context, leader int32, topic string, partition int32, timestamp int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = partition, -1, timestamp
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	answer, err := request.RequestWith(ctx, c.client.Broker(int(leader)))
	if err != nil {
		return -1, fmt.Errorf("list offsets of %s-%d: %w", topic, partition, err)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return -1, fmt.Errorf("list offsets of %s-%d: the answer holds other partitions", topic, partition)
	}
	result := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
		return -1, fmt.Errorf("list offsets of %s-%d: %w", topic, partition, err)
	}
	return result.Offset, nil
}

// FetchBatches reads a few batches from an offset on; the first may begin before it. The
// result is empty at the end of the log.
func (c *Cluster) FetchBatches(ctx context.Context, leader int32, topic Topic, partition int32, offset int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := kmsg.NewPtrFetchRequest()
	request.ReplicaID, request.MaxWaitMillis, request.MinBytes, request.MaxBytes, request.SessionEpoch = -1, 0, 1, 1<<20, -1
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 64<<10
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID, t.Partitions = topic.Name, topic.ID, append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	answer, err := request.RequestWith(ctx, c.client.Broker(int(leader)))
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("fetch %s-%d at offset %d: %w", topic.Name, partition, offset, err)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return nil, fmt.Errorf("fetch %s-%d at offset %d: the answer holds other partitions", topic.Name, partition, offset)
	}
	result := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
		return nil, fmt.Errorf("fetch %s-%d at offset %d: %w", topic.Name, partition, offset, err)
	}
	return result.RecordBatches, nil
}

// EpochEnd asks a partition's leader where a leader epoch ends in its log (OffsetForLeaderEpoch): the largest epoch that it
// knows not above it, and the offset behind that one's last record; -1 for both where it does not know.
func (c *Cluster) EpochEnd(ctx context.Context, leader int32, topic string, partition, epoch int32) (known int32, endOffset int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request := kmsg.NewPtrOffsetForLeaderEpochRequest()
	request.ReplicaID = -1
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = partition, -1, epoch
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	answer, err := request.RequestWith(ctx, c.client.Broker(int(leader)))
	if err != nil {
		return -1, -1, fmt.Errorf("offset for leader epoch of %s-%d: %w", topic, partition, err)
	}
	if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1 {
		return -1, -1, fmt.Errorf("offset for leader epoch of %s-%d: the answer holds other partitions", topic, partition)
	}
	result := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(result.ErrorCode); err != nil {
		return -1, -1, fmt.Errorf("offset for leader epoch of %s-%d: %w", topic, partition, err)
	}
	if answer.Version == 0 {
		result.LeaderEpoch = epoch // it tells the end only
	}
	return result.LeaderEpoch, result.EndOffset, nil
}
