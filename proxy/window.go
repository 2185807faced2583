package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// buffers lends the memory of windows: fixed buffers from a pool while bytes are on their way, and
// one buffer of a frame's own size, within a budget, while a frame is held whole.
type buffers struct {
	windowBytes int
	pool        sync.Pool // *[]byte of windowBytes
	budget      *semaphore.Weighted
	budgetBytes int64
	held        *atomic.Int64
}

func newBuffers(windowBytes int, budgetBytes int64, held *atomic.Int64) *buffers {
	b := &buffers{windowBytes: windowBytes, budget: semaphore.NewWeighted(budgetBytes), budgetBytes: budgetBytes, held: held}
	b.pool.New = func() any {
		buffer := make([]byte, windowBytes)
		return &buffer
	}
	return b
}

var errOverBudget = errors.New("frame is larger than the budget of frames held whole")

// window is the bytes of one direction that were read and not passed on. One goroutine owns it.
// An empty window owns no memory: that is what makes idle connections cheap.
type window struct {
	buffers *buffers
	pooled  *[]byte
	buffer  []byte
	r, w    int
	held    int64 // units of the budget
}

// bytes is what is there. It is valid until the next call of consume, room or hold.
func (w *window) bytes() []byte { return w.buffer[w.r:w.w] }

func (w *window) len() int { return w.w - w.r }

// consume drops the first n bytes.
func (w *window) consume(n int) {
	w.r += n
	if w.r == w.w {
		w.r, w.w = 0, 0
		if w.held > 0 {
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

// hold changes to a buffer of exactly need bytes; it waits for the budget. Exactly, so that the
// held memory goes back when the frame is consumed and not a byte later.
func (w *window) hold(ctx context.Context, need int) error {
	units := int64(need)
	if units > w.buffers.budgetBytes {
		return fmt.Errorf("%w: %d of %d bytes", errOverBudget, units, w.buffers.budgetBytes)
	}
	if err := w.buffers.budget.Acquire(ctx, units); err != nil {
		return err
	}
	buffer := make([]byte, need)
	n := copy(buffer, w.bytes())
	w.release()
	w.buffer, w.r, w.w, w.held = buffer, 0, n, units
	w.buffers.held.Add(units)
	return nil
}

// release gives the memory back and forgets what is there.
func (w *window) release() {
	if w.pooled != nil {
		w.buffers.pool.Put(w.pooled)
	}
	if w.held > 0 {
		w.buffers.held.Add(-w.held)
		w.buffers.budget.Release(w.held)
	}
	w.pooled, w.buffer, w.r, w.w, w.held = nil, nil, 0, 0, 0
}

// rest gives the memory of an empty window back while nothing is there to read.
func (w *window) rest() {
	if w.r == w.w && w.buffer != nil {
		w.release()
	}
}
