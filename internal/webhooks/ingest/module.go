package ingest

import (
	"context"

	"sallyport/internal/platform/module"
)

// Module returns what ingest brings to the process, without its operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name: "webhooks/ingest",
		Services: []module.Service{{
			Name:  "event-commits",
			Start: func(context.Context) error { return s.startCommits() },
			Stop: func(context.Context) error {
				s.stopCommits()
				return nil
			},
		}},
	}
}
