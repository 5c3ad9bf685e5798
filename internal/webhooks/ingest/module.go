package ingest

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// Module returns what ingest brings to the process, without its operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name:    "webhooks/ingest",
		Metrics: []prometheus.Collector{s.requests},
		Jobs: []jobs.Periodic{{Name: "log-filters-not-evaluated", Part: role.Serving,
			Run:  jobs.Every(noteInterval, s.logNotEvaluated),
			Last: s.logNotEvaluated, Failure: "cannot log the filters that were not evaluated"}},
		Services: []module.Service{{
			Name:  "event-commits",
			Part:  role.Serving,
			Start: func(context.Context) error { return s.startCommits() },
			Stop: func(context.Context) error {
				s.stopCommits()
				return nil
			},
		}},
	}
}
