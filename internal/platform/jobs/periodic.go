package jobs

import (
	"context"
	"log/slog"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/role"
)

// Periodic is a periodic job of a capability: one round at the start of the process, and further ones on a wake-up or
// after a while, until the process stops.
type Periodic struct {
	// Name distinguishes the job in logs, such as "store-rejections". No two jobs of a process have the same.
	Name string
	// Part says which nodes run the job.
	Part role.Part
	// Run does one round and returns how long to wait before the next one, also with an error.
	Run func(ctx context.Context) (time.Duration, error)
	// Wake starts the next round early; nil leaves that to time alone.
	Wake Wake
	// Last runs once after the last round, for what the next round would have stored; nil means nothing is left then.
	Last func(ctx context.Context) error
	// Failure is the message under which a failed round is logged: "cannot delete expired rejections". LastFailure is that
	// of Last; empty means Failure.
	Failure, LastFailure string
	// Warn logs them as warnings instead of errors, because a later round makes up for a failed one.
	Warn bool
}

// Every makes a round of Periodic.Run from a function that is called at a fixed interval.
func Every(interval time.Duration,
	round func(ctx context.Context) error) func(ctx context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) { return interval, round(ctx) }
}

// Loop runs rounds until ctx ends and logs those that fail. A round that the end of ctx interrupts has not failed.
func (p *Periodic) Loop(ctx context.Context, c clock.Clock, log *slog.Logger) {
	Loop(ctx, c, p.Wake, func(ctx context.Context) time.Duration {
		wait, err := p.Run(ctx)
		if err != nil && ctx.Err() == nil {
			p.logFailure(ctx, log, p.Failure, err)
		}
		return wait
	})
}

// Finish runs Last and logs its failure. Loop must have returned.
func (p *Periodic) Finish(ctx context.Context, log *slog.Logger) {
	if p.Last == nil {
		return
	}
	if err := p.Last(ctx); err != nil {
		message := p.LastFailure
		if message == "" {
			message = p.Failure
		}
		p.logFailure(ctx, log, message, err)
	}
}

func (p *Periodic) logFailure(ctx context.Context, log *slog.Logger, message string, err error) {
	level := slog.LevelError
	if p.Warn {
		level = slog.LevelWarn
	}
	//nolint:sloglint // each job has a message of its own, which is a constant
	log.LogAttrs(ctx, level, message, slog.String("job", p.Name), slog.String("error", err.Error()))
}
