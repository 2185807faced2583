package app

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
)

func TestPartsStopInReverse(t *testing.T) {
	var mu sync.Mutex
	var order []string
	started := make(chan struct{}, 3)
	parts := make([]part, 3)
	for i, name := range []string{"a", "b", "c"} {
		parts[i] = part{name, func(ctx context.Context) error {
			started <- struct{}{}
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
			return nil
		}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for range parts {
			<-started
		}
		cancel()
	}()
	if err := runParts(ctx, parts); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "cba" {
		t.Error(got)
	}
}

func TestOnePartThatFailsEndsAll(t *testing.T) {
	broken := errors.New("broken")
	for _, result := range []error{broken, nil} {
		others := false
		err := runParts(t.Context(), []part{
			{"waits", func(ctx context.Context) error { <-ctx.Done(); others = true; return nil }},
			{"fails", func(context.Context) error { return result }},
		})
		if err == nil || !others || result != nil && !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "fails: ") {
			t.Errorf("%v, others ended: %v", err, others)
		}
	}
}
