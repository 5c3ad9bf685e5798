package deliveries

import (
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// The rules of the breaker of a subscription. It opens when, of at least breakerAttempts attempts within breakerWindow,
// breakerPercent or more have failed, unless the last recoveredAfter of the process that judges have succeeded: the
// receiver is back, and nothing is to be held. While it is open, one delivery every probeInterval probes the receiver.
const (
	breakerWindow   = 5 * time.Minute
	breakerAttempts = 10
	breakerPercent  = 70
	recoveredAfter  = 2
	probeInterval   = 30 * time.Second
	// failingFor is how long all attempts of a subscription fail until it is disabled.
	failingFor = failingDays * 24 * time.Hour
	// failingDays is the number of days of failingFor, each with a failed attempt at least.
	failingDays = 5
)

// disabledFailing is the reason why a subscription is disabled whose receiver fails for failingFor.
const disabledFailing = "Every attempt has failed for five days"

// breaker is the stored state of a subscription's breaker.
type breaker struct {
	subscriptionID string
	environment    id.Environment
	// opened is since when it is open; nil while it is closed.
	opened *time.Time
	// probe is the earliest time of the next probe.
	probe time.Time
	// failing is since when every attempt has failed, as far as was known when it opened.
	failing time.Time
	// since is when counting begins again: attempts that began before do not count.
	since time.Time
}

// attemptCounts counts attempts that have sent something, and those of them that failed.
type attemptCounts struct{ all, failed int64 }

// mostFail reports whether so many of the attempts have failed that the receiver seems to be down.
func (c attemptCounts) mostFail() bool { return c.failed > 0 && c.failed*100 >= c.all*breakerPercent }

// opens reports whether a breaker opens over the attempts.
func (c attemptCounts) opens() bool { return c.all >= breakerAttempts && c.mostFail() }

// recentSlot is the accuracy with which recent attempts are counted.
const recentSlot = 10 * time.Second

// recentAttempts counts the attempts of a subscription within breakerWindow.
type recentAttempts struct {
	slots [breakerWindow / recentSlot]attemptCounts
	// last is the number of the latest slot, counted from the epoch.
	last int64
}

// slotOf returns the number of the slot of a time.
func slotOf(at time.Time) int64 { return clock.Millis(at) / recentSlot.Milliseconds() }

// move makes the slot of a time the latest. Those that are too old are cleared.
func (r *recentAttempts) move(now time.Time) {
	n := slotOf(now)
	for i := max(r.last+1, n-int64(len(r.slots))+1); i <= n; i++ {
		r.slots[i%int64(len(r.slots))] = attemptCounts{}
	}
	r.last = max(r.last, n)
}

// add counts an attempt that has ended.
func (r *recentAttempts) add(now time.Time, failed bool) {
	r.move(now)
	slot := &r.slots[r.last%int64(len(r.slots))]
	slot.all++
	if failed {
		slot.failed++
	}
}

// sum returns the attempts within breakerWindow.
func (r *recentAttempts) sum(now time.Time) (c attemptCounts) {
	r.move(now)
	for _, slot := range r.slots {
		c.all += slot.all
		c.failed += slot.failed
	}
	return c
}

// countedFrom returns from which minute on the stored counts of attempts decide about a breaker: the minutes that are
// within breakerWindow, without any in which counting began again.
func countedFrom(now, since time.Time) time.Time {
	from := now.Add(-breakerWindow).Truncate(time.Minute).Add(time.Minute)
	if next := since.Truncate(time.Minute).Add(time.Minute); next.After(from) {
		return next
	}
	return from
}
