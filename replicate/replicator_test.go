package replicate

import (
	"bytes"
	"testing"

	"kafka-mirror-proxy/state"
)

// story is the life of a topic on any pair of clusters: copy, pause, resume, stop, resume
// mirroring, stop, write, and refuse to go on behind what was written.
func story(t *testing.T, r *rig, topic string) {
	const partitions = 3
	r.createTopic(topic, partitions, nil)
	for i := range int32(partitions) {
		r.produce(topic, i, 0, 500, bytes.Repeat([]byte("v"), 300))
	}
	r.start()
	id := r.add(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	r.awaitCaughtUp(topic, partitions)
	r.produce(topic, 1, 500, 100, nil)
	r.awaitCaughtUp(topic, partitions)
	r.compare(topic, partitions)

	r.do(state.PauseTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, partitions, state.Paused)
	r.produce(topic, 0, 500, 100, []byte("while paused"))
	r.do(state.ResumeTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, partitions, state.Mirroring)
	r.awaitCaughtUp(topic, partitions)

	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, partitions, state.Stopped)
	for i, want := range []int64{600, 600, 500} {
		if got := r.partition(id, int32(i)).LastMirroredOffset; got != want {
			t.Errorf("partition %d: last mirrored offset %d, want %d", i, got, want)
		}
		if p := r.store.View().Progress(state.PartitionID{Topic: id, Partition: int32(i)}); p.ReservedOffset != -1 || p.UncleanOffset != -1 {
			t.Errorf("partition %d was not stopped cleanly: %+v", i, p)
		}
	}
	if starts, _ := ends(t, r.destination, topic); starts.Error() != nil {
		t.Error(starts.Error())
	}

	r.produce(topic, 2, 500, 50, []byte("while stopped"))
	r.add(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	r.awaitCaughtUp(topic, partitions)
	r.compare(topic, partitions)

	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, partitions, state.Stopped)
	write(t, r, topic, 0)
	r.add(topic, partitions)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "handed over at offset 600", "ends at 601")

	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, partitions, state.Stopped)
	if got := r.partition(id, 0).LastMirroredOffset; got != 600 {
		t.Errorf("after a refused resumption the last mirrored offset is %d, want 600", got)
	}
}

func TestStoryFake(t *testing.T) {
	r, _, _ := fakeRig(t)
	story(t, r, "story")
}

func TestStoryReal(t *testing.T) { story(t, realRig(t), "story") }

// A source whose log starts late arrives with the same log start, and everything after it.
func leadingFiller(t *testing.T, r *rig, topic string, start int64) {
	r.createTopic(topic, 1, nil)
	value := make([]byte, 0)
	for from := int64(0); from < start+1000; from += 10_000 {
		r.produce(topic, 0, int(from), int(min(10_000, start+1000-from)), value)
	}
	deleteRecords(t, r.source, topic, 0, start)
	r.start()
	id := r.add(topic, 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp(topic, 1)
	r.produce(topic, 0, 0, 10, []byte("after"))
	r.awaitCaughtUp(topic, 1)
	r.compare(topic, 1)
	if p := r.store.View().Progress(state.PartitionID{Topic: id}); p.FillToOffset != -1 {
		t.Errorf("the goal of the filler is still recorded: %+v", p)
	}
}

// 12345 lies in the middle of a batch, so that the first batch is written anew.
func TestLeadingFillerFake(t *testing.T) {
	r, _, _ := fakeRig(t)
	leadingFiller(t, r, "late", 12_345)
}

func TestLeadingFillerReal(t *testing.T) { leadingFiller(t, realRig(t), "late", 312_345) }
