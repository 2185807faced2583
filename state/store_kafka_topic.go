package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// stateTopic is where the state is kept.
	stateTopic = "__mirror_state"
	// OwnerTransactionalID is the one whose epoch decides who may write the state; no client may use it.
	OwnerTransactionalID = stateTopic + "-owner"
)

// stateTopicInfo is what the destination says about __mirror_state.
type stateTopicInfo struct {
	id         TopicID
	partitions int32
}

// openTopic finds __mirror_state, or makes it on a cluster that never had one.
func (k *Kafka) openTopic(ctx context.Context, client *kgo.Client) (stateTopicInfo, error) {
	info, brokers, err := describeStateTopic(ctx, client)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		if err := k.mayStartEmpty(ctx, client); err != nil {
			return stateTopicInfo{}, err
		}
		if err := k.createTopic(ctx, client, brokers); err != nil {
			return stateTopicInfo{}, err
		}
		info, err = awaitStateTopic(ctx, client)
	}
	if err != nil {
		return stateTopicInfo{}, err
	}
	k.publishStateTopic(info.id)
	return info, checkCompacted(ctx, client)
}

// publishStateTopic makes the topic's id known before anything of it is loaded: it is to be kept from clients, who may
// name it by that, above all while it cannot be loaded.
func (k *Kafka) publishStateTopic(id TopicID) {
	if v := *k.View(); v.stateTopicID != id {
		v.stateTopicID = id
		k.publish(&v)
	}
}

// mayStartEmpty says, by an error, when a log without content must not be taken as "nothing was ever mirrored": the
// cluster knows the owner's transactional id, so there was content, and mirror topics would become writable.
func (k *Kafka) mayStartEmpty(ctx context.Context, client *kgo.Client) error {
	if k.cfg.AcceptMissing {
		k.cfg.Log.Warn().Msg("taking a " + stateTopic + " without content as empty, as configured")
		return nil
	}
	described, err := kadm.NewClient(client).DescribeTransactions(ctx, OwnerTransactionalID)
	if err == nil {
		err = described[OwnerTransactionalID].Err
	}
	switch {
	case errors.Is(err, kerr.TransactionalIDNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("find out whether the cluster ever had mirrors (describe transactional id %s): %w", OwnerTransactionalID, err)
	}
	return fmt.Errorf("%s has no content, but this cluster had mirrors once (it knows transactional id %s): "+
		"restore the topic, or accept that everything about the mirrors is lost", stateTopic, OwnerTransactionalID)
}

func (k *Kafka) createTopic(ctx context.Context, client *kgo.Client, brokers int) error {
	replicationFactor := k.cfg.ReplicationFactor
	if brokers < int(replicationFactor) {
		replicationFactor = int16(brokers)
	}
	inSync := "1"
	if replicationFactor > 2 {
		inSync = "2" // what was acknowledged survives the loss of a broker
	}
	_, err := kadm.NewClient(client).CreateTopic(ctx, k.cfg.Partitions, replicationFactor, map[string]*string{
		"cleanup.policy":                 kadm.StringPtr("compact"),
		"compression.type":               kadm.StringPtr("producer"),
		"min.insync.replicas":            kadm.StringPtr(inSync),
		"retention.ms":                   kadm.StringPtr("-1"),
		"unclean.leader.election.enable": kadm.StringPtr("false"),
	}, stateTopic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s with %d partitions and replication factor %d: %w", stateTopic, k.cfg.Partitions, replicationFactor, err)
	}
	return nil
}

// awaitStateTopic waits until the broker that is asked has heard of a topic just created.
func awaitStateTopic(ctx context.Context, client *kgo.Client) (info stateTopicInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		info, _, err = describeStateTopic(ctx, client)
		if err == nil || ctx.Err() != nil {
			return info, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// describeStateTopic asks for the topic and the number of live brokers. The error is kerr.UnknownTopicOrPartition when
// there is no such topic.
func describeStateTopic(ctx context.Context, client *kgo.Client) (info stateTopicInfo, brokers int, err error) {
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(stateTopic)
	request.Topics = append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return info, 0, fmt.Errorf("ask the destination for topic %s: %w", stateTopic, err)
	}
	if len(response.Topics) != 1 {
		return info, 0, fmt.Errorf("ask the destination for topic %s: it answered about %d topics", stateTopic, len(response.Topics))
	}
	t := response.Topics[0]
	if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
		return info, len(response.Brokers), fmt.Errorf("ask the destination for topic %s: %w", stateTopic, err)
	}
	return stateTopicInfo{id: t.TopicID, partitions: int32(len(t.Partitions))}, len(response.Brokers), nil
}

// checkCompacted refuses a topic that would lose state by age or size.
func checkCompacted(ctx context.Context, client *kgo.Client) error {
	configs, err := kadm.NewClient(client).DescribeTopicConfigs(ctx, stateTopic)
	if err == nil {
		_, err = configs.On(stateTopic, func(c *kadm.ResourceConfig) error { return c.Err })
	}
	if err != nil {
		return fmt.Errorf("describe the configs of topic %s: %w", stateTopic, err)
	}
	for _, c := range configs[0].Configs {
		if c.Key == "cleanup.policy" {
			if c.MaybeValue() == "compact" {
				return nil
			}
			return fmt.Errorf("topic %s has cleanup.policy=%s: it must be compact, or the state of the mirrors gets lost", stateTopic, c.MaybeValue())
		}
	}
	return fmt.Errorf("topic %s shows no cleanup.policy", stateTopic)
}
