package replicate

import (
	"testing"
	"time"

	"kafka-mirror-proxy/state"
)

func TestPause(t *testing.T) {
	var s Settings
	s.setDefaults()
	for _, test := range []struct {
		attempts     int
		mirror, stop time.Duration
	}{
		{1, time.Second, time.Second},
		{3, 4 * time.Second, 4 * time.Second},
		{4, 8 * time.Second, 5 * time.Second},
		{1000, 5 * time.Minute, 5 * time.Second},
	} {
		if mirror, stop := s.pause(test.attempts, stepMirror), s.pause(test.attempts, stepStop); mirror != test.mirror || stop != test.stop {
			t.Errorf("after %d tries %v and %v, want %v and %v", test.attempts, mirror, stop, test.mirror, test.stop)
		}
	}
}

// A topic that comes into another mirror begins anew, also for a runner that has known it in the
// one before: what was copied then says nothing about what the new source holds.
func TestAnotherMirrorBeginsAnew(t *testing.T) {
	const topic = "moved"
	r, _, _, id := mirroring(t, topic, 1, 10)
	r.do(state.RemoveTopic{Mirror: "m", Name: topic})
	r.awaitStatus(id, 1, state.Stopped)
	deleteRecords(t, r.destination, topic, 0, 10)
	r.produce(topic, 0, 10, 10, nil)
	r.do(state.CreateMirror{Name: "other", Configs: map[string]string{"bootstrap.servers": r.clusters.source[0]}},
		state.AddTopic{Mirror: "other", Name: topic, ID: id, SourceID: topicID(t, r.source, topic), Partitions: 1, Engine: "produce"},
		state.ConfirmTopic{ID: id})
	r.awaitStatus(id, 1, state.Failed)
	wantError(t, r.partition(id, 0), "nothing tells that the mirror wrote up to there")
}
