package state

import (
	"strings"
	"testing"
	"time"
)

// situation is what the model holds about the topic "t" (id 1) before a command of wire.md section 3.
type situation string

const (
	absent        situation = "absent"
	adding        situation = "adding"
	mirrored      situation = "m"
	paused        situation = "m.paused"
	removed       situation = "m.removed"
	stopped       situation = "m.removed and STOPPED"
	otherMirrored situation = "other"
	otherPaused   situation = "other.paused"
	otherRemoved  situation = "other.removed"
	otherStopped  situation = "other.removed and STOPPED"
)

var theID = TopicID{1}

func prepare(t *testing.T, s situation) *Memory {
	t.Helper()
	m := NewMemory()
	do(t, m, CreateMirror{Name: "m"}, CreateMirror{Name: "other"})
	if s == absent {
		return m
	}
	mirror := "m"
	if strings.HasPrefix(string(s), "other") {
		mirror = "other"
	}
	do(t, m, AddTopic{Mirror: mirror, Name: "t", ID: theID, Partitions: 2})
	if s == adding {
		return m
	}
	do(t, m, ConfirmTopic{theID})
	switch s {
	case paused, otherPaused:
		do(t, m, PauseTopic{mirror, "t"})
	case removed, otherRemoved:
		do(t, m, RemoveTopic{mirror, "t"})
	case stopped, otherStopped:
		do(t, m, RemoveTopic{mirror, "t"})
		stopAll(t, m, 7)
	}
	return m
}

func stopAll(t *testing.T, s Store, lastOffset int64) {
	t.Helper()
	for i := range int32(2) {
		p := PartitionID{theID, i}
		do(t, s, MovePartition{Partition: p, To: Stopping, LastMirroredOffset: -1},
			MovePartition{Partition: p, To: Stopped, LastMirroredOffset: lastOffset})
	}
}

func TestTopicCommands(t *testing.T) {
	add := AddTopic{Mirror: "m", Name: "t", ID: theID, Partitions: 2}
	type row struct {
		command Command
		before  situation
		code    Code
		after   string // mirror.name afterwards, "" = not in a mirror
	}
	for _, r := range []row{
		{add, absent, 0, "m"},
		{add, adding, CodeTopicInMirror, "m"},
		{add, mirrored, CodeTopicInMirror, "m"},
		{add, paused, CodeTopicInMirror, "m.paused"},
		{add, removed, CodeBeingRemoved, "m.removed"},
		{add, stopped, 0, "m"},
		{add, otherMirrored, CodeTopicInMirror, "other"},
		{add, otherPaused, CodeTopicInMirror, "other.paused"},
		{add, otherRemoved, CodeBeingRemoved, "other.removed"},
		{add, otherStopped, 0, "m"},
		{AddTopic{Mirror: "none", Name: "t", ID: theID, Partitions: 2}, absent, CodeUnknownMirror, ""},
		{AddTopic{Mirror: "m", Name: "t", ID: theID}, absent, CodeInvalid, ""},
		{AddTopic{Mirror: "m", Name: "t", Partitions: 2}, absent, CodeInvalid, ""},
		{AddTopic{Mirror: "m", ID: theID, Partitions: 2}, absent, CodeInvalid, ""},

		{RemoveTopic{"m", "t"}, absent, CodeUnknownMirror, ""},
		{RemoveTopic{"none", "t"}, mirrored, CodeUnknownMirror, "m"},
		{RemoveTopic{"m", "t"}, adding, 0, ""},
		{RemoveTopic{"m", "t"}, mirrored, 0, "m.removed"},
		{RemoveTopic{"m", "t"}, paused, 0, "m.removed"},
		{RemoveTopic{"m", "t"}, removed, CodeTopicNotInMirror, "m.removed"},
		{RemoveTopic{"m", "t"}, stopped, CodeTopicNotInMirror, "m.removed"},
		{RemoveTopic{"m", "t"}, otherMirrored, CodeTopicNotInMirror, "other"},
		{RemoveTopic{"m", "t"}, otherRemoved, CodeTopicNotInMirror, "other.removed"},

		{PauseTopic{"m", "t"}, absent, CodeUnknownMirror, ""},
		{PauseTopic{"none", "t"}, mirrored, CodeUnknownMirror, "m"},
		{PauseTopic{"m", "t"}, adding, 0, "m.paused"},
		{PauseTopic{"m", "t"}, mirrored, 0, "m.paused"},
		{PauseTopic{"m", "t"}, paused, 0, "m.paused"},
		{PauseTopic{"m", "t"}, removed, CodeBeingRemoved, "m.removed"},
		{PauseTopic{"m", "t"}, otherMirrored, CodeTopicNotInMirror, "other"},
		{PauseTopic{"m", "t"}, otherPaused, CodeTopicNotInMirror, "other.paused"},
		{PauseTopic{"m", "t"}, otherRemoved, CodeBeingRemoved, "other.removed"},

		{ResumeTopic{"m", "t"}, absent, CodeUnknownMirror, ""},
		{ResumeTopic{"none", "t"}, paused, CodeUnknownMirror, "m.paused"},
		{ResumeTopic{"m", "t"}, adding, CodeNotPaused, "m"},
		{ResumeTopic{"m", "t"}, mirrored, CodeNotPaused, "m"},
		{ResumeTopic{"m", "t"}, paused, 0, "m"},
		{ResumeTopic{"m", "t"}, removed, CodeNotPaused, "m.removed"},
		{ResumeTopic{"m", "t"}, otherMirrored, CodeNotPaused, "other"},
		{ResumeTopic{"m", "t"}, otherPaused, CodeTopicNotInMirror, "other.paused"},

		{ConfirmTopic{theID}, absent, CodeTopicNotInMirror, ""},
		{ConfirmTopic{theID}, adding, 0, "m"},
		{ConfirmTopic{theID}, mirrored, 0, "m"},
		{ConfirmTopic{theID}, removed, CodeBeingRemoved, "m.removed"},
		{RollbackTopic{theID}, absent, 0, ""},
		{RollbackTopic{theID}, adding, 0, ""},
		{RollbackTopic{theID}, mirrored, 0, "m"},

		{GrowTopic{theID, 3}, mirrored, 0, "m"},
		{GrowTopic{theID, 2}, mirrored, 0, "m"},
		{GrowTopic{theID, 1}, mirrored, CodeInvalid, "m"},
		{GrowTopic{theID, 3}, absent, CodeTopicNotInMirror, ""},
		{SetTopicError{theID, "x"}, mirrored, 0, "m"},
		{SetTopicError{theID, "x"}, absent, CodeTopicNotInMirror, ""},
		{ForgetTopic{theID}, mirrored, 0, ""},
		{ForgetTopic{theID}, absent, 0, ""},
		{SetProgress{PartitionID{theID, 1}, noProgress()}, mirrored, 0, "m"},
		{SetProgress{PartitionID{theID, 2}, noProgress()}, mirrored, CodeInvalid, "m"},
		{SetProgress{PartitionID{theID, -1}, noProgress()}, mirrored, CodeInvalid, "m"},
		{SetProgress{PartitionID{theID, 0}, noProgress()}, absent, CodeTopicNotInMirror, ""},
		{MovePartition{Partition: PartitionID{theID, 0}, To: Preparing, LastMirroredOffset: -1}, mirrored, 0, "m"},
		{MovePartition{Partition: PartitionID{theID, 0}, To: Mirroring, LastMirroredOffset: -1}, mirrored, CodeBadTransition, "m"},
		{MovePartition{Partition: PartitionID{theID, 0}, To: Unknown, LastMirroredOffset: -1}, mirrored, CodeBadTransition, "m"},
		{MovePartition{Partition: PartitionID{theID, 2}, To: Preparing, LastMirroredOffset: -1}, mirrored, CodeInvalid, "m"},
		{MovePartition{Partition: PartitionID{theID, 0}, To: Preparing, LastMirroredOffset: -2}, mirrored, CodeInvalid, "m"},
		{MovePartition{Partition: PartitionID{theID, 0}, To: Preparing, LastMirroredOffset: -1}, absent, CodeTopicNotInMirror, ""},
	} {
		s := prepare(t, r.before)
		err := s.Do(t.Context(), r.command)
		if code(err) != r.code {
			t.Errorf("%T of a topic that is %s: %v, want code %d", r.command, r.before, err, r.code)
		}
		got := ""
		if topic, ok := s.View().TopicByID(theID); ok {
			got = topic.MirrorNameConfig()
		}
		if got != r.after {
			t.Errorf("%T of a topic that is %s leaves mirror.name=%q, want %q", r.command, r.before, got, r.after)
		}
	}
}

func TestMirrorCommands(t *testing.T) {
	configs := map[string]string{"bootstrap.servers": "x:1"}
	s := NewMemory()
	do(t, s, CreateMirror{"m", configs})
	do(t, s, CreateMirror{"m", map[string]string{"bootstrap.servers": "x:1"}})
	err := s.Do(t.Context(), CreateMirror{"m", map[string]string{"bootstrap.servers": "y:1"}})
	if code(err) != CodeMirrorExists || !strings.Contains(err.Error(), "alter") {
		t.Errorf("create with other configs: %v", err)
	}
	revision := func() int64 { m, _ := s.View().Mirror("m"); return m.Revision }
	first := revision()
	do(t, s, AlterMirror{Name: "m", Set: map[string]string{"a": "1", "b": "2"}})
	second := revision()
	do(t, s, AlterMirror{Name: "m", Set: map[string]string{"a": "3"}, Delete: []string{"b", "never"}})
	m, _ := s.View().Mirror("m")
	third := m.Revision
	if len(m.Configs) != 2 || m.Configs["a"] != "3" || first <= 0 || second <= first || third <= second {
		t.Errorf("after two alters: %+v", m)
	}
	if len(configs) != 1 {
		t.Errorf("the caller's map was changed: %v", configs)
	}
	do(t, s, SetSourceCluster{"m", "c"})
	if m, _ := s.View().Mirror("m"); m.SourceClusterID != "c" || m.Revision != third {
		t.Errorf("after SetSourceCluster: %+v", m)
	}
	for before := time.Now().UnixMilli(); time.Now().UnixMilli() == before; { // into the next millisecond
	}
	do(t, s, DeleteMirror{"m"}, CreateMirror{"m", configs})
	if revision() <= third {
		t.Errorf("made again with revision %d, it had %d", revision(), third)
	}
	for _, command := range []Command{AlterMirror{Name: "n"}, SetSourceCluster{"n", "c"}, DeleteMirror{"n"}} {
		if err := s.Do(t.Context(), command); code(err) != CodeUnknownMirror {
			t.Errorf("%T of an unknown mirror: %v", command, err)
		}
	}
	if err := s.Do(t.Context(), CreateMirror{}); code(err) != CodeInvalid {
		t.Errorf("a mirror without a name: %v", err)
	}
	if err := s.Do(t.Context(), CreateMirror{"big", map[string]string{"a": strings.Repeat("x", maxRecordBytes)}}); code(err) != CodeInvalid {
		t.Errorf("a mirror too large for a record: %v", err)
	}
}

func TestDeleteMirrorWaitsForItsTopics(t *testing.T) {
	for before, want := range map[situation]Code{
		absent: 0, adding: CodeMirrorNotEmpty, mirrored: CodeMirrorNotEmpty, paused: CodeMirrorNotEmpty,
		removed: CodeMirrorNotEmpty, stopped: 0, otherMirrored: 0,
	} {
		if err := prepare(t, before).Do(t.Context(), DeleteMirror{"m"}); code(err) != want {
			t.Errorf("delete with a topic that is %s: %v", before, err)
		}
	}
}

// TestRollback: an Add that did not work out leaves the topic as it was, in the mirror that it was in.
func TestRollback(t *testing.T) {
	for _, before := range []situation{stopped, otherStopped} {
		s := prepare(t, before)
		was := contents(s.View())
		do(t, s, AddTopic{Mirror: "m", Name: "t", ID: theID, Partitions: 2, SourceID: TopicID{5}, Engine: "x"})
		topic, _ := s.View().TopicByID(theID)
		if topic.WasStopped != (before == stopped) {
			t.Errorf("%s: WasStopped is %v", before, topic.WasStopped)
		}
		if _, ok := s.View().ReadOnlyName([]byte("t")); !ok {
			t.Errorf("%s: not read-only while being added", before)
		}
		wantOffset := int64(7) // the same mirror may resume there; to another one it means nothing
		if before == otherStopped {
			wantOffset = -1
		}
		if p := s.View().Partition(PartitionID{theID, 0}); p.LastMirroredOffset != wantOffset {
			t.Errorf("%s: last mirrored offset %d while being added", before, p.LastMirroredOffset)
		}
		if adding := s.View().Adding(); len(adding) != 1 {
			t.Errorf("%s: Adding lists %d topics", before, len(adding))
		}
		do(t, s, RollbackTopic{theID})
		if diff := diffContents(was, contents(s.View())); diff != "" {
			t.Errorf("%s: %s", before, diff)
		}
		if len(s.View().Adding()) != 0 {
			t.Errorf("%s: still being added", before)
		}
	}
}

func TestConfirmAfterMoveForgetsTheOldMirror(t *testing.T) {
	s := prepare(t, otherStopped)
	do(t, s, AddTopic{Mirror: "m", Name: "t", ID: theID, Partitions: 2}, ConfirmTopic{theID})
	if n := len(s.View().parts); n != 0 {
		t.Errorf("%d partition lists are left", n)
	}
	do(t, s, DeleteMirror{"other"})
	if topic, ok := s.View().Topic("t"); !ok || topic.Desired != DesiredMirroring {
		t.Errorf("the topic is %+v, %v", topic, ok)
	}
}

func TestRollbackIntoADeletedMirror(t *testing.T) {
	s := prepare(t, otherStopped)
	do(t, s, AddTopic{Mirror: "m", Name: "t", ID: theID, Partitions: 2}, DeleteMirror{"other"}, RollbackTopic{theID})
	if _, ok := s.View().Topic("t"); ok || len(s.View().parts) != 0 {
		t.Error("something is left")
	}
}

// TestRecreatedTopicReplacesTheOld: the name of a stopped topic came back with another id.
func TestRecreatedTopicReplacesTheOld(t *testing.T) {
	s := prepare(t, stopped)
	do(t, s, AddTopic{Mirror: "m", Name: "t", ID: TopicID{2}, Partitions: 1})
	if _, ok := s.View().TopicByID(theID); ok {
		t.Error("the old topic is still there")
	}
	topic, _ := s.View().Topic("t")
	if topic.ID != (TopicID{2}) || topic.WasStopped {
		t.Errorf("the topic is %+v", topic)
	}
	if err := prepare(t, mirrored).Do(t.Context(), AddTopic{Mirror: "m", Name: "t", ID: TopicID{2}, Partitions: 1}); code(err) != CodeTopicInMirror {
		t.Errorf("adding a name that is mirrored under another id: %v", err)
	}
}

func TestPauseWhileAdding(t *testing.T) {
	s := prepare(t, adding)
	do(t, s, PauseTopic{"m", "t"}, ResumeTopic{"m", "t"}, PauseTopic{"m", "t"}, ConfirmTopic{theID})
	if topic, _ := s.View().Topic("t"); topic.Desired != DesiredPaused {
		t.Errorf("the topic is %s", topic.Desired)
	}
}

func TestMovePartitionKeepsHistory(t *testing.T) {
	d := newDraft()
	decide := func(nowMs int64, commands ...Command) {
		t.Helper()
		if _, err := d.decideAll(commands, nowMs); err != nil {
			t.Fatal(err)
		}
	}
	p := PartitionID{theID, 0}
	decide(1, CreateMirror{Name: "m"}, AddTopic{Mirror: "m", Name: "t", ID: theID, Partitions: 1}, ConfirmTopic{theID})
	decide(10, MovePartition{Partition: p, To: Preparing, LastMirroredOffset: 5})
	decide(20, MovePartition{Partition: p, To: Failed, LastMirroredOffset: -1, Error: "e", Retriable: true, Attempt: 1})
	decide(30, MovePartition{Partition: p, To: Failed, LastMirroredOffset: -1, Error: "f", Retriable: true, Attempt: 2})
	want := Partition{Status: Failed, Previous: Preparing, LastMirroredOffset: 5, SinceMs: 20, Attempt: 2, Error: "f", Retriable: true}
	if got := d.view().Partition(p); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if records, _ := d.decideAll([]Command{MovePartition{Partition: p, To: Failed, LastMirroredOffset: -1, Error: "f", Retriable: true, Attempt: 2}}, 40); len(records) != 0 {
		t.Errorf("a move that changes nothing makes %d records", len(records))
	}
}

func TestTakeOver(t *testing.T) {
	for _, c := range []struct{ before, want Progress }{
		{noProgress(), Progress{-1, -1, 5, -1, -1, nil, 0, Skipped{}}},
		{Progress{1, 100, 5, 50, 9, nil, 0, Skipped{}}, Progress{1, 100, 5, 50, 9, nil, 0, Skipped{}}},   // our own
		{Progress{1, 100, 4, 50, 9, nil, 0, Skipped{}}, Progress{1, -1, 5, 100, 9, nil, 0, Skipped{}}},   // left behind
		{Progress{1, 100, 4, 500, 9, nil, 0, Skipped{}}, Progress{1, -1, 5, 500, 9, nil, 0, Skipped{}}},  // by one before already
		{Progress{-1, -1, 4, 500, 9, nil, 0, Skipped{}}, Progress{-1, -1, 5, 500, 9, nil, 0, Skipped{}}}, // stopped cleanly
	} {
		got := c.before.TakeOver(5)
		if got.FillToOffset != c.want.FillToOffset || got.ReservedOffset != c.want.ReservedOffset ||
			got.ReservedBy != c.want.ReservedBy || got.UncleanOffset != c.want.UncleanOffset {
			t.Errorf("TakeOver of %+v is %+v, want %+v", c.before, got, c.want)
		}
	}
}

func TestPendingSourceIDsAreLimited(t *testing.T) {
	d := newDraft()
	for i := range maxPendingSourceIDs {
		sourceIDRecord{name: TopicID{byte(i), byte(i >> 8)}.String(), value: &TopicID{1}}.apply(d)
	}
	if _, err := d.decideAll([]Command{RememberSourceID{"one more", TopicID{1}}}, 0); code(err) != CodeInvalid {
		t.Errorf("one more than the limit: %v", err)
	}
	if _, err := d.decideAll([]Command{RememberSourceID{TopicID{}.String(), TopicID{2}}}, 0); err != nil {
		t.Errorf("another id for a known name: %v", err)
	}
	if _, err := d.decideAll([]Command{RememberSourceID{TopicID{}.String(), TopicID{}}}, 0); err != nil {
		t.Errorf("forgetting one: %v", err)
	}
}

// A topic of which one partition is STOPPED and another still STOPPING is not added again, so that none is handed over alone.
func TestAddWaitsForEveryPartitionToStop(t *testing.T) {
	m := prepare(t, removed)
	add := AddTopic{Mirror: "m", Name: "t", ID: theID, Partitions: 2}
	for i := range int32(2) {
		p := PartitionID{theID, i}
		do(t, m, MovePartition{Partition: p, To: Stopping, LastMirroredOffset: -1})
		if err := m.Do(t.Context(), add); code(err) != CodeBeingRemoved {
			t.Fatalf("with %d partitions STOPPED: %v", i, err)
		}
		do(t, m, MovePartition{Partition: p, To: Stopped, LastMirroredOffset: 7})
	}
	do(t, m, add)
}
