package connecting

import (
	"github.com/prometheus/client_golang/prometheus"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// Module returns what links bring to the process, without their pages.
func (s *Service) Module() module.Module {
	return module.Module{
		Name: "providers/connecting",
		Tables: []module.Table{
			{Name: linkTable, Outlives: "they belong to connections, which are counted"},
			{Name: flowTable, Outlives: "they belong to connections, which are counted"},
		},
		Sealed: sealedColumns(),
		Jobs: []jobs.Periodic{{Name: "expire-connect-links", Part: role.Working,
			Run:     jobs.Every(cleanInterval, s.clean),
			Failure: "cannot remove old connect links"}},
		Metrics: []prometheus.Collector{s.metrics.links},
	}
}
