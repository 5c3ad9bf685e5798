package deliveries

import (
	"context"
	"database/sql"
	"log/slog"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
)

const (
	// fanoutLease is how long a process that is gone keeps a fan-out.
	fanoutLease = 20 * time.Second
	// fanoutTurn is how long a fan-out keeps its place while those of other environments wait.
	fanoutTurn = 500 * time.Millisecond
	// maxFanouts is how many fan-outs a process works on at a time; of one environment it is one.
	maxFanouts = 2
	// A part is retried after fanoutRetry, then after twice that, and so on. It is retried until it is stored, because
	// the event was acknowledged.
	fanoutRetry, maxFanoutRetry = time.Second, time.Minute
	// maxFanoutRest limits the pause after a part.
	maxFanoutRest = 200 * time.Millisecond
)

func fanoutTable() jobs.Table {
	return jobs.Table{Name: "delivery_fanouts", ID: "event_uuid", Due: "due_ms", Claim: "claim_id", Lease: "lease_ms",
		Attempts: "attempts", Key: "environment_id"}
}

// fanouts stores the deliveries that the transactions of their events have left to a worker: part after part in their
// order, each in one transaction with the removal of the part, so that a crash neither loses nor duplicates any.
type fanouts struct {
	store *Store
	clock clock.Clock
	// stored is called after each commit with the subscriptions whose deliveries are due now.
	stored func(env id.Environment, subscriptionIDs []string)
	// rest waits between two parts.
	rest    func(ctx context.Context, d time.Duration)
	queue   *jobs.Queue
	metrics fanoutMetrics
}

func newFanouts(store *Store, clk clock.Clock, log *slog.Logger, node string,
	stored func(env id.Environment, subscriptionIDs []string)) *fanouts {
	f := &fanouts{store: store, clock: clk, stored: stored, rest: waitFor, metrics: newFanoutMetrics()}
	f.queue = jobs.New(jobs.Config{DB: store.db, Clock: clk, Logger: log, Table: fanoutTable(), Node: node,
		Handle: f.run, Concurrency: maxFanouts, PerKey: 1, Turn: fanoutTurn, Lease: fanoutLease, Poll: time.Second,
		Backoff: jobs.Backoff{First: fanoutRetry, Max: maxFanoutRetry, Jitter: jitterShare}})
	return f
}

// waitFor waits for d or until ctx ends, in real time also in tests with a manual clock: the pause only decides how
// fast the work is done.
func waitFor(ctx context.Context, d time.Duration) {
	t := clock.System().NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
	case <-ctx.Done():
	}
}

// run is the queue's handler: it stores the parts of a fan-out until none is left or the fan-out has to yield its
// place.
func (f *fanouts) run(ctx context.Context, j *jobs.Job) (jobs.Outcome, error) {
	j.Annotate(slog.String("event_uuid", j.ID))
	env := id.Environment(j.Key)
	for {
		p, last, err := f.store.nextPart(ctx, env, j.ID)
		switch {
		case db.IsUnavailable(err):
			return jobs.Outcome{}, jobs.Before(err)
		case err != nil:
			return jobs.Outcome{}, err
		case p == nil:
			return jobs.Done(nil), nil
		}
		var held time.Duration
		if err := j.Save(db.WithHeld(ctx, &held), func(ctx context.Context, tx *sql.Tx) error {
			return f.store.storePart(ctx, tx, env, j.ID, p, f.clock.Now())
		}); db.IsUnavailable(err) {
			return jobs.Outcome{}, jobs.Before(err)
		} else if err != nil {
			return jobs.Outcome{}, err
		}
		f.stored(env, p.Pending)
		if last {
			return jobs.Done(nil), nil
		}
		select {
		case <-j.Yield():
			return jobs.Again(f.clock.Now(), nil), nil
		default:
		}
		// The writer is free for others twice as long as it was held.
		f.rest(ctx, min(2*held, maxFanoutRest))
	}
}
