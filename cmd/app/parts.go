package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A part is a piece of the program that runs until its context ends.
type part struct {
	name string
	run  func(context.Context) error
}

// runParts runs all parts until ctx ends or one of them ends, then stops them one after the other, the last first: each
// may use the ones before it until it has ended. It returns the first error.
func runParts(ctx context.Context, parts []part) error {
	type running struct {
		cancel context.CancelFunc
		ended  chan struct{}
	}
	var all []running
	var mu sync.Mutex
	var first error
	someEnded := make(chan struct{}, len(parts))
	for _, p := range parts {
		partCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		r := running{cancel: cancel, ended: make(chan struct{})}
		all = append(all, r)
		go func() {
			defer close(r.ended)
			err := p.run(partCtx)
			mu.Lock()
			if err == nil && partCtx.Err() == nil {
				err = errors.New("ended by itself")
			}
			if err != nil && first == nil {
				first = fmt.Errorf("%s: %w", p.name, err)
			}
			mu.Unlock()
			someEnded <- struct{}{}
		}()
	}
	select {
	case <-ctx.Done():
	case <-someEnded:
	}
	for i := len(all) - 1; i >= 0; i-- {
		all[i].cancel()
		<-all[i].ended
	}
	return first
}
