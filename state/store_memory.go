package state

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is a Store that forgets everything when it is dropped and always is the owner: for tests, and for whoever needs
// no durability. Calls to Do wait for each other.
type Memory struct {
	mu    sync.Mutex
	draft *draft
	view  atomic.Pointer[View]
	subscribers
}

// NewMemory returns an empty store, loaded and owner of generation 1.
func NewMemory() *Memory {
	m := &Memory{draft: newDraft()}
	m.draft.loaded = true
	m.draft.owner = ownerState{Owner: Owner{InstanceID: "memory", Generation: 1}}
	m.view.Store(m.draft.view())
	return m
}

func (m *Memory) View() *View       { return m.view.Load() }
func (m *Memory) Lease() bool       { return true }
func (m *Memory) Generation() int64 { return m.View().Owner().Generation }

func (m *Memory) Do(ctx context.Context, commands ...Command) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	records, err := m.draft.decideAll(commands, time.Now().UnixMilli())
	if err != nil {
		return err
	}
	if len(records) > 0 {
		m.view.Store(m.draft.view())
		m.notify()
	}
	return nil
}
