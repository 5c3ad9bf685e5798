package subscriptions

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

// forgetInterval is how often replaced signing secrets that no longer sign are removed.
const forgetInterval = 10 * time.Minute

// wantedInterval is how often indexes are read that transactions have missed.
const wantedInterval = time.Second

// Module returns the parts of the process that subscriptions provide, except their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name:     "webhooks/subscriptions",
		Tables:   []module.Table{{Name: "webhook_subscriptions", Contents: "subscriptions"}},
		Sealed:   SealedColumns(),
		Caches:   []module.Cache{{Name: "subscriptions", Refresh: s.Refresh, Drop: s.Forget}},
		Contents: []module.Content{{Name: "subscriptions", Held: hasSubscriptions}},
		Jobs: []jobs.Periodic{{Name: "forget-replaced-secrets", Part: role.Working,
			Run:     jobs.Every(forgetInterval, s.ForgetSecrets),
			Failure: "cannot remove replaced signing secrets"},
			{Name: "read-wanted-indexes", Run: jobs.Every(wantedInterval, s.readWanted),
				Failure: "cannot read the subscriptions that select own events"}},
	}
}

// hasSubscriptions reports whether an environment has a subscription that is not deleted.
func hasSubscriptions(ctx context.Context, q db.Querier, env id.Environment) (held bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM webhook_subscriptions
		WHERE environment_id = $1 AND deleted_ms IS NULL)`, string(env)).Scan(&held)
	if err != nil {
		return false, fmt.Errorf("look for subscriptions: %w", err)
	}
	return held, nil
}
