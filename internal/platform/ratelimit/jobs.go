package ratelimit

import (
	"context"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/role"
)

// expireInterval is the time between two deletions of limits that are full again.
const expireInterval = 10 * time.Minute

// Jobs returns the periodic jobs of the limiter, in addition to Run.
func (l *Limiter) Jobs() []jobs.Periodic {
	return []jobs.Periodic{{Name: "expire-rate-limits", Part: role.Working,
		Failure: "cannot delete rate limits that are full again",
		Run:     jobs.Every(expireInterval, func(ctx context.Context) error { return l.Expire(ctx, l.opts.Clock.Now()) })}}
}
