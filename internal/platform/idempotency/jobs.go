package idempotency

import (
	"context"
	"time"

	"sallyport/internal/platform/jobs"
)

// expireInterval is how often expired keys are deleted.
const expireInterval = 10 * time.Minute

// Jobs returns the periodic work of the store.
func (s *Store) Jobs() []jobs.Periodic {
	return []jobs.Periodic{{Name: "expire-idempotency-keys", Failure: "cannot delete expired idempotency keys",
		Run: jobs.Every(expireInterval, func(ctx context.Context) error { return s.Expire(ctx, s.clock.Now()) })}}
}
