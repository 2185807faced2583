package replicate

import (
	"fmt"
	"testing"
	"time"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

func (r *rig) awaitStart(topic string, want int64) {
	r.t.Helper()
	testenv.Eventually(r.t, patience, fmt.Sprintf("a log start of %d", want), func() error {
		if starts, _ := ends(r.t, r.destination, topic); starts[topic][0].Offset != want {
			return fmt.Errorf("log start %d", starts[topic][0].Offset)
		}
		return nil
	})
}

// What the source deletes is deleted on the destination, not more often than once a minute.
func TestDestinationFollowsTheLogStart(t *testing.T) {
	r, _, _, id := mirroring(t, "trimmed", 1, 100)
	deleteRecords(t, r.source, "trimmed", 0, 50)
	r.awaitStart("trimmed", 50)
	for i := range 5 { // each arrives with the answer that tells where the log begins
		deleteRecords(t, r.source, "trimmed", 0, int64(60+i))
		r.produce("trimmed", 0, 100+i, 1, nil)
		r.awaitCaughtUp("trimmed", 1)
	}
	if starts, _ := ends(t, r.destination, "trimmed"); starts["trimmed"][0].Offset != 50 {
		t.Errorf("log start %d after less than a minute", starts["trimmed"][0].Offset)
	}
	r.ahead.Store(int64(61 * time.Second))
	r.awaitStart("trimmed", 64)
	r.awaitStatus(id, 1, state.Mirroring)
	r.compare("trimmed", 1)
}

// So it is on real clusters, down to the last record; and the next owner goes on behind it.
func TestDestinationFollowsTheLogStartReal(t *testing.T) {
	r := realRig(t)
	r.createTopic("followed", 1, nil)
	r.produce("followed", 0, 0, 100, []byte("v"))
	r.start()
	id := r.add("followed", 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.awaitCaughtUp("followed", 1)
	deleteRecords(t, r.source, "followed", 0, 50)
	r.awaitStart("followed", 50)
	r.stop()
	r.store.generation.Add(1)
	r.start()
	deleteRecords(t, r.source, "followed", 0, 100)
	r.awaitStart("followed", 100)
	r.stop()
	r.store.generation.Add(1)
	r.start()
	r.produce("followed", 0, 100, 10, []byte("v"))
	r.awaitCaughtUp("followed", 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.compare("followed", 1)
}

// A destination that holds no record any more goes on where it ends, although the owner died without a word and the
// broker does not remember the mirror's producer.
func TestEverythingDeletedThenOwnerDies(t *testing.T) {
	r, _, _, id := mirroring(t, "all", 1, 10)
	r.produce("all", 0, 10, 30, nil) // the reservation lasts, so nothing is recorded on the way
	r.awaitCaughtUp("all", 1)
	deleteRecords(t, r.source, "all", 0, 40)
	r.awaitStart("all", 40)
	r.store.lost.Store(true)
	r.stop()
	r.store.generation.Add(1)
	r.store.lost.Store(false)
	r.start()
	r.produce("all", 0, 40, 5, nil)
	r.awaitCaughtUp("all", 1)
	r.awaitStatus(id, 1, state.Mirroring)
	r.compare("all", 1)
}

// What the copy has not come to yet is not deleted: that would be a gap.
func TestTrimmingWaitsForTheCopy(t *testing.T) {
	trim := newTrimming(10, 1000)
	due := func() bool {
		select {
		case <-trim.due:
			return true
		default:
			return false
		}
	}
	trim.begins(20, 999)
	if due() {
		t.Error("due before its time")
	}
	trim.begins(20, 1000)
	if !due() {
		t.Error("not due")
	}
	if offset, ok := trim.take(19, 2000); ok {
		t.Errorf("deletes up to %d where the log ends at 19", offset)
	}
	trim.begins(20, 1001)
	if !due() {
		t.Error("not due once more")
	}
	if offset, ok := trim.take(20, 2000); !ok || offset != 20 {
		t.Errorf("offset %d, %t; want 20", offset, ok)
	}
	trim.begins(20, 1500)
	trim.trimmed(20)
	trim.begins(-1, 3000)
	if due() {
		t.Error("due with nothing to delete")
	}
}
