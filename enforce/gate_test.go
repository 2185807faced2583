package enforce

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestBarrierWaitsForThoseBefore(t *testing.T) {
	gate := NewGate()
	before := gate.Enter()
	done := make(chan error, 1)
	go func() { done <- gate.Barrier(context.Background()) }()
	for gate.phase.Load() == 0 {
		runtime.Gosched()
	}
	after := gate.Enter()
	defer after.Exit()
	select {
	case <-done:
		t.Fatal("the barrier did not wait for a token entered before it")
	default:
	}
	before.Exit()
	if err := <-done; err != nil { // although the newcomer is still inside
		t.Fatal(err)
	}
}

func TestGateTellsWhoIsWaitedFor(t *testing.T) {
	gate := NewGate()
	before := gate.Enter()
	if before.Waited() || gate.Waiting() != 0 {
		t.Fatal("somebody waits without a barrier")
	}
	done := make(chan error, 1)
	go func() { done <- gate.Barrier(context.Background()) }()
	for gate.phase.Load() == 0 {
		runtime.Gosched()
	}
	after := gate.Enter()
	defer after.Exit()
	if !before.Waited() || after.Waited() || (Token{}).Waited() || gate.Waiting() == 0 {
		t.Errorf("waits %v: before %v, after %v", gate.Waiting(), before.Waited(), after.Waited())
	}
	before.Exit()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if gate.Waiting() != 0 {
		t.Error("a barrier that is over waits")
	}
}

func TestBarrierThatGaveUpLeavesNothingBehind(t *testing.T) {
	gate := NewGate()
	token := gate.Enter()
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		if err := gate.Barrier(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v while a token is inside", err)
		}
		cancel()
	}
	token.Exit()
	if err := gate.Barrier(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestEmptyGateHasNoBarrier(t *testing.T) {
	gate := NewGate()
	for range 3 {
		if err := gate.Barrier(context.Background()); err != nil {
			t.Fatal(err)
		}
		gate.Enter().Exit()
	}
	Token{}.Exit()
}

// A value is published, then a barrier is called; no one who read the old value may still be
// inside when the barrier returns. That is the promise that the mirror's add rests on.
func TestGateUnderRace(t *testing.T) {
	gate := NewGate()
	var version atomic.Int64
	var oldest [8]atomic.Int64 // version+1 that reader i works with, 0: outside
	var stop atomic.Bool
	var readers sync.WaitGroup
	for i := range oldest {
		readers.Go(func() {
			for !stop.Load() {
				token := gate.Enter()
				oldest[i].Store(version.Load() + 1)
				if rand.IntN(4) == 0 {
					runtime.Gosched()
				}
				oldest[i].Store(0)
				token.Exit()
			}
		})
	}
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() {
			for range 300 {
				published := version.Add(1)
				if err := gate.Barrier(context.Background()); err != nil {
					t.Error(err)
				}
				for i := range oldest {
					if seen := oldest[i].Load(); seen != 0 && seen-1 < published {
						t.Errorf("reader %d is still inside with version %d after the barrier of %d", i, seen-1, published)
					}
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	if err := gate.Barrier(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestGateAllocatesNothing(t *testing.T) {
	gate := NewGate()
	if allocs := testing.AllocsPerRun(100, func() { gate.Enter().Exit() }); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

func BenchmarkGate(b *testing.B) {
	gate := NewGate()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			gate.Enter().Exit()
		}
	})
}
