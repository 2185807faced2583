package replicate

import (
	"context"
	"errors"

	"kafka-mirror-proxy/replicate/connect"
	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// watch looks at a mirror's topics on both clusters every MetadataRefresh until ctx ends, by one request to each: what
// fetching and producing do not notice (partitions that were added, a topic that was replaced, another cluster at the
// source's address) ends the sessions of that topic. They align again, which judges for itself.
func (s *source) watch(ctx context.Context) {
	for sleep(ctx, s.owner.cfg.Settings.MetadataRefresh) == nil {
		topics := map[string]*state.Topic{}
		var names []string
		for _, topic := range s.owner.cfg.Store.View().TopicsOf(s.mirror.Name) {
			if topic.Desired == state.DesiredMirroring {
				topics[topic.Name] = topic
				names = append(names, topic.Name)
			}
		}
		s.mu.Lock()
		cluster := s.cluster
		s.mu.Unlock()
		if cluster == nil || len(names) == 0 {
			continue
		}
		err := cluster.Refresh(ctx, names, func(name string, found connect.Topic, err error) {
			if judge(topics[name], found, err) != nil {
				s.owner.doubt(topics[name])
			}
		})
		var fault *produce.Fault
		if err == nil && errors.As(s.checkIdentity(ctx, cluster.ID()), &fault) && fault.Verdict == produce.Refused {
			for _, topic := range topics {
				s.owner.doubt(topic)
			}
		}
		// When a cluster cannot be reached, fetching or producing show it.
		s.note(err)
		s.note(s.owner.engine.Refresh(ctx, names, func(name string, found connect.Topic, err error) {
			topic := topics[name]
			if err != nil || found.ID != topic.ID || len(found.Leaders) != int(topic.Partitions) {
				s.owner.doubt(topic)
				return
			}
			s.owner.doubtMoved(topic, found.Leaders)
		}))
	}
}

func (s *source) note(err error) {
	if err != nil && s.ctx.Err() == nil {
		s.owner.log.Debug().Err(err).Str("mirror", s.mirror.Name).Msg("look at the mirror's topics")
	}
}

// doubt ends the sessions of a topic.
func (t *tenure) doubt(topic *state.Topic) {
	t.doubtWhere(topic, func(*partition) bool { return true })
}

// doubtMoved ends the sessions that write to another leader than a topic has now on the destination. A new leader may
// have lost the end of the log, which nobody would notice before the next record comes.
func (t *tenure) doubtMoved(topic *state.Topic, leaders []connect.Leader) {
	t.doubtWhere(topic, func(p *partition) bool {
		leader := p.leader.Load()
		return leader != nil && *leader != leaders[p.id.Partition]
	})
}

func (t *tenure) doubtWhere(topic *state.Topic, applies func(*partition) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range topic.Partitions {
		if p := t.partitions[state.PartitionID{Topic: topic.ID, Partition: i}]; p != nil && applies(p) {
			select {
			case p.doubted <- struct{}{}:
			default: // a token is there already
			}
		}
	}
}

// checkPartitions says that the destination topic has as many partitions as the mirror topic.
func checkPartitions(topic *state.Topic, have int32) error {
	if have == topic.Partitions {
		return nil
	}
	return produce.Faultf(produce.Refused, "the destination topic %s has %d partitions, the mirror topic %d: a mirror has the partitions of its source. Remove the topic from the mirror, recreate it, and add it again",
		topic.Name, have, topic.Partitions)
}
