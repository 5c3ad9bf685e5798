package deliveries

import (
	"context"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// measureInterval is how often the queue is measured.
const measureInterval = 5 * time.Second

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
			Part:  role.Working,
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
			Name: "delivery-fanouts", Part: role.Working, Start: s.fanouts.queue.Start, Drain: s.fanouts.queue.Drain,
			Stop: s.fanouts.queue.Stop,
		}},
		Jobs: []jobs.Periodic{{Name: "measure-deliveries", Run: jobs.Every(measureInterval, s.measure),
			Failure: "cannot measure the queue"}},
	}
}
