package app

import (
	"context"
	"log/slog"
	"time"

	"sallyport/internal/platform/jobs"
)

// workOnReplays starts the worker of bulk replays and what measures them.
func (a *App) workOnReplays(ctx context.Context) {
	a.loops.Go(func() { jobs.Loop(ctx, a.clock, a.replays.Wake(), a.replays.Work) })
	a.loops.Go(func() { jobs.Loop(ctx, a.clock, nil, a.measureReplays) })
}

// measureInterval is how often the gauges of replays are refreshed.
const measureInterval = 5 * time.Second

func (a *App) measureReplays(ctx context.Context) time.Duration {
	if err := a.replays.Measure(ctx); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "replays could not be counted", slog.String("error", err.Error()))
	}
	return measureInterval
}

func (a *App) expireReplays(ctx context.Context) {
	if err := a.replays.Expire(ctx, a.clock.Now()); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "old replays could not be deleted", slog.String("error", err.Error()))
	}
}

// releaseReplays lets other nodes go on with this one's jobs.
func (a *App) releaseReplays(ctx context.Context) {
	if err := a.replays.Release(ctx); err != nil {
		a.log.ErrorContext(ctx, "replays could not be given up; their leases end by themselves",
			slog.String("error", err.Error()))
	}
}
