package imports

import (
	"context"
	"fmt"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

const (
	// measureInterval is how often the gauges are refreshed, and tidyInterval how often what is no longer needed is
	// deleted.
	measureInterval = 5 * time.Second
	tidyInterval    = time.Minute
)

// contents is what users call the rows.
const contents = "imports"

// Module returns what imports bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name: "providers/imports",
		Tables: []module.Table{{Name: tableName, Contents: contents},
			{Name: "catalog_import_parts", Outlives: "they are deleted with their import, which counts"}},
		Contents: []module.Content{{Name: contents, Held: holdsImports}},
		Caches: []module.Cache{{Name: "active imports", Refresh: s.cfg.Definitions.Refresh,
			Drop: s.cfg.Definitions.dropAll}},
		Metrics: s.metrics.collectors(), ShiftTimes: s.queue.ShiftTimes,
		Services: []module.Service{
			{Name: "imports", Part: role.Working, Start: s.queue.Start, Drain: s.queue.Drain, Stop: s.queue.Stop},
		},
		Jobs: []jobs.Periodic{
			{Name: "measure-imports", Part: role.Working, Run: jobs.Every(measureInterval, s.measure),
				Failure: "cannot count imports"},
			{Name: "tidy-imports", Part: role.Working, Run: jobs.Every(tidyInterval, s.tidy),
				Failure: "cannot delete what imports no longer need"},
		},
	}
}

// measure refreshes the gauge of unfinished imports.
func (s *Service) measure(ctx context.Context) error {
	n, err := countUnfinished(ctx, s.cfg.DB.Read())
	if err != nil {
		return fmt.Errorf("count unfinished imports: %w", err)
	}
	for _, status := range []Status{Queued, Running} {
		s.metrics.unfinished.WithLabelValues(string(status)).Set(float64(n[status]))
	}
	return nil
}
