package mails

import (
	"context"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

// Module returns what the queue of mails brings to the process.
func (s *Service) Module() module.Module {
	return module.Module{
		Name:    "identity/mails",
		Sealed:  SealedColumns(),
		Metrics: s.metrics.collectors(),
		Jobs: []jobs.Periodic{{Name: "send-mails", Failure: "cannot send mails",
			Run: func(ctx context.Context) (time.Duration, error) { return s.Work(ctx), nil }}},
	}
}
