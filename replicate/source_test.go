package replicate

import (
	"testing"

	"kafka-mirror-proxy/state"
)

// The clients belong to the giver, who closes one that it has replaced: whoever used it goes on
// with the new one.
func TestSourceClientIsReplaced(t *testing.T) {
	const topic, partitions = "replaced", 4
	r, _, _ := fakeRig(t)
	r.settings.Fetchers = 2
	r.createTopic(topic, partitions, nil)
	r.start()
	id := r.add(topic, partitions)
	r.awaitStatus(id, partitions, state.Mirroring)
	old := r.clusters.sourceClient
	for round := range 3 {
		next := client(t, r.clusters.source)
		r.clusters.replaced.Store(next)
		old.Close()
		old = next
		for i := range int32(partitions) {
			r.produce(topic, i, round*10, 10, nil)
		}
		r.awaitCaughtUp(topic, partitions)
	}
	r.awaitStatus(id, partitions, state.Mirroring)
	r.compare(topic, partitions)
}
