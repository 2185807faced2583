package sim

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// outcome is what became of a partition.
type outcome int

const (
	equal      outcome = iota // MIRRORING, and all that the source has is there
	loud                      // FAILED because of what must be loud: a gap, rewritten history, a foreign write
	detected                  // FAILED: the mirror's own batch stands at a wrong offset, and that was seen
	undetected                // a wrong offset that nobody was told
	falseAlarm                // FAILED for nothing
	outcomes
)

// counts are figures over all cases.
type counts struct {
	cases, produces, appends, duplicates, outOfOrder, unguarded, forgotten, offsets, shifted, stopped atomic.Int64
	outcomes                                                                                          [outcomes]atomic.Int64
}

func (c *counts) String() string {
	return fmt.Sprintf("%d cases, %d produce requests, %d batches appended (%d with no producer state; %d producers forgotten), %d duplicates, %d out of sequence, %d offsets compared\n"+
		"partitions: %d equal, %d FAILED as they must (gap, rewritten history, foreign write), %d FAILED with a batch at a wrong offset (old timestamps), %d wrong and undetected, %d false alarms; %d removed and written to by users",
		c.cases.Load(), c.produces.Load(), c.appends.Load(), c.unguarded.Load(), c.forgotten.Load(), c.duplicates.Load(), c.outOfOrder.Load(), c.offsets.Load(),
		c.outcomes[equal].Load(), c.outcomes[loud].Load(), c.outcomes[detected].Load(), c.outcomes[undetected].Load(), c.outcomes[falseAlarm].Load(), c.stopped.Load())
}

// number reads a number from the environment.
func number(t *testing.T, name string, standard uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return standard
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// casesOfCI are run everywhere, and besides them pinned; make sim runs more of them.
const casesOfCI = 196

// pinned are seeds whose cases write a wrong offset when the wait after a lost answer (doubt.look) is taken out: one case in
// seventy or so does, and a fault as rare as that is not left to the luck of a slice. They have to be looked for anew
// when the simulator draws its cases in another way.
var pinned = []uint64{1022, 1064, 1108, 1195}

// TestSimulator runs cases with the seeds from KMP_SEED (1) on, KMP_SIM_CASES of them; without either the slice of CI.
func TestSimulator(t *testing.T) {
	first, n := number(t, "KMP_SEED", 1), number(t, "KMP_SIM_CASES", casesOfCI)
	more := pinned
	if os.Getenv("KMP_SEED") != "" || os.Getenv("KMP_SIM_CASES") != "" {
		more = nil
	}
	seed := func(i uint64) uint64 {
		if i < n {
			return first + i
		}
		return more[i-n]
	}
	var figures counts
	var taken, failures atomic.Uint64
	begun := time.Now()
	t.Cleanup(func() {
		t.Logf("seeds %d to %d and %v, %v\n%v", first, first+n-1, more, time.Since(begun).Round(time.Millisecond), &figures)
	})
	for worker := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprintf("worker %d", worker), func(t *testing.T) {
			t.Parallel()
			for i := taken.Add(1) - 1; i < n+uint64(len(more)) && failures.Load() < 5; i = taken.Add(1) - 1 {
				figures.cases.Add(1)
				if failure := runCase(t, newPlan(seed(i)), &figures); failure != "" {
					failures.Add(1)
					t.Errorf("%s\nagain: KMP_SEED=%d KMP_SIM_CASES=1 go test -run TestSimulator ./testenv/sim", strings.TrimSpace(failure), seed(i))
				}
			}
		})
	}
}
