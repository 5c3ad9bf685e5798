package clock

import (
	"context"
	"sync"
	"time"
)

// Manual is a clock for tests that changes only by Advance and Set.
type Manual struct {
	mu  sync.Mutex
	now time.Time
	// elapsed is the counter of its moments, and the time of its timers.
	elapsed time.Duration
	timers  map[*manualTimer]struct{}
	// started is signalled when a timer starts.
	started *sync.Cond
}

// NewManual returns a Manual clock that shows start.
func NewManual(start time.Time) *Manual {
	m := &Manual{now: start, timers: map[*manualTimer]struct{}{}}
	m.started = sync.NewCond(&m.mu)
	return m
}

// AwaitTimers returns when at least n timers run that fire within d, or with ctx's error when that ends first. So a
// test knows that the loops which it drives wait for their time again.
func (m *Manual) AwaitTimers(ctx context.Context, n int, d time.Duration) error {
	defer context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.started.Broadcast()
	})()
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.within(d) < n {
		if err := ctx.Err(); err != nil {
			return err
		}
		m.started.Wait()
	}
	return nil
}

// within counts the timers that fire within d.
func (m *Manual) within(d time.Duration) int {
	n := 0
	for t := range m.timers {
		if t.at-m.elapsed <= d {
			n++
		}
	}
	return n
}

// Now returns the present time of the clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Moment returns the present moment of the clock.
func (m *Manual) Moment() Moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Moment{wall: m.now, elapsed: m.elapsed}
}

// Set sets the time that the clock shows ahead by d, or back if d is negative. No time passes, so no timer fires.
func (m *Manual) Set(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

// NewTimer returns a timer that fires once Advance reaches its time.
func (m *Manual) NewTimer(d time.Duration) Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &manualTimer{m: m, at: m.elapsed + d, c: make(chan time.Time, 1)}
	if d <= 0 {
		t.c <- m.now
		return t
	}
	m.timers[t] = struct{}{}
	m.started.Broadcast()
	return t
}

// Advance moves the clock by d and fires the timers that are due.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now, m.elapsed = m.now.Add(d), m.elapsed+d
	for t := range m.timers {
		if t.at <= m.elapsed {
			delete(m.timers, t)
			t.c <- m.now
		}
	}
}

// Timers returns how many timers wait to fire. A process that has stopped has left none.
func (m *Manual) Timers() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.timers)
}

type manualTimer struct {
	m  *Manual
	at time.Duration
	c  chan time.Time
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

func (t *manualTimer) Stop() bool {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	_, running := t.m.timers[t]
	delete(t.m.timers, t)
	return running
}
