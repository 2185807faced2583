package mirrorapi

import (
	"context"
	"fmt"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

// change is one of the requests that move topics of a mirror: what it asks of the store, and which topics a pattern means.
type change struct {
	command func(mirror, topic string) state.Command
	// applies tells the topics that a pattern chooses first: those for which the change makes sense. ".*" in a failover
	// that is done a second time should not name the topics that are removed already.
	applies func(state.Desired) bool
}

var changes = map[mirrormsg.API]change{
	mirrormsg.RemoveTopicsFromMirror: {
		command: func(mirror, topic string) state.Command { return state.RemoveTopic{Mirror: mirror, Name: topic} },
		applies: func(d state.Desired) bool { return d != state.DesiredStopped },
	},
	mirrormsg.PauseMirrorTopics: {
		command: func(mirror, topic string) state.Command { return state.PauseTopic{Mirror: mirror, Name: topic} },
		applies: func(d state.Desired) bool { return d != state.DesiredStopped },
	},
	mirrormsg.ResumeMirrorTopics: {
		command: func(mirror, topic string) state.Command { return state.ResumeTopic{Mirror: mirror, Name: topic} },
		applies: func(d state.Desired) bool { return d == state.DesiredPaused },
	},
}

// changed is the outcome for one topic.
type changed struct {
	name string
	err  error
}

// changeTopics answers RemoveTopicsFromMirror, PauseMirrorTopics and ResumeMirrorTopics. It records what is asked for; the
// replicator brings it about, also without the source.
func (h *Handler) changeTopics(ctx context.Context, req *mirrormsg.TopicsRequest) mirrormsg.Response {
	resp := req.NewResponse().(*mirrormsg.TopicsResponse)
	resp.MirrorName = req.MirrorName
	outcomes, err := h.change(ctx, req)
	if err != nil {
		setFailure(&resp.Status, err)
		return resp
	}
	fillTopics(resp, req.WantsExtensions(), outcomes, func(c *changed) (string, error) { return c.name, c.err })
	return resp
}

func (h *Handler) change(ctx context.Context, req *mirrormsg.TopicsRequest) ([]*changed, error) {
	view := h.store.View()
	if err := unknownIfMissing(view, req.MirrorName); err != nil {
		return nil, err
	}
	selection, err := readSelection(req)
	if err != nil {
		return nil, err
	}
	op := changes[req.Op]
	names, err := chooseOwn(view, req.MirrorName, selection, op.applies)
	if err != nil {
		return nil, err
	}
	outcomes := make([]*changed, 0, len(names))
	for _, name := range names {
		outcomes = append(outcomes, &changed{name: name})
	}
	each(outcomes, func(c *changed) {
		if err := h.store.Do(ctx, op.command(req.MirrorName, c.name)); err != nil {
			c.err = fmt.Errorf("topic %s: %w", c.name, err)
		}
	})
	return outcomes, nil
}

// chooseOwn resolves a selection on the mirror's own topics: those to which the change applies, or any when a pattern
// matches none of them, so that the answer says why nothing can be done.
func chooseOwn(view *state.View, mirror string, selection topicSelection, applies func(state.Desired) bool) ([]string, error) {
	var all, fitting []string
	for _, topic := range view.TopicsOf(mirror) {
		all = append(all, topic.Name)
		if applies(topic.Desired) {
			fitting = append(fitting, topic.Name)
		}
	}
	if names, err := selection.resolve(fitting); err == nil {
		return names, nil
	}
	return selection.resolve(all)
}
