package app

import (
	"context"
	"log/slog"
	"time"
)

// keyUseInterval is how often what is due of the use of API keys is stored.
const keyUseInterval = 5 * time.Second

func (a *App) storeKeyUse(ctx context.Context) time.Duration {
	if err := a.store.Identity.StoreKeyUse(ctx, false); err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "the use of API keys could not be stored", slog.String("error", err.Error()))
	}
	return keyUseInterval
}

// storeLastKeyUse stores what is left when the process ends.
func (a *App) storeLastKeyUse(ctx context.Context) {
	if err := a.store.Identity.StoreKeyUse(ctx, true); err != nil {
		a.log.WarnContext(ctx, "the last use of API keys could not be stored", slog.String("error", err.Error()))
	}
}

func (a *App) expireKeyUse(ctx context.Context) {
	if err := a.store.Identity.ExpireKeyUse(ctx); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "old usage of API keys could not be deleted", slog.String("error", err.Error()))
	}
}
