package state

import "testing"

func wantFiller(t *testing.T, v *View, name string, id TopicID, want bool) {
	t.Helper()
	if byName, byID := v.MayHoldFiller([]byte(name)), v.MayHoldFillerID(id); byName != want || byID != want {
		t.Errorf("topic %s may hold filler: %v by name, %v by id, want %v", name, byName, byID, want)
	}
}

// TestFillerOutlivesTheMirror: the log of a topic that was mirrored holds filler for as long as the topic is there.
func TestFillerOutlivesTheMirror(t *testing.T) {
	s := NewMemory()
	if s.View().Fillers() != 0 {
		t.Error("a fingerprint of nothing")
	}
	wantFiller(t, s.View(), "t", theID, false)
	for name, commands := range map[string][]Command{
		"deleted":                               {DeleteMirror{"m"}},
		"deleted and made again":                {DeleteMirror{"m"}, CreateMirror{Name: "m"}},
		"added again, rolled back":              {DeleteMirror{"m"}, CreateMirror{Name: "m"}, AddTopic{Mirror: "m", Name: "t", ID: theID, Partitions: 2}, RollbackTopic{theID}},
		"moved on, the first deleted meanwhile": {CreateMirror{Name: "o"}, AddTopic{Mirror: "o", Name: "t", ID: theID, Partitions: 2}, DeleteMirror{"m"}, RollbackTopic{theID}},
	} {
		s := prepare(t, stopped)
		wantFiller(t, s.View(), "t", theID, true)
		before := s.View().Fillers()
		do(t, s, commands...)
		wantFiller(t, s.View(), "t", theID, true)
		wantFiller(t, s.View(), "other", TopicID{7}, false)
		if former := s.View().Former(); len(former) != 1 || former[theID] != "t" {
			t.Errorf("%s: former topics %v", name, former)
		}
		if s.View().Fillers() != before {
			t.Errorf("%s: another fingerprint of the same set", name)
		}
		do(t, s, ForgetTopic{theID})
		wantFiller(t, s.View(), "t", theID, false)
		if s.View().Fillers() != 0 || len(s.View().Former()) != 0 {
			t.Errorf("%s: something is left of a topic that is gone", name)
		}
	}
}

// TestFillersTellsOfEveryChange: who judged by an older set can tell that there is a new one.
func TestFillersTellsOfEveryChange(t *testing.T) {
	s := NewMemory()
	do(t, s, CreateMirror{Name: "m"})
	seen := map[uint64]int{s.View().Fillers(): -1}
	for i := range 20 {
		do(t, s, AddTopic{Mirror: "m", Name: string(rune('a' + i)), ID: TopicID{byte(i + 1)}, Partitions: 1})
		fingerprint := s.View().Fillers()
		if before, ok := seen[fingerprint]; ok {
			t.Fatalf("topic %d: the fingerprint of topic %d", i, before)
		}
		seen[fingerprint] = i
		do(t, s, ConfirmTopic{TopicID{byte(i + 1)}}, SetTopicError{TopicID{byte(i + 1)}, "e"})
		if s.View().Fillers() != fingerprint {
			t.Fatal("another fingerprint although no topic came or went")
		}
	}
	if was := s.View(); was.MayHoldFiller([]byte("z")) || !was.MayHoldFiller([]byte("a")) {
		t.Error("by name")
	}
}

func TestFormerTopicsAreBounded(t *testing.T) {
	d := newDraft()
	mirrorRecord{"m", &Mirror{Name: "m"}}.apply(d)
	for i := range maxFormer {
		formerRecord{TopicID{byte(i), byte(i >> 8), byte(i >> 16), 1}, "t"}.apply(d)
	}
	topicRecord{theID, &Topic{Mirror: "m", Name: "one more", ID: theID, Partitions: 1, Desired: DesiredStopped}}.apply(d)
	statusRecord{partitionKey{"m", theID, 0}, &Partition{Status: Stopped}}.apply(d)
	if _, err := d.decideAll([]Command{DeleteMirror{"m"}}, 0); code(err) != CodeInvalid {
		t.Errorf("one more than the limit: %v", err)
	}
	if _, err := d.decideAll([]Command{ForgetTopic{TopicID{0, 0, 0, 1}}, DeleteMirror{"m"}}, 0); err != nil {
		t.Errorf("after one was forgotten: %v", err)
	}
}

func TestMayHoldFillerAllocatesNothing(t *testing.T) {
	view, name, id := prepare(t, stopped).View(), []byte("t"), [16]byte(theID)
	if n := testing.AllocsPerRun(100, func() { _, _, _ = view.MayHoldFiller(name), view.MayHoldFillerID(id), view.Fillers() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
