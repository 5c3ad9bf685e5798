package replays

import (
	"context"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

const (
	// measureInterval is how often the gauges are refreshed.
	measureInterval = 5 * time.Second
	// expireInterval is how often old replays are deleted.
	expireInterval = 10 * time.Minute
)

// Module returns what bulk replays bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name: "webhooks/replays",
		Tables: []module.Table{
			{Name: "webhook_replays", Outlives: "without subscriptions replays end, and they expire"},
		},
		Metrics: s.metrics.collectors(), ShiftTimes: s.queue.ShiftTimes,
		Services: []module.Service{
			{Name: "replay-worker", Part: role.Working, Start: s.queue.Start, Drain: s.queue.Drain, Stop: s.queue.Stop},
		},
		Jobs: []jobs.Periodic{
			{Name: "measure-replays", Part: role.Working, Run: jobs.Every(measureInterval, s.measure),
				Failure: "cannot count replays"},
			{Name: "expire-replays", Part: role.Working, Failure: "cannot delete old replays", Run: jobs.Every(expireInterval,
				func(ctx context.Context) error { return s.expire(ctx, s.cfg.Clock.Now()) })},
		},
	}
}
