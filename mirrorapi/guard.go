package mirrorapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// mirror.guard=acl covers what the proxy cannot: clients that go around it, and the moment between verdict and write in a
// proxy that froze. An ACL denies everyone to write to a topic, from before it is looked whether the topic is empty until it
// is STOPPED. Only a super user writes all the same, and the proxy's own principal has to be one: this is proved before the
// topic is confirmed.

var errNoAuthorizer = failf(mirrormsg.InvalidConfig, "Invalid value for mirror configuration %s: \"%s\" needs an authorizer on the "+
	"destination cluster (authorizer.class.name), and it has none", configGuard, guardACL)

// checkGuard refuses mirror.guard=acl where the destination would keep no ACL.
func (h *Handler) checkGuard(ctx context.Context, configs map[string]string) error {
	if configs[configGuard] != guardACL {
		return nil
	}
	switch err := h.authorizer.find(ctx); {
	case err == nil:
		return errNoAuthorizer
	case !errors.Is(err, errAuthorizer):
		return err
	}
	return nil
}

// findGuards decides for each topic whether its ACL will be the proxy's, to be removed at STOPPED, or was there before. It
// must come before the topic is stored: whoever goes on after a crash removes what may have been made.
func (h *Handler) findGuards(ctx context.Context, mirror *state.Mirror, additions []*addition) {
	if mirror.Configs[configGuard] != guardACL {
		return
	}
	each(pending(additions), func(a *addition) {
		there, err := findGuard(ctx, h.clusters.Destination(), a.name)
		switch {
		case err != nil:
			a.err = fmt.Errorf("topic %s: %w", a.name, err)
		case there:
			a.guard = state.GuardFound
		default:
			a.guard = state.GuardOurs
		}
	})
}

func findGuard(ctx context.Context, through kmsg.Requestor, topic string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	resp, err := state.GuardSearch(topic).RequestWith(ctx, through)
	switch {
	case err != nil:
		return false, fmt.Errorf("look for the ACL of %s=%s: %w", configGuard, guardACL, err)
	case resp.ErrorCode == kerr.SecurityDisabled.Code:
		return false, errNoAuthorizer
	}
	if err := brokerError(resp.ErrorCode, resp.ErrorMessage); err != nil {
		return false, fmt.Errorf("look for the ACL of %s=%s: %w", configGuard, guardACL, err)
	}
	return len(resp.Resources) > 0, nil
}

// raiseGuards makes the ACLs and waits until the leaders have them.
func (h *Handler) raiseGuards(ctx context.Context, additions []*addition) {
	each(pending(additions), func(a *addition) {
		if a.guard == state.GuardNone {
			return
		}
		err := error(nil)
		if a.guard == state.GuardOurs {
			err = h.createGuard(ctx, a.name)
		}
		if err == nil {
			err = h.proveGuard(ctx, a)
		}
		if err != nil {
			a.err = fmt.Errorf("topic %s: %w", a.name, err)
		}
	})
}

func (h *Handler) createGuard(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	resp, err := state.GuardCreation(topic).RequestWith(ctx, h.clusters.Destination())
	if err == nil && len(resp.Results) != 1 {
		err = fmt.Errorf("the answer is about %d ACLs", len(resp.Results))
	}
	if err == nil {
		err = brokerError(resp.Results[0].ErrorCode, resp.Results[0].ErrorMessage)
	}
	if err != nil {
		return fmt.Errorf("create the ACL of %s=%s (it takes the right to ALTER the cluster): %w", configGuard, guardACL, err)
	}
	return nil
}

const guardTimeout = 15 * time.Second

// proveGuard waits until each leader of the topic knows the ACL, and proves that the proxy may write there nevertheless.
func (h *Handler) proveGuard(ctx context.Context, a *addition) error {
	ctx, cancel := context.WithTimeout(ctx, guardTimeout)
	defer cancel()
	leaders := slices.Clone(a.destination.leaders)
	slices.Sort(leaders)
	for _, leader := range slices.Compact(leaders) {
		broker := h.clusters.Destination().Broker(int(leader))
		for {
			there, err := findGuard(ctx, broker, a.name)
			if err == nil && there {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait until broker %d has the ACL of %s=%s: %w", leader, configGuard, guardACL, errors.Join(ctx.Err(), err))
			case <-time.After(createdPause):
			}
		}
		if err := proveOwnWrite(ctx, broker, a.name); err != nil {
			return err
		}
	}
	return nil
}

// proveOwnWrite asks a broker what this proxy's principal may do with a topic that nobody may write to.
func proveOwnWrite(ctx context.Context, broker kmsg.Requestor, topic string) error {
	req := kmsg.NewPtrMetadataRequest()
	wanted := kmsg.NewMetadataRequestTopic()
	wanted.Topic = kmsg.StringPtr(topic)
	req.Topics, req.IncludeTopicAuthorizedOperations = append(req.Topics, wanted), true
	resp, err := req.RequestWith(ctx, broker)
	if err == nil && len(resp.Topics) != 1 {
		err = fmt.Errorf("the answer is about %d topics", len(resp.Topics))
	}
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("ask the destination for the proxy's own rights: %w", err)
	}
	// A set of bits by operation; the number for "not told" has this bit clear.
	if resp.Topics[0].AuthorizedOperations&(1<<kmsg.ACLOperationWrite) == 0 {
		return failf(mirrormsg.ClusterAuthorizationFailed, "%s=%s denies WRITE to everyone but super users, and the principal by which the proxy "+
			"itself connects to the destination is none: put it into super.users of the brokers, or set %s=none", configGuard, guardACL, configGuard)
	}
	return nil
}

// dropGuard removes the ACL of a topic that is not mirrored after all.
func (h *Handler) dropGuard(ctx context.Context, topic string, guard state.Guard) error {
	if guard != state.GuardOurs {
		return nil
	}
	if !h.store.Lease() {
		return errors.New("this process does not own the mirrors any more")
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	resp, err := state.GuardDeletion(topic).RequestWith(ctx, h.clusters.Destination())
	if err == nil && len(resp.Results) != 1 {
		err = fmt.Errorf("the answer is about %d filters", len(resp.Results))
	}
	if err == nil {
		err = brokerError(resp.Results[0].ErrorCode, resp.Results[0].ErrorMessage)
	}
	if err != nil {
		return fmt.Errorf("topic %s: remove the ACL of %s=%s: %w", topic, configGuard, guardACL, err)
	}
	return nil
}

// guardStatus says for describe which topics of a mirror the broker guards now, "" for none.
func guardStatus(view *state.View, mirror string) string {
	var ours, found []string
	for _, topic := range view.TopicsOf(mirror) {
		switch {
		case !view.ReadOnly(topic):
		case topic.Guard == state.GuardOurs:
			ours = append(ours, topic.Name)
		case topic.Guard == state.GuardFound:
			found = append(found, topic.Name)
		}
	}
	var parts []string
	for _, part := range []struct {
		text   string
		topics []string
	}{{"DENY WRITE until STOPPED: ", ours}, {"DENY WRITE that was there before and stays: ", found}} {
		if n := len(part.topics); n > maxTopicsTold {
			part.topics = append(part.topics[:maxTopicsTold:maxTopicsTold], fmt.Sprintf("and %d more", n-maxTopicsTold))
		}
		if len(part.topics) > 0 {
			parts = append(parts, part.text+strings.Join(part.topics, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
