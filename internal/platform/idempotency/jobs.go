package idempotency

import (
	"context"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/role"
)

// expireInterval is how often expired keys are deleted.
const expireInterval = 10 * time.Minute

// Jobs returns the periodic work of the store.
func (s *Store) Jobs() []jobs.Periodic {
	return []jobs.Periodic{{Name: "expire-idempotency-keys", Part: role.Working,
		Failure: "cannot delete expired idempotency keys",
		Run:     jobs.Every(expireInterval, func(ctx context.Context) error { return s.Expire(ctx, s.clock.Now()) })}}
}
