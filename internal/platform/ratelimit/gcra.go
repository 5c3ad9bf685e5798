package ratelimit

import "time"

// Limit allows PerSecond requests in the long run, and Burst requests together after a pause. The zero Limit allows
// everything.
type Limit struct {
	PerSecond, Burst int64
	// Every is the time between two requests in the long run, in place of PerSecond; 0 if that applies.
	Every time.Duration
}

// The maxima of a limit.
const (
	MaxPerSecond = 100_000
	MaxBurst     = 1_000_000
)

// Off reports whether the limit allows everything.
func (l Limit) Off() bool { return l.PerSecond <= 0 && l.Every <= 0 }

// share returns the part of the limit that one of so many nodes applies alone.
func (l Limit) share(nodes int64) Limit {
	if l.Every > 0 {
		return Limit{Every: l.Every * time.Duration(nodes), Burst: max(1, l.Burst/nodes)}
	}
	return Limit{PerSecond: max(1, l.PerSecond/nodes), Burst: max(1, l.Burst/nodes)}
}

// step is the time in nanoseconds after which one more request may pass: the emission interval T.
func (l Limit) step() int64 {
	if l.Every > 0 {
		return int64(l.Every)
	}
	return int64(time.Second) / l.PerSecond
}

// span is the time in nanoseconds after which an exhausted limit is full.
func (l Limit) span() int64 { return max(1, l.Burst) * l.step() }

// tat is the state of a limit: its theoretical arrival time, in nanoseconds since 1970, at which it is full again.
//
// This is the Generic Cell Rate Algorithm in its form of virtual scheduling (ITU-T I.371, annex A; ATM Forum Traffic
// Management Specification 4.1, section 4.4.2), with the tolerance τ = (burst-1)·T. It admits the same requests as a
// bucket of burst tokens that fills at the rate, and needs only one number.
type tat int64

// free returns the number of requests that may pass now.
func (t tat) free(l Limit, now int64) int64 {
	return max(0, (now+l.span()-max(int64(t), now))/l.step())
}

// take lets up to n requests pass and returns their number.
func (t *tat) take(l Limit, now, n int64) int64 {
	n = min(n, t.free(l, now))
	t.charge(l, now, n)
	return n
}

// charge counts n requests that have passed, even if the limit did not allow them. The excess delays later requests, up
// to the time of one full limit. A clock that lags behind another node's refunds nothing.
func (t *tat) charge(l Limit, now, n int64) {
	if n > 0 {
		*t = max(*t, tat(min(max(int64(*t), now)+n*l.step(), now+2*l.span())))
	}
}

// wait returns the time until a request may pass.
func (t tat) wait(l Limit, now int64) time.Duration {
	return time.Duration(max(0, max(int64(t), now)+l.step()-l.span()-now))
}

// reset returns the time until the limit is full.
func (t tat) reset(now int64) time.Duration { return time.Duration(max(0, int64(t)-now)) }
