package proxy

import (
	"context"
	"sync/atomic"
	"time"
)

// holdPoll is how soon a held request notices that the view is loaded.
const holdPoll = 20 * time.Millisecond

// holds lets requests wait for the view to be loaded, a bounded number for a bounded time.
type holds struct {
	ctx     context.Context
	ready   func() bool
	most    int64
	timeout time.Duration
	waiting atomic.Int64
}

func newHolds(ctx context.Context, ready func() bool, limits Limits) *holds {
	return &holds{ctx: ctx, ready: ready, most: int64(limits.HeldRequests), timeout: limits.Load}
}

// hold returns a channel that is closed when the view is loaded or the time is up; nil when too many
// wait already. The state's store tells of changes, but this package sees only the policy, and the
// wait happens only at start: so it polls.
func (h *holds) hold() <-chan struct{} {
	if h.waiting.Add(1) > h.most {
		h.waiting.Add(-1)
		return nil
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer h.waiting.Add(-1)
		ctx, cancel := context.WithTimeout(h.ctx, h.timeout)
		defer cancel()
		ticker := time.NewTicker(holdPoll)
		defer ticker.Stop()
		for !h.ready() {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return over
}
