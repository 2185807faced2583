package state

import (
	"fmt"
	"slices"
	"testing"
)

// TestViewIsImmutable: what a view shows does not change when the draft that made it goes on.
func TestViewIsImmutable(t *testing.T) {
	s := NewMemory()
	fill(t, s)
	view := s.View()
	before := contents(view)
	p := PartitionID{TopicID{1}, 0}
	do(t, s, AlterMirror{Name: "m", Set: map[string]string{"k": "other"}}, DeleteMirror{"empty"},
		MovePartition{Partition: p, To: Preparing, LastMirroredOffset: 1}, SetProgress{p, Progress{ReservedBy: 9}},
		RollbackTopic{TopicID{3}}, RememberSourceID{"later", TopicID{}}, ForgetBrokerConfig{"unset"}, ForgetTopic{TopicID{1}})
	if diff := diffContents(before, contents(view)); diff != "" {
		t.Error(diff)
	}
	if diff := diffContents(before, contents(s.View())); diff == "" {
		t.Error("the commands changed nothing")
	}
}

// TestForkIsIndependent: of two drafts that share their maps, neither sees what the other does.
func TestForkIsIndependent(t *testing.T) {
	s := NewMemory()
	fill(t, s)
	d := s.draft
	f := d.fork()
	p := partitionKey{"m", TopicID{1}, 0}
	statusRecord{p, &Partition{Status: Mirroring}}.apply(d)
	statusRecord{p, &Partition{Status: Paused}}.apply(f)
	mirrorRecord{name: "m"}.apply(d)
	topicRecord{id: TopicID{1}}.apply(f)
	if got := d.view().Partition(PartitionID{TopicID{1}, 0}).Status; got != Mirroring {
		t.Errorf("the draft has %s", got)
	}
	if got := f.parts.m[p.parts()].partition(0).Status; got != Paused {
		t.Errorf("the fork has %s", got)
	}
	if _, ok := f.view().Mirror("m"); !ok {
		t.Error("the fork lost the draft's mirror")
	}
	if _, ok := d.view().TopicByID(TopicID{1}); !ok {
		t.Error("the draft lost the fork's topic")
	}
}

func TestViewOfNothing(t *testing.T) {
	v := newDraft().view()
	p := v.Partition(PartitionID{})
	if v.Loaded() || v.HasReadOnly() || p.Status != Unknown || p.Previous != Unknown || p.LastMirroredOffset != -1 {
		t.Errorf("partition %+v", p)
	}
	if got := v.Progress(PartitionID{}); got.FillToOffset != -1 || got.ReservedOffset != -1 || got.UncleanOffset != -1 {
		t.Errorf("progress %+v", got)
	}
	if _, ok := v.StateTopicID(); ok {
		t.Error("a state topic id out of nowhere")
	}
}

// TestReadOnlyDuringRecreation: a tail may read the record of a recreated topic before the tombstone of the old one.
func TestReadOnlyDuringRecreation(t *testing.T) {
	d := newDraft()
	topicRecord{TopicID{1}, &Topic{Mirror: "m", Name: "t", ID: TopicID{1}, Partitions: 1, Desired: DesiredStopped}}.apply(d)
	statusRecord{partitionKey{"m", TopicID{1}, 0}, &Partition{Status: Stopped}}.apply(d)
	if _, ok := d.view().ReadOnlyName([]byte("t")); ok {
		t.Error("a stopped topic is read-only")
	}
	topicRecord{TopicID{2}, &Topic{Mirror: "m", Name: "t", ID: TopicID{2}, Partitions: 1, Desired: DesiredAdding}}.apply(d)
	v := d.view()
	if topic, ok := v.ReadOnlyName([]byte("t")); !ok || topic.ID != (TopicID{2}) {
		t.Errorf("read-only by name: %+v, %v", topic, ok)
	}
	if topic, _ := v.Topic("t"); topic.ID != (TopicID{2}) {
		t.Errorf("by name: %+v", topic)
	}
	topicRecord{id: TopicID{1}}.apply(d)
	if topic, ok := d.view().ReadOnlyName([]byte("t")); !ok || topic.ID != (TopicID{2}) {
		t.Errorf("after the tombstone: %+v, %v", topic, ok)
	}
}

// TestPartitionBeforeTopic: records of one topic are in several partitions of the log and come in any order.
func TestPartitionBeforeTopic(t *testing.T) {
	d := newDraft()
	statusRecord{partitionKey{"m", TopicID{1}, 0}, &Partition{Status: Stopped}}.apply(d)
	d.view()
	topicRecord{TopicID{1}, &Topic{Mirror: "m", Name: "t", ID: TopicID{1}, Partitions: 1, Desired: DesiredStopped}}.apply(d)
	if v := d.view(); v.Partition(PartitionID{TopicID{1}, 0}).Status != Stopped || v.HasReadOnly() {
		t.Error("the partition's record was lost")
	}
}

func TestSortedLists(t *testing.T) {
	s := NewMemory()
	do(t, s, CreateMirror{Name: "b"}, CreateMirror{Name: "a"})
	for i, name := range []string{"z", "x", "y"} {
		do(t, s, AddTopic{Mirror: "a", Name: name, ID: TopicID{byte(i + 1)}, Partitions: 1})
	}
	var names []string
	for _, m := range s.View().Mirrors() {
		names = append(names, m.Name)
	}
	for _, topic := range s.View().TopicsOf("a") {
		names = append(names, topic.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "x", "y", "z"}) {
		t.Errorf("order %v", names)
	}
}

func TestReadOnlyAllocatesNothing(t *testing.T) {
	s := NewMemory()
	fill(t, s)
	view, name, id := s.View(), []byte("t1"), [16]byte{1}
	if _, ok := view.ReadOnlyName(name); !ok {
		t.Fatal("t1 is not read-only")
	}
	for what, call := range map[string]func(){
		"ReadOnlyName": func() { view.ReadOnlyName(name) },
		"ReadOnlyID":   func() { view.ReadOnlyID(id) },
		"HasReadOnly":  func() { view.HasReadOnly() },
	} {
		if n := testing.AllocsPerRun(100, call); n != 0 {
			t.Errorf("%s allocates %v times", what, n)
		}
	}
}

// BenchmarkView is the cost of one changed partition among many topics.
func BenchmarkView(b *testing.B) {
	for _, topics := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprint(topics), func(b *testing.B) {
			d := newDraft()
			for i := range topics {
				id := TopicID{byte(i), byte(i >> 8), 1}
				topicRecord{id, &Topic{Mirror: "m", Name: fmt.Sprint(i), ID: id, Partitions: 10, Desired: DesiredMirroring}}.apply(d)
			}
			d.view()
			key := partitionKey{"m", TopicID{0, 0, 1}, 3}
			for i := 0; b.Loop(); i++ {
				statusRecord{key, &Partition{SinceMs: int64(i)}}.apply(d)
				d.view()
			}
		})
	}
}
