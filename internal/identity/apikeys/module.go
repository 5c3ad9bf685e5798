package apikeys

import (
	"context"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

const (
	// storeInterval is how often the use of API keys is stored, as far as it is due.
	storeInterval = 5 * time.Second
	// expireInterval is how often usage of API keys that is too old is deleted.
	expireInterval = 10 * time.Minute
)

// Module returns what API keys bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name: "identity/apikeys",
		Tables: []module.Table{
			{Name: "api_keys", Contents: "API keys"},
			{Name: "api_key_grants"},
			{Name: "api_key_usage"},
		},
		Contents: []module.Content{{Name: "API keys", Held: holdsKeys}},
		Jobs: []jobs.Periodic{
			{
				Name: "store-key-use", Part: role.Serving, Failure: "cannot store the use of API keys", Warn: true,
				Run:  jobs.Every(storeInterval, func(ctx context.Context) error { return s.StoreKeyUse(ctx, false) }),
				Last: func(ctx context.Context) error { return s.StoreKeyUse(ctx, true) },
			},
			{Name: "expire-key-usage", Part: role.Working, Run: jobs.Every(expireInterval, s.ExpireKeyUse),
				Failure: "cannot delete old usage of API keys"},
		},
	}
}

// holdsKeys reports whether an environment has any API key, revoked and expired keys included.
func holdsKeys(ctx context.Context, q db.Querier, env id.Environment) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, "SELECT 1 FROM api_keys WHERE environment_id = $1 LIMIT 1", env).Scan(&n)
	return db.Found("the environment's API keys", err)
}
