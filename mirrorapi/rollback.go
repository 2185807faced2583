package mirrorapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kafka-mirror-proxy/state"
)

const rollbackTimeout = 20 * time.Second

// rollback takes the refused topics out of the mirror again and gives back the configs that they had. Those that this
// request created get the ones they would have after mirroring.
func (h *Handler) rollback(ctx context.Context, additions []*addition) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	each(additions, func(a *addition) {
		if a.err == nil {
			return
		}
		if a.adding {
			if err := h.dropGuard(ctx, a.name, a.guard); err != nil {
				h.log.Error().Err(err).Str("topic", a.name).Msg("a refused topic stays in its mirror until that can be done")
				return
			}
			if err := h.store.Do(ctx, state.RollbackTopic{ID: a.destination.id}); err != nil {
				h.log.Error().Err(err).Str("topic", a.name).Msg("a refused topic could not be taken out of its mirror again")
				return
			}
		}
		h.restoreConfigs(ctx, a.name, a.restore)
	})
}

// RollbackLeftovers ends the additions that another process, or this one before it lost the ownership, left half done: the
// topics are again what they were, and can be added anew. To be called by a process that has just become the owner. Additions
// that requests are at work on at this moment are theirs to end.
func (h *Handler) RollbackLeftovers(ctx context.Context) error {
	var errs []error
	for _, topic := range h.store.View().Adding() {
		if h.claim(topic.Name) {
			errs = append(errs, h.rollbackLeftover(ctx, topic))
			h.release(topic.Name)
		}
	}
	return errors.Join(errs...)
}

func (h *Handler) rollbackLeftover(ctx context.Context, topic *state.Topic) error {
	h.log.Warn().Str("mirror", topic.Mirror).Str("topic", topic.Name).
		Msg("adding the topic was cut short; it is not in the mirror, add it again")
	if err := h.dropGuard(ctx, topic.Name, topic.Guard); err != nil {
		return err
	}
	if err := h.store.Do(ctx, state.RollbackTopic{ID: topic.ID}); err != nil {
		return fmt.Errorf("take topic %s out of mirror %s: %w", topic.Name, topic.Mirror, err)
	}
	// How far the addition had come is not known: a topic that was there before may not have been altered yet.
	configs, err := readTopicConfigs(ctx, h.clusters.Destination(), []string{topic.Name})
	if err == nil && configs[topic.Name].lackOwned() == nil {
		h.restoreConfigs(ctx, topic.Name, topic.HandBack)
	}
	return nil
}

// restoreConfigs sets the configs of a topic whose addition has failed; a nil value deletes. Not those of a topic that is
// read-only all the same: it is in a mirror by now, in which the source's records must not be deleted by age or size.
func (h *Handler) restoreConfigs(ctx context.Context, name string, configs map[string]*string) {
	topic, known := h.store.View().Topic(name)
	if len(configs) == 0 || known && h.store.View().ReadOnly(topic) {
		return
	}
	set, removed := map[string]string{}, []string(nil)
	for key, value := range configs {
		if value == nil {
			removed = append(removed, key)
		} else {
			set[key] = *value
		}
	}
	err := errors.New("this process does not own the mirrors any more")
	if h.store.Lease() {
		err = alterTopicOnce(ctx, h.clusters.Destination(), name, set, removed, false)
	}
	if err != nil {
		h.log.Warn().Err(err).Str("topic", name).Msg("a topic that was not added keeps the configs of a mirror topic")
	}
}
