package rejections

import (
	"context"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

const (
	// storeInterval is how often the counts of suppressed rejections are stored; other rejections are stored immediately.
	storeInterval = time.Second
	// expireInterval is how often expired rejections are deleted.
	expireInterval = 10 * time.Minute
)

// Module returns what rejections bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name:   "webhooks/rejections",
		Tables: []module.Table{{Name: "webhook_rejections", Outlives: "they expire"}},
		Jobs: []jobs.Periodic{
			{Name: "store-rejections", Part: role.Serving, Wake: s.wake, Run: jobs.Every(storeInterval, s.Flush), Last: s.Flush,
				Failure: "cannot store rejected requests", Warn: true},
			{Name: "expire-rejections", Part: role.Working,
				Failure: "cannot delete expired rejections", Run: jobs.Every(expireInterval,
					func(ctx context.Context) error { return s.Expire(ctx, s.clock.Now()) })},
		},
	}
}
