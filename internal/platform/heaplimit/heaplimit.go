// Package heaplimit keeps the soft limit of the Go heap while large things come and go. The limit is chosen for the
// work that a process always has. With something large in memory that is not garbage, the collector would run all the
// time in the room that is left; the limit is therefore raised by what such things take.
package heaplimit

import (
	"runtime/debug"
	"sync"
)

// Limit is the limit of a process. A nil one changes nothing: the operator has set the limit.
type Limit struct {
	set func(bytes int64)

	mu    sync.Mutex
	bytes int64
}

// New sets the limit and returns it.
func New(bytes int64) *Limit {
	return newLimit(bytes, func(bytes int64) { debug.SetMemoryLimit(bytes) })
}

func newLimit(bytes int64, set func(bytes int64)) *Limit {
	set(bytes)
	return &Limit{set: set, bytes: bytes}
}

// Add raises the limit by the size of something that stays in memory, and lowers it by that of something that is
// dropped, which is negative.
func (l *Limit) Add(bytes int64) {
	if l == nil || bytes == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes += bytes
	l.set(l.bytes)
}
