package acceptance

import (
	"testing"

	"kafka-mirror-proxy/testenv"
)

// The pairs of TestMatrix: every source to every destination.
var (
	matrixSources      = []string{oldVersion, "2.8.2", "3.3.2", "3.9.1", "4.3.1"}
	matrixDestinations = []string{"4.3.1", "4.0.0"}
)

// TestMatrix is TestMirrorUnderFire, small, between versions of Kafka: in a short run from the oldest to the newest alone.
func TestMatrix(t *testing.T) {
	if !long() {
		useSource(t, oldVersion)
		mirrorUnderFire(t, newRand(t).IntN, 3, 6_000, 600, (*fire).killProxy)
		return
	}
	for _, to := range matrixDestinations {
		t.Run("to "+to, func(t *testing.T) {
			useDestination(t, to)
			for _, from := range matrixSources {
				t.Run("from "+from, func(t *testing.T) {
					useSource(t, from)
					mirrorUnderFire(t, newRand(t).IntN, 6, 30_000, 600, (*fire).killProxy, (*fire).killBroker, (*fire).restartSource)
				})
			}
		})
	}
}

// useSource makes a cluster of that version the source for the length of the test.
func useSource(t *testing.T, version string) {
	t.Helper()
	if version != oldVersion {
		use(t, &source, testenv.Sharing(testenv.RequireKafka(t, testenv.KafkaConfig{Version: version})))
		return
	}
	use(t, &source, oldSource)
}

// useDestination makes a cluster of that version the destination for the length of the test.
func useDestination(t *testing.T, version string) {
	t.Helper()
	if version == "4.3.1" { // the shared one is
		return
	}
	programs.path(t, "kafka-mirrors") // they lie in the shared destination's folder, which goes with the run
	use(t, &destination, testenv.Sharing(testenv.RequireKafka(t, testenv.KafkaConfig{Version: version, Brokers: 3})))
}

func use(t *testing.T, cluster **testenv.SharedKafka, other *testenv.SharedKafka) {
	t.Helper()
	was := *cluster
	t.Cleanup(func() { *cluster = was })
	*cluster = other
}
