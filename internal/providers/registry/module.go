package registry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

// refreshInterval is how often the folder is looked at.
const refreshInterval = time.Second

// Module returns what definitions bring to the process. users knows which of them are in use; changed is called after
// others have come into force.
func (l *Live) Module(users Connections, changed ...func()) module.Module {
	m := module.Module{Name: "providers/registry", Metrics: []prometheus.Collector{l.refused}}
	if l.folder == nil {
		return m
	}
	// What goes wrong is logged by Refresh, once and not each second.
	m.Jobs = []jobs.Periodic{{Name: "refresh-definitions", Run: func(ctx context.Context) (time.Duration, error) {
		if l.Refresh(ctx, users) {
			for _, hook := range changed {
				hook()
			}
		}
		return refreshInterval, nil
	}}}
	return m
}
