package app

import (
	"context"
	"log/slog"
	"time"
)

// expireIdempotencyKeys removes the idempotency keys whose time is over.
func (a *App) expireIdempotencyKeys(ctx context.Context) {
	if err := a.idempotency.Expire(ctx, a.clock.Now()); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "old idempotency keys could not be deleted", slog.String("error", err.Error()))
	}
}

// SQLite's write-ahead log is copied often while it grows fast, and seldom otherwise.
const (
	checkpointBusy = 250 * time.Millisecond
	checkpointIdle = 2 * time.Second
)

func (a *App) checkpoint(ctx context.Context) time.Duration {
	long, err := a.store.DB.Checkpoint(ctx)
	if err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "the database could not be checkpointed", slog.String("error", err.Error()))
	}
	if long {
		return checkpointBusy
	}
	return checkpointIdle
}
