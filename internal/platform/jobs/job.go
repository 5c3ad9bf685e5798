package jobs

import (
	"context"
	"log/slog"
	"time"

	"sallyport/internal/platform/clock"
)

// Job is periodic work of a capability: one round at the start of the process, and further ones on a wake-up or after a
// while, until the process stops.
type Job struct {
	// Name distinguishes the job in logs, such as "store-rejections". No two jobs of a process have the same.
	Name string
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

// Every makes a round of Job.Run from a function that is called at a fixed interval.
func Every(interval time.Duration,
	round func(ctx context.Context) error) func(ctx context.Context) (time.Duration, error) {
	return func(ctx context.Context) (time.Duration, error) { return interval, round(ctx) }
}

// Loop runs rounds until ctx ends and logs those that fail. A round that the end of ctx interrupts has not failed.
func (j *Job) Loop(ctx context.Context, c clock.Clock, log *slog.Logger) {
	Loop(ctx, c, j.Wake, func(ctx context.Context) time.Duration {
		wait, err := j.Run(ctx)
		if err != nil && ctx.Err() == nil {
			j.logFailure(ctx, log, j.Failure, err)
		}
		return wait
	})
}

// Finish runs Last and logs its failure. Loop must have returned.
func (j *Job) Finish(ctx context.Context, log *slog.Logger) {
	if j.Last == nil {
		return
	}
	if err := j.Last(ctx); err != nil {
		message := j.LastFailure
		if message == "" {
			message = j.Failure
		}
		j.logFailure(ctx, log, message, err)
	}
}

func (j *Job) logFailure(ctx context.Context, log *slog.Logger, message string, err error) {
	level := slog.LevelError
	if j.Warn {
		level = slog.LevelWarn
	}
	log.LogAttrs(ctx, level, message, slog.String("job", j.Name), slog.String("error", err.Error()))
}
