// Package clock is the only source of time for rules and workers, so that tests can drive schedules without sleeping.
package clock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Clock returns the time and creates timers. Implementations are safe for concurrent use.
type Clock interface {
	// Now returns the current time.
	Now() time.Time
	// NewTimer returns a timer that fires once after d. If d is not positive, it fires immediately.
	NewTimer(d time.Duration) Timer
}

// Timer is a one-shot timer of a Clock.
type Timer interface {
	// C delivers the time of firing once. It has a buffer of one, so an unread firing blocks nothing.
	C() <-chan time.Time
	// Stop stops the timer and reports whether it had not fired.
	Stop() bool
}

// System returns the clock of the operating system.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time { return t.t.C }
func (t systemTimer) Stop() bool          { return t.t.Stop() }

// Millis returns t in Unix milliseconds, in which times are stored.
func Millis(t time.Time) int64 { return t.UnixMilli() }

// FromMillis is the inverse of Millis; the result is in UTC.
func FromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// WireLayout is the form of times in the API, in webhooks and in the audit trail: RFC 3339 in UTC with exactly three
// decimals, so that equal times have equal texts and texts sort by time.
const WireLayout = "2006-01-02T15:04:05.000Z"

// Wire returns t in the form of WireLayout, truncated to the millisecond.
func Wire(t time.Time) string { return t.UTC().Format(WireLayout) }

// Manual is a clock for tests that changes only by Advance.
type Manual struct {
	mu     sync.Mutex
	now    time.Time
	timers map[*manualTimer]struct{}
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
		if t.at.Sub(m.now) <= d {
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

// NewTimer returns a timer that fires once Advance reaches its time.
func (m *Manual) NewTimer(d time.Duration) Timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := &manualTimer{m: m, at: m.now.Add(d), c: make(chan time.Time, 1)}
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
	m.now = m.now.Add(d)
	for t := range m.timers {
		if !t.at.After(m.now) {
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
	at time.Time
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

// Shifted is a clock with an offset from another one. Several nodes follow the clock of a database server by it. Its
// timers are those of the base clock.
type Shifted struct {
	base   Clock
	offset atomic.Int64
}

// NewShifted returns a Shifted with no offset yet.
func NewShifted(base Clock) *Shifted { return &Shifted{base: base} }

// Now returns the time of the base clock plus the offset.
func (s *Shifted) Now() time.Time { return s.base.Now().Add(time.Duration(s.offset.Load())) }

// NewTimer returns a timer of the base clock.
func (s *Shifted) NewTimer(d time.Duration) Timer { return s.base.NewTimer(d) }

// Offset returns the offset from the base clock.
func (s *Shifted) Offset() time.Duration { return time.Duration(s.offset.Load()) }

// Set sets the offset from the base clock.
func (s *Shifted) Set(offset time.Duration) { s.offset.Store(int64(offset)) }
