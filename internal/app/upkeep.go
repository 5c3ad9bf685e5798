package app

import (
	"context"
	"log/slog"
	"time"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/ratelimit"
)

// expireKeysAndLimits removes idempotency keys whose time is over, and rate limits that are full again.
func (a *App) expireKeysAndLimits(ctx context.Context) {
	if err := a.idempotency.Expire(ctx, a.clock.Now()); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "old idempotency keys could not be deleted", slog.String("error", err.Error()))
	}
	if err := a.limiter.Expire(ctx, a.clock.Now()); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "old rate limits could not be deleted", slog.String("error", err.Error()))
	}
}

// newLimiter makes what counts requests, for all nodes together.
func (a *App) newLimiter(node string) (*ratelimit.Limiter, error) {
	return ratelimit.New(ratelimit.Options{DB: a.store.DB, Clock: a.clock, Logger: a.log, Node: node,
		Refused: func(k ratelimit.Kind) {
			a.metrics.RateLimited.WithLabelValues(string(k)).Inc()
		}, Failed: a.metrics.RateLeaseFailures.Inc})
}

// limits are the limits of requests as they are configured.
func (a *App) limits() httpapi.Limits {
	limit := func(perSecond, burst int) ratelimit.Limit {
		return ratelimit.Limit{PerSecond: int64(perSecond), Burst: int64(burst)}
	}
	return httpapi.Limits{Limiter: a.limiter, Key: limit(a.cfg.RateLimitKeyPerSecond, a.cfg.RateLimitKeyBurst),
		User: limit(a.cfg.RateLimitUserPerSecond, a.cfg.RateLimitUserBurst), Address: limit(a.cfg.RateLimitAddressPerSecond,
			a.cfg.RateLimitAddressBurst)}
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
