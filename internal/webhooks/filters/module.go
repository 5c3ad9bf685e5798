package filters

import (
	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/module"
)

// Module returns the parts of the process that filters provide.
func (e *Evaluations) Module() module.Module {
	return module.Module{Name: "webhooks/filters", Metrics: []prometheus.Collector{e.byOutcome}}
}
