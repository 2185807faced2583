package replicate

import (
	"strconv"
	"time"

	"kafka-mirror-proxy/state"
)

// standardAmbiguousWait is mirror.produce.ambiguous.wait.ms of a mirror that does not set it.
const standardAmbiguousWait = 30 * time.Second

// ambiguousWait is how long a broker must have answered before what was sent to it earlier, and never answered, is taken
// for lost.
func ambiguousWait(m *state.Mirror) time.Duration {
	if ms, err := strconv.ParseInt(m.Configs["mirror.produce.ambiguous.wait.ms"], 10, 64); err == nil {
		return time.Duration(ms) * time.Millisecond
	}
	return standardAmbiguousWait
}

// oneAck says that batches of the mirror need not wait for the followers.
func oneAck(m *state.Mirror) bool { return m.Configs["mirror.produce.acks"] == "1" }

// raisesTopicLimits says that a topic of the mirror gets a larger max.message.bytes when it needs it.
func raisesTopicLimits(m *state.Mirror) bool {
	return m.Configs["mirror.raise-topic-limits"] != "false"
}

// raisesExpiration says that the destination's brokers shall remember producers for as long as they can.
func raisesExpiration(m *state.Mirror) bool {
	return m.Configs["mirror.produce.raise-producer-expiration"] == "true"
}
