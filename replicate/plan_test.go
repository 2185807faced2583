package replicate

import (
	"testing"

	"kafka-mirror-proxy/state"
)

var (
	allDesired  = []state.Desired{state.DesiredAdding, state.DesiredMirroring, state.DesiredPaused, state.DesiredStopped}
	allStatuses = []state.Status{state.Unknown, state.Preparing, state.Mirroring, state.Pausing, state.Paused, state.Stopping, state.Stopped, state.Failed}
)

func TestPlan(t *testing.T) {
	const (
		rest, prepare, mirror, settle, pause, stop = stepRest, stepPrepare, stepMirror, stepSettle, stepPause, stepStop
	)
	want := map[state.Desired][]step{ // in the order of allStatuses
		state.DesiredAdding:    {rest, rest, rest, rest, rest, rest, rest, rest},
		state.DesiredMirroring: {prepare, mirror, mirror, pause, mirror, stop, prepare, mirror},
		state.DesiredPaused:    {prepare, settle, pause, pause, rest, stop, prepare, settle},
		state.DesiredStopped:   {stop, stop, stop, stop, stop, stop, rest, stop},
	}
	for _, desired := range allDesired {
		for i, status := range allStatuses {
			if got := plan(desired, status); got != want[desired][i] {
				t.Errorf("%v, %v: step %d, want %d", desired, status, got, want[desired][i])
			}
		}
	}
}

// Whatever a partition is in, following the plan leads to what is asked, by legal moves only.
func TestPlanArrives(t *testing.T) {
	goals := map[state.Desired]state.Status{
		state.DesiredMirroring: state.Mirroring, state.DesiredPaused: state.Paused, state.DesiredStopped: state.Stopped,
	}
	ways := map[step][]state.Status{
		stepPrepare: {state.Preparing}, stepPause: {state.Pausing, state.Paused}, stepStop: {state.Stopping, state.Stopped},
	}
	for desired, goal := range goals {
		for _, from := range allStatuses {
			status := from
			for range 8 {
				next := plan(desired, status)
				way := ways[next]
				if next == stepMirror || next == stepSettle {
					way = nil
					for _, command := range enterMirroring(state.PartitionID{}, status) {
						way = append(way, command.(state.MovePartition).To)
					}
				}
				for _, to := range way {
					if !state.CanMove(status, to) {
						t.Fatalf("%v from %v: %v to %v is not legal", desired, from, status, to)
					}
					status = to
				}
			}
			if status != goal {
				t.Errorf("%v from %v ends in %v", desired, from, status)
			}
		}
	}
}
