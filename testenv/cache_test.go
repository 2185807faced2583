package testenv

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// inModule makes the working directory a package of an empty module.
func inModule(t *testing.T) {
	t.Helper()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), []byte("module m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	directory := filepath.Join(root, "some", "package")
	if err := os.MkdirAll(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(directory)
}

func TestCachedFillsOnce(t *testing.T) {
	inModule(t)
	var mu sync.Mutex
	fills := 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			folder, err := cached(t.Context(), "thing", func(_ context.Context, folder string) error {
				mu.Lock()
				fills++
				mu.Unlock()
				return os.WriteFile(filepath.Join(folder, "content"), []byte("whole"), 0o644)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if content, err := os.ReadFile(filepath.Join(folder, "content")); err != nil || string(content) != "whole" {
				t.Errorf("found %q, %v", content, err)
			}
		})
	}
	all.Wait()
	if fills != 1 {
		t.Errorf("filled %d times", fills)
	}
}

func TestCachedFillsAgainAfterAFailure(t *testing.T) {
	inModule(t)
	broken := errors.New("broken")
	if _, err := cached(t.Context(), "thing", func(_ context.Context, folder string) error {
		return errors.Join(os.WriteFile(filepath.Join(folder, "leftover"), nil, 0o644), broken)
	}); !errors.Is(err, broken) {
		t.Fatalf("a failing fill: %v", err)
	}
	folder, err := cached(t.Context(), "thing", func(context.Context, string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if exists(filepath.Join(folder, "leftover")) {
		t.Error("the failed fill left something behind")
	}
}

func TestLockFileGivesUpWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := lockFile(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a held lock: %v", err)
	}
	unlock()
	again, err := lockFile(t.Context(), path)
	if err != nil {
		t.Fatalf("a released lock: %v", err)
	}
	again()
}
