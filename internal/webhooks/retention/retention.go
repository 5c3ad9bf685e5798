// Package retention removes expired payloads, events and keys. See README.md.
package retention

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// interval is how often retention looks for expired rows.
const interval = time.Minute

// Kinds of removed rows, as the metrics name them.
const (
	kindPayload   = "payload"
	kindPartition = "partition"
	kindEvent     = "event"
	kindDelivery  = "delivery"
	kindAttempt   = "attempt"
	kindKey       = "key"
	kindEnded     = "ended"
)

// Config holds the dependencies of a Worker.
type Config struct {
	DB         *db.DB
	Deliveries *deliveries.Store
	// Lifetimes knows how long each environment keeps data. It is called before every chunk, so that a changed setting
	// applies from the next one on.
	Lifetimes events.Retention
	Clock     clock.Clock
	Logger    *slog.Logger
}

// Worker removes expired data, a chunk at a time.
type Worker struct {
	Config
	events     *events.Remover
	partitions *events.Partitions
	metrics    metrics
	pace       pace
	// statistic is the hour up to which this process has processed the statistics.
	statistic time.Time
}

// New returns a Worker whose module removes what has expired.
func New(c Config) *Worker {
	return &Worker{Config: c, events: events.NewRemover(c.DB), partitions: events.NewPartitions(c.DB),
		metrics: newMetrics(), pace: newPace(c.DB, clock.System())}
}

// removeExpired removes everything that has expired, unless another node does so. It ends early, between two chunks,
// when ctx ends. The next call, in any process, continues there.
func (w *Worker) removeExpired(ctx context.Context) (err error) {
	lock, ok, err := w.DB.TryLock(ctx, db.LockRetention) // one node at a time removes
	if err != nil || !ok {
		w.overdue(0, 0)
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock(context.WithoutCancel(ctx))) }()
	p, err := w.plan(ctx)
	if err != nil {
		return err
	}
	err = w.measure(ctx, p)
	tasks := w.tasks(p)
	for len(tasks) > 0 && ctx.Err() == nil {
		left := tasks[:0]
		for _, t := range tasks {
			// Its chunks and the rests between them may take seconds.
			if err := lock.Check(ctx); err != nil {
				return err
			}
			more, taskErr := w.turn(ctx, t)
			err = errors.Join(err, taskErr)
			if more && taskErr == nil {
				left = append(left, t)
			}
		}
		tasks = left
	}
	return errors.Join(err, ctx.Err(), w.measure(ctx, p))
}

// chunksPerTurn is how many chunks a task does before the others have their turn.
const chunksPerTurn = 10

// turn runs some chunks of a task and reports whether there are more.
func (w *Worker) turn(ctx context.Context, t *task) (more bool, err error) {
	for range chunksPerTurn {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		more, err := w.pace.chunk(ctx, t)
		if err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// task is one thing to do in chunks. do does a chunk of about limit rows and reports whether more may follow.
type task struct {
	do    func(ctx context.Context, limit int) (more bool, err error)
	limit int
}

// tasks returns the tasks of a round. Earlier tasks of an environment have their turns first.
func (w *Worker) tasks(p *plan) []*task {
	list := []*task{{do: func(ctx context.Context, _ int) (bool, error) {
		return false, w.dropPartitions(ctx, p.environments)
	}}}
	add := func(do func(ctx context.Context, limit int) (bool, error)) { list = append(list, &task{do: do}) }
	if w.DB.Engine() == db.Postgres {
		add(func(ctx context.Context, limit int) (bool, error) { return w.sweepDefault(ctx, p.environments, limit) })
	}
	for _, env := range p.environments {
		add(func(ctx context.Context, limit int) (bool, error) { return w.endExpired(ctx, env, limit) })
		add(func(ctx context.Context, limit int) (bool, error) { return w.sweepPayloads(ctx, env, p, limit) })
		after := ""
		add(func(ctx context.Context, limit int) (more bool, err error) {
			after, more, err = w.removeEvents(ctx, env, p, after, limit)
			return more, err
		})
	}
	add(w.sweepKeys)
	return append(list, &task{do: w.statistics()})
}

func (w *Worker) removed(what string, n int64) {
	w.metrics.removed.WithLabelValues(what).Add(float64(n))
}

// cutoffs returns the times of receipt up to which payloads and events of the environment are due.
func (w *Worker) cutoffs(ctx context.Context, env id.Environment) (payload, event time.Time, err error) {
	l, err := w.Lifetimes.Lifetimes(ctx, env)
	now := w.Clock.Now()
	return now.Add(-l.Payload), now.Add(-l.Event), err
}

// oldest returns the time of receipt up to which the payloads of all environments are due; the zero time without any.
func (w *Worker) oldest(ctx context.Context, environments []id.Environment) (time.Time, error) {
	var oldest time.Time
	for _, env := range environments {
		payload, _, err := w.cutoffs(ctx, env)
		if err != nil {
			return time.Time{}, err
		}
		if oldest.IsZero() || payload.Before(oldest) {
			oldest = payload
		}
	}
	return oldest, nil
}

// plan is the basis of a round.
type plan struct {
	environments []id.Environment
	// longest is the longest that any of them keeps payloads.
	longest time.Duration
}

func (w *Worker) plan(ctx context.Context) (*plan, error) {
	environments, err := w.events.Environments(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan{environments: environments}
	for _, env := range environments {
		l, err := w.Lifetimes.Lifetimes(ctx, env)
		if err != nil {
			return nil, err
		}
		p.longest = max(p.longest, l.Payload)
	}
	return p, nil
}

// rowByRow reports whether the environment's payloads are deleted one by one: where no partition of PostgreSQL ends
// with them, because other environments keep theirs for longer.
func (w *Worker) rowByRow(ctx context.Context, env id.Environment, p *plan) (bool, error) {
	if w.DB.Engine() != db.Postgres {
		return true, nil
	}
	l, err := w.Lifetimes.Lifetimes(ctx, env)
	return l.Payload < p.longest, err
}

// measure records for how long the oldest expired data has been due.
func (w *Worker) measure(ctx context.Context, p *plan) error {
	var payload, event time.Duration
	for _, env := range p.environments {
		payloads, list, err := w.cutoffs(ctx, env)
		if err != nil {
			return err
		}
		latePayload, lateEvent, err := w.events.Overdue(ctx, env, payloads, list)
		if err != nil {
			return err
		}
		rowByRow, err := w.rowByRow(ctx, env, p)
		if err != nil {
			return err
		}
		if event = max(event, lateEvent); rowByRow {
			payload = max(payload, latePayload)
		}
	}
	oldest, err := w.oldest(ctx, p.environments)
	if err != nil {
		return err
	}
	if !oldest.IsZero() {
		late, err := w.partitions.Overdue(ctx, oldest)
		if err != nil {
			return err
		}
		payload = max(payload, late)
	}
	w.overdue(payload, event)
	return nil
}

func (w *Worker) overdue(payload, event time.Duration) {
	w.metrics.overdue.WithLabelValues(kindPayload).Set(payload.Seconds())
	w.metrics.overdue.WithLabelValues(kindEvent).Set(event.Seconds())
}
