package testenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// cacheDir is testenv/.cache of the module that the working directory is in, made when missing.
func cacheDir() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the module root: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", errors.New("find the module root: no go.mod above the working directory")
		}
		directory = parent
	}
	cache := filepath.Join(directory, "testenv", ".cache")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the test cache: %w", err)
	}
	return cache, nil
}

// cached returns the folder testenv/.cache/name, calling fill to make it first when it is not
// there. go test runs packages side by side in processes of their own, so that a lock on a file
// lets one fill while the others wait. A file written last marks the folder complete; a fill
// that failed or was killed is thrown away by the next caller.
func cached(ctx context.Context, name string, fill func(ctx context.Context, folder string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, name)
	complete := filepath.Join(folder, ".complete")
	if exists(complete) {
		return folder, nil
	}
	unlock, err := lockFile(ctx, folder+".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(complete) {
		return folder, nil
	}
	if err := os.RemoveAll(folder); err != nil {
		return "", fmt.Errorf("clear a half-filled %s: %w", name, err)
	}
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", name, err)
	}
	if err := fill(ctx, folder); err != nil {
		return "", fmt.Errorf("fill the cache %s: %w", name, err)
	}
	if err := os.WriteFile(complete, nil, 0o644); err != nil {
		return "", fmt.Errorf("mark %s complete: %w", name, err)
	}
	return folder, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// lockFile takes an exclusive lock that the kernel drops with the process. It polls: a blocking
// flock could not be given up when ctx ends.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			file.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("wait for lock %s: %w", path, ctx.Err())
		case <-ticker.C:
		}
	}
}
