package connections

import (
	"context"
	"fmt"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
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
			{Name: "connection_health", Outlives: "its rows are parts of connections, which are counted"},
		},
		Sealed:   SealedColumns(),
		Caches:   []module.Cache{{Name: "connections", Refresh: db.InTime(s.Refresh), Drop: s.inbound.DropAll}},
		Contents: []module.Content{{Name: "connections", Held: holdsConnections}},
		Jobs: []jobs.Periodic{{Name: "store-secret-matches", Part: role.Serving,
			Run: jobs.Every(matchInterval, s.StoreMatches), Last: s.StoreMatches,
			Failure: "cannot store the last matches of webhook secrets"}},
	}
}

// CountOfConfig returns how many connections of an environment belong to a provider configuration.
func CountOfConfig(ctx context.Context, q db.Querier, env id.Environment, key string) (n int, err error) {
	err = q.QueryRowContext(ctx, `SELECT count(*) FROM connections WHERE environment_id = $1
		AND provider_config_key = $2`, string(env), key).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the connections of a provider configuration: %w", err)
	}
	return n, nil
}

// CountOfProvider counts the connections of a provider in an environment, with any provider configuration.
func CountOfProvider(ctx context.Context, q db.Querier, env id.Environment, slug string) (n int, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*) FROM connections WHERE environment_id = $1 AND provider = $2",
		string(env), slug).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count the connections of a provider: %w", err)
	}
	return n, nil
}

// holdsConnections reports whether an environment has any connection.
func holdsConnections(ctx context.Context, q db.Querier, env id.Environment) (held bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM connections WHERE environment_id = $1)", string(env)).
		Scan(&held)
	if err != nil {
		return false, fmt.Errorf("look for connections: %w", err)
	}
	return held, nil
}
