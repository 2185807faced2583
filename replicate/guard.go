package replicate

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// dropGuard removes the ACL that kept everyone but the proxy from writing to a topic (mirror.guard=acl), as the last thing
// before STOPPED. An ACL that was there before stays. As with the configs, a failover does not hang on it.
func (p *partition) dropGuard(topic *state.Topic, h *handOver) error {
	if topic.Guard != state.GuardOurs {
		return nil
	}
	if !p.tenure.owns() {
		return produce.Faultf(produce.LostLease, "this process does not own the mirrors any more")
	}
	answer, err := state.GuardDeletion(topic.Name).RequestWith(p.ctx, p.tenure.cfg.Clusters.Destination())
	if err == nil && len(answer.Results) != 1 {
		err = errors.New("the answer is about other ACLs")
	}
	if err == nil {
		err = kerr.ErrorForCode(answer.Results[0].ErrorCode)
	}
	if err == nil {
		return nil
	}
	if h.guardAttempts++; codeOf(err) == 0 || h.guardAttempts < handBackTries {
		return produce.Because(produce.Retry, err, "remove the ACL of mirror.guard=acl from topic %s", topic.Name)
	}
	p.tenure.log.Warn().Err(err).Str("topic", topic.Name).Msg("the topic keeps the ACL of mirror.guard=acl")
	return p.do("note the ACL", state.SetTopicError{ID: topic.ID, Error: fmt.Sprintf(
		"nobody can write to the topic: the ACL of mirror.guard=acl (DENY WRITE for User:* on topic %s) could not be removed: %v. Remove it by kafka-acls", topic.Name, err)})
}
