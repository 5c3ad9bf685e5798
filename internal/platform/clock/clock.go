// Package clock is the only source of time for rules and workers, so that tests can drive schedules without sleeping.
package clock

import "time"

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

// After returns now, or the millisecond after an earlier time where now is not later: of times that a row is stored
// with, each is later than the one before, so that they can serve as versions.
func After(now, before time.Time) time.Time {
	return FromMillis(max(Millis(now), Millis(before)+1))
}

// FromMillis is the inverse of Millis; the result is in UTC.
func FromMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// WireLayout is the form of times in the API, in webhooks and in the audit trail: RFC 3339 in UTC with exactly three
// decimals, so that equal times have equal texts and texts sort by time.
const WireLayout = "2006-01-02T15:04:05.000Z"

// Wire returns t in the form of WireLayout, truncated to the millisecond.
func Wire(t time.Time) string { return t.UTC().Format(WireLayout) }
