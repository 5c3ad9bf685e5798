package events

import (
	"context"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

const (
	// partitionInterval is how often the partitions of the coming days are made.
	partitionInterval = time.Hour
	// trimInterval is how often the log is trimmed.
	trimInterval = 30 * time.Second
)

// Module returns the parts of the process that events provide, except their operations.
func (s *Store) Module() module.Module {
	partitions, log := NewPartitions(s.db), NewLogStore(s.db)
	ensure := func(ctx context.Context) error { return partitions.Ensure(ctx, s.clock.Now()) }
	return module.Module{
		Name: "webhooks/events",
		Tables: []module.Table{
			{Name: "webhook_events", Outlives: "users cannot delete events; retention does"},
			{Name: "webhook_event_payloads"},
			{Name: "webhook_event_keys"},
			{Name: "webhook_event_log", Outlives: "readers of the stream need it for an hour at most"},
			{Name: "webhook_payload_horizons", Outlives: "they describe events"},
		},
		Services: []module.Service{{Name: "event-partitions", Start: ensure}},
		Jobs: []jobs.Periodic{
			{Name: "make-partitions", Run: jobs.Every(partitionInterval, ensure),
				Failure: "cannot make the coming days' partitions; their payloads go to the default one"},
			{Name: "trim-event-log", Part: role.Working, Failure: "cannot trim the log of events", Run: jobs.Every(trimInterval,
				func(ctx context.Context) error { return log.Trim(ctx, s.clock.Now()) })},
		},
	}
}
