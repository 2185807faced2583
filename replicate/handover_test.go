package replicate

import (
	"testing"

	"kafka-mirror-proxy/state"
)

// One runner makes all partitions of a topic STOPPED and drops their reservations. Who mirrors
// them again, in the same tenure, has to make new ones.
func TestReservedAnewAfterStop(t *testing.T) {
	const topic, partitions = "again", 4
	r, _, _, id := mirroring(t, topic, partitions, 10)
	for round := 1; round <= 2; round++ {
		r.do(state.RemoveTopic{Mirror: "m", Name: topic})
		r.awaitStatus(id, partitions, state.Stopped)
		r.add(topic, partitions)
		r.awaitStatus(id, partitions, state.Mirroring)
		for i := range int32(partitions) {
			r.produce(topic, i, round*10, 10, nil) // watched by the rig
		}
		r.awaitCaughtUp(topic, partitions)
	}
}
