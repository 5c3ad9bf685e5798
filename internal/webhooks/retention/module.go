package retention

import (
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

// Module returns what retention brings to the process.
func (w *Worker) Module() module.Module {
	return module.Module{
		Name:    "webhooks/retention",
		Metrics: w.metrics.collectors(),
		Jobs: []jobs.Periodic{{Name: "remove-expired-events", Run: jobs.Every(interval, w.removeExpired),
			Failure: "cannot remove all that is due; it is tried again"}},
	}
}
