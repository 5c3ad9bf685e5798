//go:build linux

package soak

import (
	"bufio"
	"fmt"
	"io"
	"sync/atomic"
	"time"
	"unsafe"

	"sallyport/internal/platform/clock"
)

// steppedClock is the system's clock whose wall time can be stepped, as an operator or a time service steps that of a
// machine: the monotonic part of its readings continues.
type steppedClock struct {
	clock.Clock
	seconds atomic.Int64
}

func newSteppedClock(seconds int64) *steppedClock {
	c := &steppedClock{Clock: clock.System()}
	c.seconds.Store(seconds)
	return c
}

// Now returns the system's time with the wall part stepped.
func (c *steppedClock) Now() time.Time { return stepWall(c.Clock.Now(), c.seconds.Load()) }

// wallSecond is one second in the first word of a time.Time that has a monotonic reading: a flag, 33 bits of seconds
// and 30 bits of nanoseconds.
const wallSecond = 1 << 30

// stepWall moves the wall part of a reading of the system's clock, and only that: Add moves both.
func stepWall(t time.Time, seconds int64) time.Time {
	//nolint:gosec // no exported function moves one part alone; TestSteppedClock notices another layout
	*(*uint64)(unsafe.Pointer(&t)) += uint64(seconds) * wallSecond
	return t
}

// follow sets the step to each number that is read, until the end of the input.
func (c *steppedClock) follow(input io.Reader) {
	for lines := bufio.NewScanner(input); lines.Scan(); {
		var seconds int64
		if _, err := fmt.Sscan(lines.Text(), &seconds); err == nil {
			c.seconds.Store(seconds)
		}
	}
}
