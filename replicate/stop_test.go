package replicate

import (
	"testing"
	"time"

	"kafka-mirror-proxy/replicate/produce"
	"kafka-mirror-proxy/state"
)

// A topic that was written to after it was handed over is refused, and goes on to be refused: also when it is removed
// once more, and when its records, and what the broker knew of the mirror's producer, are gone.
func TestRefusedResumptionStaysRefused(t *testing.T) {
	r, _, _, id := mirroring(t, "refused", 1, 10)
	r.do(state.RemoveTopic{Mirror: "m", Name: "refused"})
	r.awaitStatus(id, 1, state.Stopped)
	for range 5 {
		write(t, r, "refused", 0)
	}
	r.produce("refused", 0, 10, 20, nil)
	deleteRecords(t, r.destination, "refused", 0, 15)
	for range 2 {
		r.add("refused", 1)
		r.awaitStatus(id, 1, state.Failed)
		wantError(t, r.partition(id, 0), "handed over at offset 10", "ends at 15")
		r.do(state.RemoveTopic{Mirror: "m", Name: "refused"})
		r.awaitStatus(id, 1, state.Stopped)
		if got := r.partition(id, 0).LastMirroredOffset; got != 10 {
			t.Fatalf("last mirrored offset %d, want 10", got)
		}
	}
}

// A batch of unknown fate is in sequence still when somebody else's record stands where it belongs: it must be shut out.
func TestFenceBehindAForeignWrite(t *testing.T) {
	p := &partition{tenure: &tenure{cfg: &Config{Clock: time.Now}}, since: time.Now()}
	p.progress.UncleanOffset = 11 // the batch at offset 10 may come yet
	behind := produce.Position{EndOffset: 11, Producer: &produce.ProducerState{LastSequence: 9, LastTimestampMs: time.Now().UnixMilli()}}
	if needed, err := p.needsFence(produce.Target{}, &behind); err != nil || !needed {
		t.Errorf("a marker is needed: %t (%v)", needed, err)
	}
}

// What somebody else wrote, and what the mirror wrote behind it, is not counted as mirrored, whoever
// owns the mirrors then.
func TestStopAfterAForeignWrite(t *testing.T) {
	r, _, _, id := mirroring(t, "shifted", 1, 10)
	write(t, r, "shifted", 0)
	r.produce("shifted", 0, 10, 5, nil)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "offsets 10 to 14", "at offset 11")
	r.stop()
	r.store.generation.Add(1)
	r.do(state.RemoveTopic{Mirror: "m", Name: "shifted"})
	r.start()
	r.awaitStatus(id, 1, state.Stopped)
	if got := r.partition(id, 0).LastMirroredOffset; got != 10 {
		t.Errorf("last mirrored offset %d, want 10", got)
	}
	wantError(t, r.partition(id, 0), "offsets 10 to 15 were written by something other than the mirror")
	r.add("shifted", 1)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "handed over at offset 10", "ends at 16")
}

// Where nothing tells what the mirror wrote, no offset is claimed, and the topic is not mirrored again.
func TestStopWhereNothingIsKnown(t *testing.T) {
	r, _, _ := fakeRig(t)
	r.createTopic("unknown", 1, nil)
	r.produce("unknown", 0, 0, 10, nil)
	id := r.add("unknown", 1)
	write(t, r, "unknown", 0)
	r.do(state.RemoveTopic{Mirror: "m", Name: "unknown"})
	r.start()
	r.awaitStatus(id, 1, state.Stopped)
	if p := r.partition(id, 0); p.LastMirroredOffset != -1 {
		t.Errorf("last mirrored offset %d, want none", p.LastMirroredOffset)
	}
	wantError(t, r.partition(id, 0), "unknown-0 ends at offset 1", "not known")
	deleteRecords(t, r.destination, "unknown", 0, 1)
	r.add("unknown", 1)
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "holds no records and ends at offset 1")
}
