package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// buffers lends the memory of windows: fixed buffers from a pool while bytes are on their way, and
// one of its own, within a budget, while a frame is held whole.
//
// Such a buffer grows as the frame's bytes arrive, so that who only claims to send much takes up
// little. Frames that have arrived in part could then wait for each other's memory for ever; so
// one at a time may grow beyond the budget, and with it the others get on.
type buffers struct {
	windowBytes int
	pool        sync.Pool // *[]byte of windowBytes
	budgetBytes int64
	held        *atomic.Int64

	mu        sync.Mutex
	used      int64         // within the budget
	overdrawn bool          // somebody is beyond it
	freed     chan struct{} // closed and replaced when memory comes back
}

func newBuffers(windowBytes int, budgetBytes int64, held *atomic.Int64) *buffers {
	b := &buffers{windowBytes: windowBytes, budgetBytes: budgetBytes, held: held, freed: make(chan struct{})}
	b.pool.New = func() any {
		buffer := make([]byte, windowBytes)
		return &buffer
	}
	return b
}

// take reserves units more for a window; it waits until there is room, or until the window may be
// the one beyond the budget. That one stays it until it gives its memory back.
func (b *buffers) take(ctx context.Context, w *window, units int64) error {
	for {
		b.mu.Lock()
		switch {
		case w.overdraws:
			w.beyond += units
		case b.used+units <= b.budgetBytes:
			b.used += units
			w.held += units
		case !b.overdrawn:
			b.overdrawn, w.overdraws = true, true
			w.beyond += units
		default:
			freed := b.freed
			b.mu.Unlock()
			select {
			case <-freed:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		b.mu.Unlock()
		b.held.Add(units)
		return nil
	}
}

// give takes back all that a window had.
func (b *buffers) give(w *window) {
	b.held.Add(-w.held - w.beyond)
	b.mu.Lock()
	b.used -= w.held
	if w.overdraws {
		b.overdrawn = false
	}
	close(b.freed)
	b.freed = make(chan struct{})
	b.mu.Unlock()
	w.held, w.beyond, w.overdraws = 0, 0, false
}

var errOverBudget = errors.New("frame is larger than the budget of frames held whole")

// window is the bytes of one direction that were read and not passed on. One goroutine owns it.
// An empty window owns no memory: that is what makes idle connections cheap.
type window struct {
	buffers *buffers
	pooled  *[]byte
	buffer  []byte
	r, w    int
	// held is units of the budget, beyond what overdraws it. A window has such memory while it holds a frame.
	held, beyond int64
	overdraws    bool
}

func (w *window) holds() bool { return w.held+w.beyond > 0 }

// bytes is what is there. It is valid until the next call of consume, room or hold.
func (w *window) bytes() []byte { return w.buffer[w.r:w.w] }

func (w *window) len() int { return w.w - w.r }

// consume drops the first n bytes.
func (w *window) consume(n int) {
	w.r += n
	if w.r == w.w {
		w.r, w.w = 0, 0
		if w.holds() {
			w.release()
		}
	}
}

// room returns space to read into, after what is there, enough to come to need bytes when need
// fits the window.
func (w *window) room(need int) []byte {
	if w.buffer == nil {
		w.pooled = w.buffers.pool.Get().(*[]byte)
		w.buffer = *w.pooled
	}
	if w.r > 0 && len(w.buffer)-w.r < need {
		w.w = copy(w.buffer, w.bytes())
		w.r = 0
	}
	return w.buffer[w.w:]
}

// filled says that n bytes were read into room.
func (w *window) filled(n int) { w.w += n }

// fits says whether need bytes can be shown at once without hold.
func (w *window) fits(need int) bool {
	if w.buffer == nil {
		return need <= w.buffers.windowBytes
	}
	return need <= len(w.buffer)
}

// full says that nothing more can be read without hold.
func (w *window) full() bool { return w.buffer != nil && w.len() == len(w.buffer) }

// firstHoldBytes is the memory of a frame that has filled a window and is to be held.
const firstHoldBytes = 256 << 10

// hold makes room for more of a frame of need bytes: twice what has arrived, until it has exactly
// need bytes. Exactly, so that the held memory goes back when the frame is consumed and not a byte
// later. It waits for the budget.
func (w *window) hold(ctx context.Context, need int) error {
	if int64(need) > w.buffers.budgetBytes {
		return fmt.Errorf("%w: %d of %d bytes", errOverBudget, need, w.buffers.budgetBytes)
	}
	size := min(need, max(firstHoldBytes, 2*w.len()))
	if err := w.buffers.take(ctx, w, int64(size)-w.held-w.beyond); err != nil {
		return err
	}
	buffer := make([]byte, size)
	n := copy(buffer, w.bytes())
	w.unpool()
	w.buffer, w.r, w.w = buffer, 0, n
	return nil
}

// release gives the memory back and forgets what is there.
func (w *window) release() {
	w.unpool()
	if w.holds() {
		w.buffers.give(w)
	}
	w.buffer, w.r, w.w = nil, 0, 0
}

func (w *window) unpool() {
	if w.pooled != nil {
		w.buffers.pool.Put(w.pooled)
		w.pooled = nil
	}
}

// rest gives the memory of an empty window back while nothing is there to read.
func (w *window) rest() {
	if w.r == w.w && w.buffer != nil {
		w.release()
	}
}
