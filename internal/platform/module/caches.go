package module

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
)

// refreshInterval bounds, with the time that a refresh takes, how long a change that another process made goes
// unnoticed.
const refreshInterval = time.Second

// follower keeps one cache up to date. Each cache has its own, so that one that is slow delays no other.
type follower struct {
	Cache
	clock clock.Clock
	log   *slog.Logger

	mu sync.Mutex
	// known is when the last refresh that succeeded began: the cache has every change up to then. dropped says that the
	// cache was dropped since.
	known   time.Time
	dropped bool
}

// follow runs a follower for each of the modules' caches in goroutines of its own, until ctx ends.
func follow(ctx context.Context, modules []Module, clk clock.Clock, log *slog.Logger, run func(func())) {
	for _, m := range modules {
		for _, c := range m.Caches {
			f := &follower{Cache: c, clock: clk, log: log, known: clk.Now()}
			run(func() { jobs.Loop(ctx, clk, nil, f.refresh) })
			run(func() { jobs.Loop(ctx, clk, nil, f.watch) })
		}
	}
}

// refresh brings the cache up to date.
func (f *follower) refresh(ctx context.Context) time.Duration {
	began := f.clock.Now()
	if err := f.Refresh(ctx); err != nil {
		if ctx.Err() == nil {
			f.log.LogAttrs(ctx, slog.LevelError, "cannot compare cached data with the database",
				slog.String("job", "refresh-caches"), slog.String("error", fmt.Sprintf("%s: %v", f.Name, err)))
		}
		return refreshInterval
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = began
	return refreshInterval
}

// watch drops the cache if it has not been brought up to date for db.MaxUnseen, again and again until it is: what is
// read after that is as new as its reading. It does not depend on the refresh, which may hang.
func (f *follower) watch(ctx context.Context) time.Duration {
	f.mu.Lock()
	unseen := f.clock.Now().Sub(f.known)
	stale, first := unseen >= db.MaxUnseen, !f.dropped
	f.dropped = stale
	f.mu.Unlock()
	if !stale {
		return min(refreshInterval, db.MaxUnseen-unseen)
	}
	if first {
		f.log.LogAttrs(ctx, slog.LevelWarn, "dropped cached data, because changes by other nodes cannot be read",
			slog.String("cache", f.Name), slog.Float64("seconds", unseen.Seconds()))
	}
	f.Drop()
	return refreshInterval
}
