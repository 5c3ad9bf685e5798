package retention

import (
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// Module returns the parts of the process that retention provides.
func (w *Worker) Module() module.Module {
	return module.Module{
		Name:    "webhooks/retention",
		Metrics: w.metrics.collectors(),
		Jobs: []jobs.Periodic{{Name: "remove-expired-events", Part: role.Working,
			Run:     jobs.Every(interval, w.removeExpired),
			Failure: "cannot remove everything that has expired; the next round continues"}},
	}
}
