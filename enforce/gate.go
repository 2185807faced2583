package enforce

import (
	"context"
	"sync/atomic"
	"time"
)

// Gate tells when every produce that was judged by an older view is done with. Any number of
// goroutines Enter, and Exit when the broker has answered; Barrier waits for those that
// entered before it and for no one else, so that steady traffic cannot hold it up.
//
// It is the read side of RCU with two slots. Enter counts itself in the slot of the current
// phase and looks at the phase again: had it changed in between, the count might have come
// after a barrier looked at that slot, so it takes the count back and tries the new slot. A
// barrier moves the phase on and waits for the old slot to run empty; only one runs at a time,
// because a second one would hand the slot that the first waits for to newcomers.
type Gate struct {
	phase   atomic.Uint64
	entered [2]atomic.Int64
	// emptied has room for one token: an Exit that empties the slot of a past phase leaves it.
	emptied chan struct{}
	// turn has room for one: the barrier that runs.
	turn chan struct{}
	// since is when that one began; nil while none runs.
	since atomic.Pointer[time.Time]
}

// NewGate returns an open gate.
func NewGate() *Gate {
	return &Gate{emptied: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
}

// Token is one stay inside the gate. The zero Token is no stay, its Exit does nothing. A token
// must be exited once.
type Token struct {
	gate *Gate
	slot uint64
}

// Enter must come before the view is read for the verdict: then a barrier called after a new
// view is published waits for every verdict made from an older one.
func (g *Gate) Enter() Token {
	for {
		phase := g.phase.Load()
		slot := phase & 1
		g.entered[slot].Add(1)
		if g.phase.Load() == phase {
			return Token{gate: g, slot: slot}
		}
		g.leave(slot)
	}
}

// Exit ends the stay.
func (t Token) Exit() {
	if t.gate != nil {
		t.gate.leave(t.slot)
	}
}

// Held says whether the token stands for a stay.
func (t Token) Held() bool { return t.gate != nil }

// Waited says whether the barrier that runs, if one does, waits for this token.
func (t Token) Waited() bool { return t.gate != nil && t.gate.phase.Load()&1 != t.slot }

// Waiting is how long the barrier that runs has waited, 0 while none does.
func (g *Gate) Waiting() time.Duration {
	if since := g.since.Load(); since != nil {
		return time.Since(*since)
	}
	return 0
}

func (g *Gate) leave(slot uint64) {
	// A barrier moves the phase before it looks at the slot. When the load below still sees
	// the old phase, the barrier's look comes later and sees the slot empty by itself.
	if g.entered[slot].Add(-1) == 0 && g.phase.Load()&1 != slot {
		select {
		case g.emptied <- struct{}{}:
		default:
		}
	}
}

// Barrier returns nil when every token entered before the call was exited. When ctx ends first
// it returns the context's error; the next barrier then waits for what this one left. With
// nothing to wait for it returns nil although ctx has ended.
func (g *Gate) Barrier(ctx context.Context) error {
	select {
	case g.turn <- struct{}{}:
	default:
		select {
		case g.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	now := time.Now()
	g.since.Store(&now)
	defer func() {
		g.since.Store(nil)
		<-g.turn
	}()
	// A barrier that gave up left stays in the slot that would become current.
	if err := g.empty(ctx, (g.phase.Load()+1)&1); err != nil {
		return err
	}
	past := (g.phase.Add(1) - 1) & 1
	return g.empty(ctx, past)
}

func (g *Gate) empty(ctx context.Context, slot uint64) error {
	for g.entered[slot].Load() != 0 {
		select {
		case <-g.emptied:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
