package replicate

import (
	"context"
	"errors"
	"testing"
)

func TestBudgetWaitsAndServesInOrder(t *testing.T) {
	b := NewBudget(100)
	ctx := context.Background()
	if err := b.Acquire(ctx, 60); err != nil {
		t.Fatal(err)
	}
	order := make(chan int, 2)
	waitFor := func(n int) {
		for {
			b.mu.Lock()
			waiting := len(b.waiting)
			b.mu.Unlock()
			if waiting == n {
				return
			}
		}
	}
	go func() { b.Acquire(ctx, 70); order <- 1 }()
	waitFor(1)
	go func() { b.Acquire(ctx, 30); order <- 2 }() // would fit, but came later
	waitFor(2)
	b.Adjust(-60)
	first, second := <-order, <-order
	if first+second != 3 || b.Used() != 100 {
		t.Errorf("order %d %d, %d bytes used", first, second, b.Used())
	}
	cancelled, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- b.Acquire(cancelled, 50) }()
	waitFor(1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	b.Adjust(-100)
	if b.Used() != 0 {
		t.Errorf("%d bytes used", b.Used())
	}
}

func TestBudgetLetsOneLargeAnswerThrough(t *testing.T) {
	b := NewBudget(100)
	if err := b.Acquire(context.Background(), 1000); err != nil {
		t.Fatal(err)
	}
	h := b.hold(1000)
	h.use()
	h.release()
	if b.Used() != 1000 {
		t.Error("given back while it is in use")
	}
	h.release()
	if b.Used() != 0 {
		t.Errorf("%d bytes used", b.Used())
	}
}
