package connections

import (
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

// matchInterval is how often the last match of each secret is stored, as far as it is due.
const matchInterval = 5 * time.Second

// Module returns what connections bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name: "providers/connections",
		Tables: []module.Table{
			{Name: "connections", Contents: "connections"},
			{Name: "webhook_aliases", Outlives: "without connections only released aliases are left"},
			{Name: "connection_secrets"},
			{Name: "webhook_enrolments"},
		},
		Sealed:   SealedColumns(),
		Caches:   []module.Cache{{Name: "connections", Refresh: s.Refresh}},
		Contents: []module.Content{{Name: "connections", Held: holdsConnections}},
		Jobs: []jobs.Periodic{{Name: "store-secret-matches", Run: jobs.Every(matchInterval, s.StoreMatches),
			Last: s.StoreMatches, Failure: "cannot store the last matches of webhook secrets"}},
	}
}
