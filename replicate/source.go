package replicate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// errSourceDeleted: the source topic was deleted; every broker of the source says so.
var errSourceDeleted = errors.New("the source topic was deleted")

// deletedLooks is how many times in a row the whole source cluster must say that a topic is
// gone. A broker that has just started may not know its topics yet.
const deletedLooks = 3

// source is one mirror's source cluster at one revision of its configs. Used by the runners of
// the mirror's partitions; it owns its fetchers, which end with its context.
type source struct {
	owner  *tenure
	mirror *state.Mirror
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	cluster  *connect.Cluster
	fetchers map[fetcherKey]*fetcher
	clients  map[int]*kgo.Client // of fetchers with this index, beside the cluster's own
	cleaning map[string]*cleaningEntry
	group    sync.WaitGroup
	// fetching ends the fetchers of the cluster's client.
	fetching    context.Context
	endFetching context.CancelFunc
}

// fetcherKey finds a fetcher: the broker it fetches from, and which of that broker's it is.
type fetcherKey struct {
	broker int32
	index  int
}

func newSource(t *tenure, mirror *state.Mirror) *source {
	s := &source{owner: t, mirror: mirror, fetchers: map[fetcherKey]*fetcher{}, clients: map[int]*kgo.Client{}, cleaning: map[string]*cleaningEntry{}, endFetching: func() {}}
	s.ctx, s.cancel = context.WithCancel(t.ctx)
	s.group.Go(func() { s.watch(s.ctx) })
	return s
}

// close ends the fetchers and the watch, and waits for them.
func (s *source) close() {
	s.cancel()
	s.group.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disconnect()
}

// connected is the source cluster, reached by the client of now. Another client than before is one
// of other configs, and the old one is closed: its fetchers end with it.
func (s *source) connected(ctx context.Context) (*connect.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, s.closing()
	}
	client, err := s.owner.cfg.Clusters.Source(ctx, s.mirror)
	if err != nil {
		return nil, produce.Because(produce.Refused, err, "connect to the source of mirror %s", s.mirror.Name)
	}
	if s.cluster == nil || s.cluster.Client() != client {
		s.disconnect()
		s.cluster = connect.NewCluster(client, s.owner.cfg.Clock)
		s.fetching, s.endFetching = context.WithCancel(s.ctx)
	}
	return s.cluster, nil
}

// disconnect ends the fetchers, without waiting for them. Called with mu held.
func (s *source) disconnect() {
	s.endFetching()
	for _, client := range s.clients {
		client.Close()
	}
	clear(s.fetchers)
	clear(s.clients)
}

func (s *source) closing() error {
	return produce.Faultf(produce.Retry, "the connections to the source of mirror %s are being closed", s.mirror.Name)
}

// topic describes the source topic after checking that it is this mirror's source cluster and
// still the same topic. Errors are Faults, or errSourceDeleted.
func (s *source) topic(ctx context.Context, topic *state.Topic, notBefore time.Time) (connect.Topic, *connect.Cluster, error) {
	cluster, err := s.connected(ctx)
	if err != nil {
		s.trouble(err)
		return connect.Topic{}, nil, err
	}
	found, err := cluster.Topic(ctx, topic.Name, notBefore)
	if err != nil && kerr.TypedErrorForCode(codeOf(err)) == nil {
		fault := produce.Because(produce.Retry, err, "the source of mirror %s cannot be reached", s.mirror.Name)
		s.trouble(fault)
		return found, nil, fault
	}
	if err := s.checkIdentity(ctx, cluster.ID()); err != nil {
		s.trouble(err)
		return found, nil, err
	}
	s.trouble(nil)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return found, nil, s.confirmDeleted(ctx, cluster, topic.Name)
	}
	return found, cluster, judge(topic, found, err)
}

// judge says what is wrong with how the source describes a topic.
func judge(topic *state.Topic, found connect.Topic, err error) error {
	switch have := int32(len(found.Leaders)); {
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return produce.Because(produce.Refused, err, "describe the source topic %s", topic.Name)
	case err != nil:
		return produce.Because(produce.Retry, err, "describe the source topic %s", topic.Name)
	case found.ID != [16]byte{} && !topic.SourceID.IsZero() && state.TopicID(found.ID) != topic.SourceID:
		return produce.Faultf(produce.Quarantined, "the source topic %s was recreated (topic id %s is now %s): what it holds now has nothing to do with what was copied. Remove the topic from the mirror, recreate it, and add it again",
			topic.Name, topic.SourceID, state.TopicID(found.ID))
	case have > topic.Partitions:
		return produce.Faultf(produce.Refused, "the source topic %s has %d partitions, the mirror topic %d: the records of partitions %d to %d are not mirrored. Remove the topic from the mirror, give it as many partitions here, and add it again",
			topic.Name, have, topic.Partitions, topic.Partitions, have-1)
	case have < topic.Partitions:
		return produce.Faultf(produce.Refused, "the source topic %s has %d partitions, the mirror topic %d: it is not the topic that was mirrored. Remove the topic from the mirror, recreate it, and add it again",
			topic.Name, have, topic.Partitions)
	}
	return nil
}

// codeOf is the Kafka error code in err, 0 when there is none.
func codeOf(err error) int16 {
	var e *kerr.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// checkIdentity compares the cluster's id with the one recorded at first contact, and with the
// destination's own.
func (s *source) checkIdentity(ctx context.Context, id string) error {
	name := s.mirror.Name
	if id == "" {
		return nil // a cluster without an id; nothing to compare
	}
	destination, err := s.owner.destinationID(ctx)
	if err != nil {
		return produce.Because(produce.Retry, err, "ask the destination for its cluster id")
	}
	if id == destination {
		return produce.Faultf(produce.Refused, "the source of mirror %s is the destination itself (cluster id %s)", name, id)
	}
	mirror, ok := s.owner.cfg.Store.View().Mirror(name)
	switch {
	case !ok:
		return produce.Faultf(produce.Retry, "mirror %s is not there any more", name)
	case mirror.SourceClusterID == "":
		if err := s.owner.cfg.Store.Do(ctx, state.SetSourceCluster{Mirror: name, ClusterID: id}); err != nil {
			return storeFault(err, "record the source cluster of mirror %s", name)
		}
	case mirror.SourceClusterID != id:
		return produce.Faultf(produce.Refused, "the source of mirror %s is another cluster: expected cluster id %s, got %s. Point bootstrap.servers back to the old one, or make a new mirror", name, mirror.SourceClusterID, id)
	}
	return nil
}

// confirmDeleted asks every broker of the source a few times whether the topic is gone. nil is
// never returned.
func (s *source) confirmDeleted(ctx context.Context, cluster *connect.Cluster, name string) error {
	for look := range deletedLooks {
		if look > 0 {
			if err := sleep(ctx, s.owner.cfg.Settings.DeletedPause); err != nil {
				return err
			}
		}
		answer, err := cluster.Metadata(ctx, cluster.Client(), name)
		if err == nil {
			err = s.allUnknown(ctx, cluster, answer, name)
		}
		if err != nil {
			return produce.Because(produce.Retry, err, "find out whether the source topic %s is gone", name)
		}
	}
	return fmt.Errorf("%s: %w", name, errSourceDeleted)
}

// allUnknown says with nil that every broker of an answer, and the answer itself, knows no such
// topic and is of the mirror's source cluster.
func (s *source) allUnknown(ctx context.Context, cluster *connect.Cluster, answer *kmsg.MetadataResponse, name string) error {
	if len(answer.Brokers) == 0 {
		return errors.New("the source lists no brokers")
	}
	answers := []*kmsg.MetadataResponse{answer}
	for _, broker := range answer.Brokers {
		own, err := cluster.Metadata(ctx, cluster.Client().Broker(int(broker.NodeID)), name)
		if err != nil {
			return err
		}
		answers = append(answers, own)
	}
	for _, own := range answers {
		if own.ClusterID != nil {
			if err := s.checkIdentity(ctx, *own.ClusterID); err != nil {
				return err
			}
		}
		if _, err := connect.TopicOf(own, name); !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("a broker still answers for it (%v)", err)
		}
	}
	return nil
}

// log reads the ends of a source partition and how to read it.
func (s *source) log(ctx context.Context, topic *state.Topic, partition int32, notBefore time.Time) (produce.SourceLog, connect.Topic, int32, error) {
	found, cluster, err := s.topic(ctx, topic, notBefore)
	if err != nil {
		return produce.SourceLog{}, found, -1, err
	}
	leader, err := found.Leader(partition)
	if err != nil {
		return produce.SourceLog{}, found, -1, produce.Because(produce.Retry, err, "source partition %s-%d", topic.Name, partition)
	}
	log := produce.SourceLog{
		Batches: func(ctx context.Context, offset int64) ([]byte, error) {
			return cluster.FetchBatches(ctx, leader.ID, found, partition, offset)
		},
		Ask: func(ctx context.Context) (int64, error) {
			return cluster.ListOffset(ctx, leader.ID, topic.Name, partition, connect.LatestOffset)
		},
		EpochEnd: func(ctx context.Context, epoch int32) (int32, int64, error) {
			return cluster.EpochEnd(ctx, leader.ID, topic.Name, partition, epoch)
		},
	}
	if log.LogStart, err = cluster.ListOffset(ctx, leader.ID, topic.Name, partition, connect.EarliestOffset); err == nil {
		log.HighWatermark, err = log.Ask(ctx)
	}
	if err != nil {
		fault := produce.Because(produce.Retry, err, "read where the source partition %s-%d begins and ends", topic.Name, partition)
		if codeOf(err) == 0 {
			s.trouble(fault)
		} else if errors.Is(err, kerr.TopicAuthorizationFailed) {
			fault.Verdict = produce.Refused
		}
		return log, found, -1, fault
	}
	return log, found, leader.ID, nil
}

// trouble shows on the board what is wrong with the connection to the source; nil that nothing is.
func (s *source) trouble(err error) {
	if s.ctx.Err() != nil {
		return // it is being closed, and so errors are no news
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.owner.cfg.Live.SetMirrorError(s.mirror.Name, text)
}

// fetcher is the fetcher for a partition that a broker of the source leads, always the same one, started when it is
// first needed.
func (s *source) fetcher(broker int32, id state.PartitionID) (*fetcher, error) {
	// The partitions of a topic spread evenly.
	spread := uint64(binary.BigEndian.Uint32(id.Topic[:4])) + uint64(id.Partition)
	key := fetcherKey{broker, int(spread % uint64(s.owner.cfg.Settings.Fetchers))}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || s.cluster == nil {
		return nil, s.closing()
	}
	f := s.fetchers[key]
	if f == nil {
		client, err := s.client(key.index)
		if err != nil {
			return nil, produce.Because(produce.Refused, err, "connect to the source of mirror %s", s.mirror.Name)
		}
		f = newFetcher(s, s.cluster, client, key)
		s.fetchers[key] = f
		fetching := s.fetching
		s.group.Go(func() { f.run(fetching) })
	}
	return f, nil
}

// client is what fetchers with an index fetch through. A broker serves the requests of a connection one after the
// other, and a client has one for fetching: fetchers that shared it would wait for each other's data. Called with mu held.
func (s *source) client(index int) (*kgo.Client, error) {
	if index == 0 {
		return s.cluster.Client(), nil
	}
	if client := s.clients[index]; client != nil {
		return client, nil
	}
	client, err := kgo.NewClient(s.cluster.Client().Opts()...)
	if err == nil {
		s.clients[index] = client
	}
	return client, err
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// storeFault judges an error of the store.
func storeFault(err error, format string, args ...any) *produce.Fault {
	var refused *state.Error
	verdict := produce.Retry
	if errors.As(err, &refused) && refused.Code == state.CodeNotOwner || errors.Is(err, state.ErrOutcomeUnknown) {
		verdict = produce.LostLease
	}
	return produce.Because(verdict, err, format, args...)
}
