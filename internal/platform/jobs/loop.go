package jobs

import (
	"context"
	"time"

	"sallyport/internal/platform/clock"
)

// Wake is a signal that is kept until the loop next waits for it.
type Wake chan struct{}

// NewWake returns a Wake.
func NewWake() Wake { return make(Wake, 1) }

// Signal wakes the loop, now or when it next waits.
func (w Wake) Signal() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Loop calls fn immediately and then on every wake-up, or when the time that fn returned has passed, until ctx ends.
func Loop(ctx context.Context, c clock.Clock, wake Wake, fn func(ctx context.Context) time.Duration) {
	for ctx.Err() == nil {
		t := c.NewTimer(fn(ctx))
		select {
		case <-ctx.Done():
		case <-wake:
		case <-t.C():
		}
		t.Stop()
	}
}
