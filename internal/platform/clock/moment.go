package clock

import "time"

// Moment is a moment as the two clocks of a machine show it: the wall clock, which can be set, and a counter, which
// cannot. The counter may stand still while the machine sleeps. Moments of one Clock can be compared; those of
// different processes cannot.
type Moment struct {
	wall    time.Time
	elapsed time.Duration
}

// origin is where the counter of the operating system's clock begins.
var origin = time.Now() //nolint:gochecknoglobals // a constant of the process

// MomentOf returns the present moment of a clock, to measure how much time passes from now on. A clock whose times have
// no monotonic reading has a method Moment, or its moments do not distinguish its two clocks.
func MomentOf(c Clock) Moment {
	if own, ok := c.(interface{ Moment() Moment }); ok {
		return own.Moment()
	}
	now := c.Now()
	return Moment{wall: now.Round(0), elapsed: now.Sub(origin)}
}

// IsUncertain reports whether a clock that several processes share may be behind until it is compared again. No lease
// begins then. A clock without a method IsUncertain never is.
func IsUncertain(c Clock) bool {
	own, ok := c.(interface{ IsUncertain() bool })
	return ok && own.IsUncertain()
}

// Wall returns what the wall clock showed.
func (m Moment) Wall() time.Time { return m.wall }

// Elapsed returns the time that has passed until a later moment, as the counter shows it: no setting of the wall clock
// changes it, and the sleep of the machine may be missing in it.
func (m Moment) Elapsed(later Moment) time.Duration { return later.elapsed - m.elapsed }

// AtMost returns the longest time that can have passed until a later moment. It counts the sleep of the machine. If the
// wall clock was set ahead meanwhile, it is longer than the time that has passed.
func (m Moment) AtMost(later Moment) time.Duration {
	return max(m.Elapsed(later), later.wall.Sub(m.wall))
}

// Jump returns by how much the wall clock has gone ahead of the counter until a later moment, because it was set or the
// machine slept. It is negative if the wall clock was set back.
func (m Moment) Jump(later Moment) time.Duration { return later.wall.Sub(m.wall) - m.Elapsed(later) }

// IsZero reports whether m is no moment.
func (m Moment) IsZero() bool { return m == Moment{} }
