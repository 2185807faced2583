package replicate

import "kafka-mirror-proxy/state"

// step is what a runner does next with its partition.
type step int8

const (
	stepRest    step = iota // nothing until the view changes
	stepPrepare             // enter PREPARING
	stepMirror              // align, enter MIRRORING and copy until something changes
	stepSettle              // align and enter MIRRORING, but copy nothing: a pause is due
	stepPause               // PAUSING, then PAUSED
	stepStop                // STOPPING, then STOPPED
)

// plan decides by what is asked for the topic and what has become of the partition. A pause or
// remove that came early takes effect as soon as the transition table allows it; what was begun
// (PAUSING, STOPPING) is finished first.
func plan(desired state.Desired, status state.Status) step {
	switch {
	case desired == state.DesiredAdding:
		return stepRest
	case desired == state.DesiredStopped && status != state.Stopped, status == state.Stopping:
		return stepStop
	case desired == state.DesiredStopped:
		return stepRest
	case status == state.Unknown, status == state.Stopped:
		return stepPrepare
	case status == state.Pausing:
		return stepPause
	case desired == state.DesiredMirroring: // PREPARING, MIRRORING, PAUSED, FAILED
		return stepMirror
	case status == state.Paused:
		return stepRest
	case status == state.Mirroring:
		return stepPause
	}
	return stepSettle // PREPARING, FAILED
}
