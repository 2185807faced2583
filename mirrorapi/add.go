package mirrorapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/errgroup"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// parallelTopics is how many topics of one request are worked on at once.
const parallelTopics = 16

// addition is one topic on its way into a mirror. It goes through the steps of addTopics until one sets err.
type addition struct {
	name string
	err  error

	source   topicInfo
	wanted   map[string]string  // configs while mirrored
	handBack map[string]*string // configs afterwards

	destination topicInfo
	existed     bool              // the destination topic was there before the request
	have        map[string]string // its overrides then
	guard       state.Guard
	adding      bool // the store knows of the addition: it ends by a confirmation or a rollback

	restore map[string]*string // configs to give back when the addition fails, nil value: none; not while nothing was changed
}

// addTopics answers AddTopicsToMirror. When it answers success, the topic exists on the destination with the source's
// partition count and configs, holds nothing, and no client can write to it.
//
// The order is what makes this true: the topic becomes read-only first (AddTopic), then every produce that was let through
// before has been answered (the gate), and only then is looked whether the topic is empty. A topic that is not goes back
// to what it was.
func (h *Handler) addTopics(ctx context.Context, req *mirrormsg.TopicsRequest) mirrormsg.Response {
	resp := req.NewResponse().(*mirrormsg.TopicsResponse)
	resp.MirrorName = req.MirrorName
	additions, err := h.add(ctx, req)
	if err != nil {
		setFailure(&resp.Status, err)
		return resp
	}
	fillTopics(resp, req.WantsExtensions(), additions, func(a *addition) (string, error) { return a.name, a.err })
	return resp
}

// add returns an error for the request as a whole, or the outcome of each topic.
func (h *Handler) add(ctx context.Context, req *mirrormsg.TopicsRequest) ([]*addition, error) {
	view := h.store.View()
	mirror, ok := view.Mirror(req.MirrorName)
	if !ok {
		return nil, unknownMirror(req.MirrorName)
	}
	selection, err := readSelection(req)
	if err != nil {
		return nil, err
	}
	exclude, err := newExclusion(mirror.Configs)
	if err != nil {
		return nil, failf(mirrormsg.InvalidConfig, "%v", err)
	}
	names := selection.names // with patterns, the topics have to be listed first
	if len(selection.patterns) > 0 {
		names = nil
	}
	src, err := h.readSource(ctx, mirror, names)
	if err != nil {
		return nil, err
	}
	chosen, err := selection.resolve(mirrorable(src.topics))
	if err != nil {
		return nil, err
	}
	additions := make([]*addition, 0, len(chosen))
	for _, name := range chosen {
		a := &addition{name: name}
		a.source, a.err = checkSourceTopic(src, mirror.Name, name)
		if a.err == nil {
			a.err = checkKnownTopic(view, name, a.source.id)
		}
		if a.err == nil && !h.claim(name) {
			a.err = failf(mirrormsg.TopicAlreadyInMirror, "topic %s is being added by another request", name)
		} else if a.err == nil {
			defer h.release(name)
		}
		additions = append(additions, a)
	}
	h.planConfigs(ctx, src, additions, exclude, mirror.Configs[configRaiseTopicLimits] != "false")
	h.ensureDestination(ctx, additions, req.ReplicationFactor)
	for _, a := range pending(additions) {
		a.err = checkSameSource(view, mirror.Name, a)
	}
	h.findGuards(ctx, mirror, additions)
	h.joinMirror(ctx, mirror, additions)
	h.raiseGuards(ctx, additions)
	h.proveEmpty(ctx, additions)
	h.readOverrides(ctx, additions)
	h.finish(ctx, additions, exclude)
	h.rollback(ctx, additions)
	return additions, nil
}

func unknownMirror(name string) error {
	return failf(mirrormsg.UnknownMirror, "mirror %q does not exist", name)
}

// mirrorable lists the topics that patterns may choose, sorted.
func mirrorable(topics map[string]topicInfo) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if t := topics[name]; t.err == nil && !t.internal {
			names = append(names, name)
		}
	}
	return names
}

func checkSourceTopic(src *source, mirror, name string) (topicInfo, error) {
	if isInternalName(name) {
		return topicInfo{}, failf(mirrormsg.InvalidTopicException,
			"topic %s is internal: names that begin with %s are never mirrored", name, internalPrefix)
	}
	topic, ok := src.topics[name]
	switch {
	case !ok, errors.Is(topic.err, kerr.UnknownTopicOrPartition):
		return topicInfo{}, failf(mirrormsg.UnknownTopicOrPartition,
			"topic %s does not exist on the source cluster of mirror %s", name, mirror)
	case topic.err != nil:
		return topicInfo{}, fmt.Errorf("topic %s on the source cluster of mirror %s: %w", name, mirror, topic.err)
	case topic.internal:
		return topicInfo{}, failf(mirrormsg.InvalidTopicException, "topic %s is internal on the source cluster: "+
			"it is never mirrored", name)
	case topic.partitions == 0:
		return topicInfo{}, failf(mirrormsg.UnknownTopicOrPartition, "topic %s has no partitions on the source cluster yet", name)
	}
	return topic, nil
}

// checkKnownTopic refuses a topic that is in a mirror, and one that was created for another source topic.
func checkKnownTopic(view *state.View, name string, sourceID state.TopicID) error {
	if remembered, ok := view.SourceIDOf(name); ok && !remembered.IsZero() && remembered != sourceID {
		return failf(mirrormsg.InconsistentTopicID, "topic %s was created here for the source topic with id %s, but the "+
			"source's topic of this name has the id %s: it was recreated, or it is another cluster's", name, remembered, sourceID)
	}
	known, ok := view.Topic(name)
	if !ok {
		return nil
	}
	switch known.Desired {
	case state.DesiredStopped:
	case state.DesiredAdding:
		return failf(mirrormsg.TopicAlreadyInMirror, "topic %s is being added to mirror %s; if that was cut short it is taken back within seconds: see describe, then try again", name, known.Mirror)
	default:
		return failf(mirrormsg.TopicAlreadyInMirror, "topic %s is already in mirror %s", name, known.Mirror)
	}
	return nil
}

// checkSameSource refuses a topic that was mirrored from another source topic of its name, as long as it is still the
// same topic here.
func checkSameSource(view *state.View, mirror string, a *addition) error {
	known, ok := view.TopicByID(a.destination.id)
	if ok && known.Mirror == mirror && !known.SourceID.IsZero() && known.SourceID != a.source.id {
		return failf(mirrormsg.InconsistentTopicID, "topic %s was mirrored from the source topic with id %s, but the "+
			"source's topic of this name now has the id %s: it was recreated; delete the topic here to mirror the new one",
			a.name, known.SourceID, a.source.id)
	}
	return nil
}

// planConfigs reads the source topics' configs and works out the destination's.
func (h *Handler) planConfigs(ctx context.Context, src *source, additions []*addition, exclude exclusion, raiseLimits bool) {
	names := namesOf(additions)
	if len(names) == 0 {
		return
	}
	configs, err := readTopicConfigs(ctx, src.client, names)
	for _, a := range pending(additions) {
		switch c := configs[a.name]; {
		case err != nil:
			a.err = fmt.Errorf("topic %s on the source: %w", a.name, err)
		case c.err != nil:
			a.err = fmt.Errorf("topic %s on the source: describe configs: %w", a.name, c.err)
		default:
			a.wanted, a.handBack = configsWhileMirrored(c, exclude, raiseLimits)
		}
	}
}

// joinMirror makes the topics read-only: from here on no verdict lets a produce to them through.
func (h *Handler) joinMirror(ctx context.Context, mirror *state.Mirror, additions []*addition) {
	engine := mirror.Configs[configEngine]
	if engine == "" || engine == engineAuto {
		engine = engineProduce
	}
	each(pending(additions), func(a *addition) {
		add := state.AddTopic{
			Mirror: mirror.Name, Name: a.name, ID: a.destination.id, SourceID: a.source.id,
			Partitions: a.destination.partitions, Engine: engine, Guard: a.guard, HandBack: a.handBack,
		}
		if err := h.store.Do(ctx, add); err != nil {
			a.err = fmt.Errorf("topic %s: %w", a.name, err)
			// Whether it was stored is not always known; a rollback of what was not is a no-op.
			a.adding = !isRefusal(err)
			return
		}
		a.adding = true
	})
	if len(pending(additions)) == 0 {
		return
	}
	if err := h.awaitProduces(ctx); err != nil {
		for _, a := range pending(additions) {
			a.err = fmt.Errorf("topic %s: wait for the produces under way: %w", a.name, err)
		}
	}
}

// barrierTimeout ends before a client gives up by itself (30 s by default), so that it learns why. It is longer than the
// proxy leaves a client that holds the barrier up: what is waited for at its end is a broker.
const barrierTimeout = 20 * time.Second

func (h *Handler) awaitProduces(ctx context.Context) error {
	waiting, cancel := context.WithTimeout(ctx, barrierTimeout)
	defer cancel()
	err := h.gate.Barrier(waiting)
	if err != nil && errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return failf(mirrormsg.RequestTimedOut, "a produce that was let through before has not been answered by its broker for %v; "+
			"nothing was added, try again", barrierTimeout)
	}
	return err
}

// finish gives topics that were there before their configs, and confirms what came this far.
func (h *Handler) finish(ctx context.Context, additions []*addition, exclude exclusion) {
	each(pending(additions), func(a *addition) {
		if a.existed {
			a.err = h.alterTopic(ctx, a, exclude)
		}
		if a.err != nil {
			return
		}
		if err := h.store.Do(ctx, state.ConfirmTopic{ID: a.destination.id}); err != nil {
			a.err = fmt.Errorf("topic %s: %w", a.name, err)
			return
		}
		a.adding = false
	})
}

// isRefusal tells an error that means that nothing was stored.
func isRefusal(err error) bool {
	var refusal *state.Error
	return errors.As(err, &refusal)
}

func pending(additions []*addition) []*addition {
	var rest []*addition
	for _, a := range additions {
		if a.err == nil {
			rest = append(rest, a)
		}
	}
	return rest
}

func namesOf(additions []*addition) []string {
	var names []string
	for _, a := range pending(additions) {
		names = append(names, a.name)
	}
	return names
}

// each runs f for all items, some at a time, and returns when all are done.
func each[T any](items []T, f func(T)) {
	var group errgroup.Group
	group.SetLimit(parallelTopics)
	for _, item := range items {
		group.Go(func() error {
			f(item)
			return nil
		})
	}
	_ = group.Wait() // f reports in the item
}

// fillTopics writes the outcome of each topic, and raises it to the top when nothing succeeded.
func fillTopics[T any](resp *mirrormsg.TopicsResponse, extended bool, outcomes []T, of func(T) (name string, err error)) {
	var failed []error
	for _, outcome := range outcomes {
		name, err := of(outcome)
		result := mirrormsg.TopicResult{Name: name}
		if err != nil {
			failed = append(failed, err)
			code, message := codeOf(err)
			result.ErrorCode = code
			if extended {
				result.ErrorMessage = &message
			}
		}
		resp.Topics = append(resp.Topics, result)
	}
	setTopFailure(&resp.Status, failed, len(outcomes))
}
