package deliveries

import (
	"context"

	"sallyport/internal/platform/module"
)

// Module returns what deliveries bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name: "webhooks/deliveries",
		Tables: []module.Table{
			{Name: "deliveries", Outlives: "retention deletes them with their events"},
			{Name: "delivery_attempts", Outlives: "retention deletes them with their events"},
			{Name: "delivery_stats", Outlives: "retention deletes them with their events"},
		},
		Metrics: s.metrics.collectors(),
		Services: []module.Service{{
			Name:  "delivery-workers",
			Start: s.start,
			Drain: func(context.Context) error {
				s.drain()
				return nil
			},
			Stop: func(ctx context.Context) error {
				s.stop(ctx)
				return nil
			},
		}},
	}
}
