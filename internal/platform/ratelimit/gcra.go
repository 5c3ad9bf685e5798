package ratelimit

import "time"

// Limit is how many requests may pass: PerSecond in the long run, and Burst at once after a pause. The zero Limit is
// none.
type Limit struct {
	PerSecond, Burst int64
}

// What a limit may be at most.
const (
	MaxPerSecond = 100_000
	MaxBurst     = 1_000_000
)

// Off reports whether the limit is none.
func (l Limit) Off() bool { return l.PerSecond <= 0 }

// step is the time in nanoseconds in which one request comes free: the emission interval T.
func (l Limit) step() int64 { return int64(time.Second) / l.PerSecond }

// span is the time in nanoseconds in which an empty limit becomes full.
func (l Limit) span() int64 { return max(1, l.Burst) * l.step() }

// tat is the state of a limit: its theoretical arrival time, in nanoseconds since 1970, at which it is full again.
//
// This is the Generic Cell Rate Algorithm in its form of virtual scheduling (ITU-T I.371, annex A; ATM Forum Traffic
// Management Specification 4.1, section 4.4.2), with the tolerance τ = (burst-1)·T. It admits what a bucket of burst
// tokens does that fills at the rate, and needs one number for it.
type tat int64

// free is how many requests may pass now.
func (t tat) free(l Limit, now int64) int64 {
	return max(0, (now+l.span()-max(int64(t), now))/l.step())
}

// take lets up to n requests pass, and returns how many.
func (t *tat) take(l Limit, now, n int64) int64 {
	n = min(n, t.free(l, now))
	t.charge(l, now, n)
	return n
}

// charge counts n requests that have passed, whether or not they should have. What was passed too many is made up for;
// more than a whole limit of it is forgotten. A clock that lags behind another node's takes nothing back.
func (t *tat) charge(l Limit, now, n int64) {
	if n > 0 {
		*t = max(*t, tat(min(max(int64(*t), now)+n*l.step(), now+2*l.span())))
	}
}

// wait is how long it takes until a request may pass.
func (t tat) wait(l Limit, now int64) time.Duration {
	return time.Duration(max(0, max(int64(t), now)+l.step()-l.span()-now))
}

// reset is how long it takes until the limit is full.
func (t tat) reset(now int64) time.Duration { return time.Duration(max(0, int64(t)-now)) }
