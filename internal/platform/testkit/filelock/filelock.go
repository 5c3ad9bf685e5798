// Package filelock locks files between processes. The operating system releases a lock when the file is closed, at the
// latest when the process ends, even if it is killed.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Mode says who else may hold a lock.
type Mode int

const (
	// Exclusive locks are held by one process.
	Exclusive Mode = iota
	// Shared locks are held by any number of processes, while no process holds an exclusive one.
	Shared
)

// ErrLocked says that another process holds the lock.
var ErrLocked = errors.New("another process holds the lock")

// retry is how often Wait asks again.
const retry = 20 * time.Millisecond

// Try opens a file, which it creates if need be, and locks it. The error is ErrLocked where others hold the lock.
func Try(path string, mode Mode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock file: %w", err)
	}
	if err := lock(f, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// Wait locks a file as soon as others permit it.
func Wait(ctx context.Context, path string, mode Mode) (*os.File, error) {
	again := time.NewTicker(retry)
	defer again.Stop()
	for {
		f, err := Try(path, mode)
		if !errors.Is(err, ErrLocked) {
			return f, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", path, ctx.Err())
		}
	}
}
