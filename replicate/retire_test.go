package replicate

import (
	"errors"
	"fmt"
	"testing"

	"kafka-mirror-proxy/state"
	"kafka-mirror-proxy/testenv"
)

// A process that lost the ownership and has it again has a lease, but the tenure that ends has
// nothing to say any more.
func TestRetireIsOfItsGeneration(t *testing.T) {
	r, _, _, id := mirroring(t, "generations", 2, 10)
	r.store.generation.Add(1)
	r.awaitOwner(id, 2, 2)
	if n := r.store.late.Load(); n != 0 {
		t.Errorf("%d times progress was stored in the name of the generation before", n)
	}
}

// awaitOwner waits until a generation has reserved every partition.
func (r *rig) awaitOwner(id state.TopicID, partitions int32, generation int64) {
	r.t.Helper()
	testenv.Eventually(r.t, patience, "the next owner", func() error {
		for i := range partitions {
			if p := r.store.View().Progress(state.PartitionID{Topic: id, Partition: i}); p.ReservedBy != generation || p.ReservedOffset < 0 {
				return fmt.Errorf("partition %d: %+v", i, p)
			}
		}
		return nil
	})
}

// A process that loses the ownership for a moment knows that nothing of it is under way, although
// it could not store that. Another one in between would.
func TestShortLossIsNotUnclean(t *testing.T) {
	for _, another := range []bool{false, true} {
		t.Run(fmt.Sprintf("another owner in between: %t", another), func(t *testing.T) {
			r, _, _, id := mirroring(t, "hiccup", 2, 10)
			r.store.lost.Store(true)
			testenv.Eventually(t, patience, "the loss to be noticed", func() error {
				if r.replicator.current() != nil {
					return errors.New("not yet")
				}
				return nil
			})
			for i := range int32(2) {
				partition := state.PartitionID{Topic: id, Partition: i}
				progress := r.store.View().Progress(partition)
				if progress.ReservedOffset < 10 {
					t.Fatalf("%+v", progress)
				}
				if another {
					if err := r.store.Memory.Do(t.Context(), state.SetProgress{Partition: partition, Progress: progress.TakeOver(2)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			r.store.generation.Store(3)
			r.store.lost.Store(false)
			r.awaitOwner(id, 2, 3)
			for i := range int32(2) {
				p := r.store.View().Progress(state.PartitionID{Topic: id, Partition: i})
				if (p.UncleanOffset >= 0) != another {
					t.Errorf("partition %d: %+v", i, p)
				}
			}
		})
	}
}
