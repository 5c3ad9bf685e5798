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
			{Name: "delivery_fanouts", Outlives: "their events are not deleted before they end"},
			{Name: "delivery_fanout_parts", Outlives: "their events are not deleted before they end"},
			{Name: "delivery_attempts", Outlives: "retention deletes them with their events"},
			{Name: "delivery_stats", Outlives: "retention deletes them with their events"},
			{Name: "delivery_breakers", Outlives: "the deletion of their subscriptions removes them"},
		},
		Caches: []module.Cache{{Name: "expunged payloads", Refresh: s.refreshExpunged, Drop: s.epochs.forget},
			// A breaker that is out of date delays deliveries or attempts one too many; it permits nothing.
			{Name: "breakers", Refresh: s.breakers.refresh, Drop: func() {}}},
		ShiftTimes: s.shiftTimes,
		Metrics:    s.metrics.collectors(),
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
		}, {
			Name: "delivery-fanouts", Start: s.fanouts.queue.Start, Drain: s.fanouts.queue.Drain, Stop: s.fanouts.queue.Stop,
		}},
	}
}
