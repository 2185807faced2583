package replicate

import (
	"context"
	"sync"
	"sync/atomic"
)

// Budget bounds the bytes that are held for replication in the whole process. Units travel with
// the data: who fetches acquires them, who has written gives them back. Safe for concurrent use.
type Budget struct {
	mu      sync.Mutex
	limit   int64
	used    int64
	waiting []*waiter // first come, first served
}

type waiter struct {
	bytes int64
	ready chan struct{}
}

// NewBudget makes a budget of so many bytes.
func NewBudget(limitBytes int64) *Budget { return &Budget{limit: limitBytes} }

// Acquire waits until so many bytes are free, or nothing at all is in use: a single answer may
// be larger than the budget.
func (b *Budget) Acquire(ctx context.Context, bytes int64) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.fits(bytes) {
		b.used += bytes
		b.mu.Unlock()
		return nil
	}
	w := &waiter{bytes: bytes, ready: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.waiting {
		if other == w {
			b.waiting = append(b.waiting[:i], b.waiting[i+1:]...)
			b.admit() // those behind may fit where this one did not
			return ctx.Err()
		}
	}
	b.used -= bytes // granted at the same moment
	b.admit()
	return ctx.Err()
}

// Adjust takes more bytes (or gives back, when negative) without waiting: the true size of what
// was asked for is known only when it is there.
func (b *Budget) Adjust(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += bytes
	b.admit()
}

// Used is how many bytes are in use.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

func (b *Budget) fits(bytes int64) bool { return b.used <= 0 || b.used+bytes <= b.limit }

func (b *Budget) admit() {
	for len(b.waiting) > 0 && b.fits(b.waiting[0].bytes) {
		b.used += b.waiting[0].bytes
		close(b.waiting[0].ready)
		b.waiting = b.waiting[1:]
	}
}

// holding is the budget that one fetch answer occupies. Every batch of the answer keeps the
// whole answer in memory, so it is given back with the last of them.
type holding struct {
	budget *Budget
	bytes  int64
	users  atomic.Int64
	// releaser is release as a value, made once and not for every batch.
	releaser func()
}

// hold makes a holding with one user.
func (b *Budget) hold(bytes int64) *holding {
	h := &holding{budget: b, bytes: bytes}
	h.users.Store(1)
	h.releaser = h.release
	return h
}

func (h *holding) use() { h.users.Add(1) }

func (h *holding) release() {
	if h.users.Add(-1) == 0 {
		h.budget.Adjust(-h.bytes)
	}
}
