package identity

import (
	"context"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

const (
	// keyUseInterval is how often the use of API keys is stored, as far as it is due.
	keyUseInterval = 5 * time.Second
	// expireInterval is how often usage of API keys that is too old is deleted.
	expireInterval = 10 * time.Minute
)

// Module returns what the team, its people and its keys bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name:   "identity",
		Sealed: SealedColumns(),
		Caches: []module.Cache{{Name: "settings of environments", Refresh: s.RefreshSettings}},
		Jobs: []jobs.Periodic{
			{
				Name: "store-key-use", Failure: "cannot store the use of API keys", Warn: true,
				Run:  jobs.Every(keyUseInterval, func(ctx context.Context) error { return s.StoreKeyUse(ctx, false) }),
				Last: func(ctx context.Context) error { return s.StoreKeyUse(ctx, true) },
			},
			{Name: "expire-key-usage", Run: jobs.Every(expireInterval, s.ExpireKeyUse),
				Failure: "cannot delete old usage of API keys"},
			{Name: "send-password-resets", Run: s.AnswerResets, Failure: "cannot respond to requests to reset passwords"},
		},
	}
}
