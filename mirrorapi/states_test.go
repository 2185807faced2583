package mirrorapi

import (
	"strings"
	"testing"

	"kafka-mirror-proxy/protocol/mirrormsg"
	"kafka-mirror-proxy/state"
)

func partitionsOf(name string, partitions ...int32) []mirrormsg.TopicPartitions {
	return []mirrormsg.TopicPartitions{{Name: name, Partitions: partitions}}
}

func (e *env) readState(mirror, topic string, partition int32) mirrormsg.ReadMirrorState {
	e.t.Helper()
	resp := call[*mirrormsg.ReadMirrorStatesResponse](e, 0,
		&mirrormsg.ReadMirrorStatesRequest{MirrorName: mirror, Topics: partitionsOf(topic, partition)})
	wantStatus(e.t, &resp.Status, 0, "")
	return resp.Topics[0].Partitions[0]
}

func (e *env) writeState(mirror, topic string, write mirrormsg.WriteMirrorState) *mirrormsg.WriteMirrorStatesResponse {
	e.t.Helper()
	return call[*mirrormsg.WriteMirrorStatesResponse](e, 0, &mirrormsg.WriteMirrorStatesRequest{
		MirrorName: mirror, Topics: []mirrormsg.WriteMirrorStatesTopic{{Name: topic, Partitions: []mirrormsg.WriteMirrorState{write}}},
	})
}

func TestStates(t *testing.T) {
	e := newEnv(t)
	fill(e)
	unknown := mirrormsg.ReadMirrorState{PartitionIndex: 0, LastMirroredOffset: -1, State: 16}
	if got := e.readState("m", "active", 0); got != unknown {
		t.Errorf("a partition without a state: %+v", got)
	}
	if got := e.readState("m", "theirs", 0); got != unknown {
		t.Errorf("a topic of another mirror: %+v", got)
	}
	if got := e.readState("m", "active", 7); got.State != 16 || got.LastMirroredOffset != -1 || got.ErrorCode != 0 {
		t.Errorf("a partition that is not there: %+v", got)
	}

	for _, step := range []struct {
		write mirrormsg.WriteMirrorState
		code  mirrormsg.ErrorCode
		want  mirrormsg.ReadMirrorState
	}{
		{mirrormsg.WriteMirrorState{State: 16, LastMirroredOffset: -1}, 0, unknown},
		{mirrormsg.WriteMirrorState{State: 16, LastMirroredOffset: 5}, mirrormsg.InvalidRequest, unknown},
		{mirrormsg.WriteMirrorState{State: 1, LastMirroredOffset: -1}, mirrormsg.InvalidRequest, unknown},
		{mirrormsg.WriteMirrorState{State: 9, LastMirroredOffset: -1}, mirrormsg.InvalidRequest, unknown},
		{mirrormsg.WriteMirrorState{State: 0, LastMirroredOffset: -2}, mirrormsg.InvalidRequest, unknown},
		{mirrormsg.WriteMirrorState{State: 0, LastMirroredOffset: -1}, 0, mirrormsg.ReadMirrorState{State: 0, LastMirroredOffset: -1}},
		{mirrormsg.WriteMirrorState{State: 4, LastMirroredOffset: -1}, 0, mirrormsg.ReadMirrorState{State: 4, LastMirroredOffset: -1}},
		// The table allows it, but it would make the topic writable behind the back of whoever replicates it.
		{mirrormsg.WriteMirrorState{State: 5, LastMirroredOffset: 40}, mirrormsg.InvalidRequest, mirrormsg.ReadMirrorState{State: 4, LastMirroredOffset: -1}},
		{mirrormsg.WriteMirrorState{State: 16, LastMirroredOffset: 42}, 0, mirrormsg.ReadMirrorState{State: 4, LastMirroredOffset: 42}},
		{mirrormsg.WriteMirrorState{State: 1, LastMirroredOffset: -1}, mirrormsg.InvalidRequest, mirrormsg.ReadMirrorState{State: 4, LastMirroredOffset: 42}},
		{mirrormsg.WriteMirrorState{State: 6, LastMirroredOffset: -1}, 0, mirrormsg.ReadMirrorState{State: 6, LastMirroredOffset: 42}},
	} {
		resp := e.writeState("m", "active", step.write)
		if got := resp.Topics[0].Partitions[0].ErrorCode; got != step.code || resp.ErrorCode != step.code {
			t.Errorf("write %+v: partition %s, top level %s %q", step.write, got, resp.ErrorCode, text(resp.ErrorMessage))
		}
		if step.code != 0 && !strings.Contains(text(resp.ErrorMessage), "active-0") {
			t.Errorf("write %+v: message %q", step.write, text(resp.ErrorMessage))
		}
		if got := e.readState("m", "active", 0); got != step.want {
			t.Errorf("after %+v: %+v, want %+v", step.write, got, step.want)
		}
	}
	if p := e.store.View().Partition(state.PartitionID{Topic: e.topic("active").ID}); p.Error == "" {
		t.Error("FAILED without a reason")
	}
	wantRefusal(t, &e.writeState("m", "theirs", mirrormsg.WriteMirrorState{State: 0, LastMirroredOffset: -1}).Status,
		mirrormsg.UnknownTopicOrPartition, "theirs-0")
}

func TestStatesOfAnUnknownMirror(t *testing.T) {
	e := newEnv(t)
	read := call[*mirrormsg.ReadMirrorStatesResponse](e, 0, &mirrormsg.ReadMirrorStatesRequest{MirrorName: "x", Topics: partitionsOf("t", 0)})
	wantRefusal(t, &read.Status, mirrormsg.UnknownMirror)
	wantRefusal(t, &e.writeState("x", "t", mirrormsg.WriteMirrorState{}).Status, mirrormsg.UnknownMirror)
}

func TestLastMirroredOffsets(t *testing.T) {
	e := newEnv(t)
	fill(e)
	e.move(e.topic("removed"), 4711, stopping...)
	for _, c := range []struct {
		mirror, topic string
		partition     int32
		want          int64
	}{
		{"m", "removed", 0, 4711},
		{"m", "removed", 1, 0},
		{"m", "active", 0, 0},
		{"other", "removed", 0, 0},
		{"nope", "removed", 0, 0}, // the asker's mirror has another name
	} {
		resp := call[*mirrormsg.LastMirroredOffsetsResponse](e, 0,
			&mirrormsg.LastMirroredOffsetsRequest{MirrorName: c.mirror, Topics: partitionsOf(c.topic, c.partition)})
		wantStatus(t, &resp.Status, 0, "")
		want := mirrormsg.LastMirroredOffset{PartitionIndex: c.partition, LastMirroredOffset: c.want}
		if got := resp.Topics[0].Partitions[0]; got != want || resp.Topics[0].Name != c.topic {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}
