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

// Module returns the definitions' part of the process. users reports which of them are in use; changed is called after
// others have become active.
func (l *Live) Module(users Connections, changed ...func()) module.Module {
	m := module.Module{Name: "providers/registry", Metrics: []prometheus.Collector{l.refused}}
	if l.folder == nil {
		return m
	}
	// Refresh logs errors, once and not each second.
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
