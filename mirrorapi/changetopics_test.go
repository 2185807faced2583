package mirrorapi

import (
	"context"
	"slices"
	"testing"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

const (
	removeOp = mirrormsg.RemoveTopicsFromMirror
	pauseOp  = mirrormsg.PauseMirrorTopics
	resumeOp = mirrormsg.ResumeMirrorTopics
)

// fill makes mirrors m and other, with the topics active, paused and removed in m, and theirs and theirs-paused in other.
func fill(e *env) {
	e.t.Helper()
	next := byte(0)
	add := func(mirror, name string) {
		next++
		id := state.TopicID{next}
		e.do(state.AddTopic{Mirror: mirror, Name: name, ID: id, Partitions: 1, Engine: "produce"}, state.ConfirmTopic{ID: id})
	}
	e.mirror("m")
	e.mirror("other")
	add("m", "active")
	add("m", "paused")
	add("m", "removed")
	add("other", "theirs")
	add("other", "theirs-paused")
	e.do(state.PauseTopic{Mirror: "m", Name: "paused"}, state.PauseTopic{Mirror: "other", Name: "theirs-paused"},
		state.RemoveTopic{Mirror: "m", Name: "removed"})
}

// The table of wire.md section 3, as corrected by design.md section 4.
func TestTopicCodes(t *testing.T) {
	for _, c := range []struct {
		op      mirrormsg.API
		topic   string
		code    mirrormsg.ErrorCode
		desired state.Desired
	}{
		{removeOp, "active", 0, state.DesiredStopped},
		{removeOp, "paused", 0, state.DesiredStopped},
		{removeOp, "removed", mirrormsg.TopicNotInMirror, state.DesiredStopped},
		{removeOp, "theirs", mirrormsg.TopicNotInMirror, state.DesiredMirroring},
		{removeOp, "unknown", mirrormsg.UnknownMirror, 0},
		{pauseOp, "active", 0, state.DesiredPaused},
		{pauseOp, "paused", 0, state.DesiredPaused},
		{pauseOp, "removed", mirrormsg.MirrorTopicBeingRemoved, state.DesiredStopped},
		{pauseOp, "theirs", mirrormsg.TopicNotInMirror, state.DesiredMirroring},
		{pauseOp, "theirs-paused", mirrormsg.TopicNotInMirror, state.DesiredPaused},
		{pauseOp, "unknown", mirrormsg.UnknownMirror, 0},
		{resumeOp, "active", mirrormsg.MirrorTopicNotPaused, state.DesiredMirroring},
		{resumeOp, "paused", 0, state.DesiredMirroring},
		{resumeOp, "removed", mirrormsg.MirrorTopicNotPaused, state.DesiredStopped},
		{resumeOp, "theirs", mirrormsg.MirrorTopicNotPaused, state.DesiredMirroring},
		{resumeOp, "theirs-paused", mirrormsg.TopicNotInMirror, state.DesiredPaused},
		{resumeOp, "unknown", mirrormsg.UnknownMirror, 0},
	} {
		t.Run(c.op.String()+" "+c.topic, func(t *testing.T) {
			e := newEnv(t)
			fill(e)
			resp := e.topics(c.op, "m", nil, c.topic)
			if resp.ErrorCode != c.code || (text(resp.ErrorMessage) == "") != (c.code == 0) {
				t.Errorf("top level is %s %q, want %s", resp.ErrorCode, text(resp.ErrorMessage), c.code)
			}
			if len(resp.Topics) != 1 || resp.Topics[0].Name != c.topic || resp.Topics[0].ErrorCode != c.code || resp.MirrorName != "m" {
				t.Errorf("answer is %+v", resp)
			}
			if topic, ok := e.store.View().Topic(c.topic); ok && topic.Desired != c.desired {
				t.Errorf("the topic is %s, want %s", topic.Desired, c.desired)
			}
		})
	}
}

func TestTopicsTopLevel(t *testing.T) {
	e := newEnv(t)
	fill(e)
	for _, op := range []mirrormsg.API{removeOp, pauseOp, resumeOp} {
		wantStatus(t, &e.topics(op, "nope", nil, "active").Status, mirrormsg.UnknownMirror, `mirror "nope" does not exist`)
		wantRefusal(t, &e.topics(op, "m", nil, `x(?=y)`).Status, mirrormsg.InvalidRequest, "lookahead")
		wantRefusal(t, &e.topics(op, "m", nil).Status, mirrormsg.InvalidRequest, "names no topic")
	}
	resp := e.topics(pauseOp, "m", nil, "active", "unknown")
	wantStatus(t, &resp.Status, 0, "")
	wantTopic(t, resp, "active", 0)
	wantTopic(t, resp, "unknown", mirrormsg.UnknownMirror)
}

func TestPatternsMeanOwnTopics(t *testing.T) {
	for _, c := range []struct {
		op   mirrormsg.API
		want []string
	}{
		{removeOp, []string{"active", "paused"}},
		{pauseOp, []string{"active", "paused"}},
		{resumeOp, []string{"paused"}},
	} {
		e := newEnv(t)
		fill(e)
		resp := e.topics(c.op, "m", func(r *mirrormsg.TopicsRequest) { r.Patterns = []string{".*"} })
		wantStatus(t, &resp.Status, 0, "")
		var names []string
		for _, r := range resp.Topics {
			names = append(names, r.Name)
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%s .*: %v, want %v", c.op, names, c.want)
		}
	}
	e := newEnv(t)
	fill(e)
	wantStatus(t, &e.topics(removeOp, "m", nil, "their.*").Status, mirrormsg.UnknownTopicOrPartition,
		"No topics matching pattern 'their.*' found")
	// A pattern that matches only topics to which the change does not apply tells why.
	resp := e.topics(pauseOp, "m", nil, "remove[d]")
	wantRefusal(t, &resp.Status, mirrormsg.MirrorTopicBeingRemoved, "removed")
}

// notOwner is a store of a process that does not own the mirrors.
type notOwner struct{ *state.Memory }

func (notOwner) Do(context.Context, ...state.Command) error {
	return &state.Error{Code: state.CodeNotOwner, Message: "the mirrors belong to the proxy at other:9094"}
}

func TestNotOwner(t *testing.T) {
	e := newEnv(t)
	fill(e)
	e.h.store = notOwner{e.store}
	wantRefusal(t, &e.topics(pauseOp, "m", nil, "active").Status, mirrormsg.CoordinatorNotAvailable, "other:9094")
	wantRefusal(t, &e.create("m2", "bootstrap.servers", "a:1").Status, mirrormsg.CoordinatorNotAvailable, "other:9094")
	wantRefusal(t, e.alter("m", false, op{"client.id", set, "x"}), mirrormsg.CoordinatorNotAvailable, "other:9094")
	// Reading needs no ownership.
	list := call[*mirrormsg.ListMirrorsResponse](e, bootstrapNode, &mirrormsg.ListMirrorsRequest{})
	wantStatus(t, &list.Status, 0, "")
}

// notLoaded is a store that has not read its state yet.
type notLoaded struct{ *state.Memory }

func (notLoaded) View() *state.View { return new(state.View) }

func TestNotLoaded(t *testing.T) {
	e := newEnv(t)
	fill(e)
	e.h.store = notLoaded{e.store}
	const reason = "the state of the mirrors is still being read"
	wantStatus(t, &call[*mirrormsg.ListMirrorsResponse](e, 0, &mirrormsg.ListMirrorsRequest{}).Status, mirrormsg.CoordinatorLoadInProgress, reason)
	wantStatus(t, &e.topics(pauseOp, "m", nil, "active").Status, mirrormsg.CoordinatorLoadInProgress, reason)
	wantStatus(t, e.alter("m", false, op{"client.id", set, "x"}), mirrormsg.CoordinatorLoadInProgress, reason)
	if r := e.describe("m"); r.ErrorCode != int16(mirrormsg.CoordinatorLoadInProgress) {
		t.Errorf("DescribeConfigs: %d", r.ErrorCode)
	}
}
