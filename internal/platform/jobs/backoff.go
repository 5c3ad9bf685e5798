package jobs

import (
	"math/rand/v2"
	"time"
)

// Backoff is a growing wait between attempts.
type Backoff struct {
	// First is the wait after the first failure. Each further one doubles it, up to Max.
	First, Max time.Duration
	// Jitter is the share by which a wait may stray either way, so that jobs which failed together do not return
	// together: 0.2 for a fifth.
	Jitter float64
}

// wait returns the wait after that many failures in a row, from 1. random is from 0 to 1.
func (b Backoff) wait(failures int64, random float64) time.Duration {
	d := b.First
	for n := int64(1); n < failures && d < b.Max; n++ {
		d *= 2
	}
	return Jitter(min(d, b.Max), b.Jitter, random)
}

// Jitter returns d made shorter or longer by up to the share given, as random goes from 0 to 1.
func Jitter(d time.Duration, share, random float64) time.Duration {
	return d + time.Duration((random*2-1)*share*float64(d))
}

// Random returns a number from 0 to 1 for jitter, which spreads load and protects nothing.
func Random() float64 { return rand.Float64() } //nolint:gosec // jitter needs no secrecy
