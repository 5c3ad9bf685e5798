package jobs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// Config configures a Queue. DB, Clock, Logger, Table, Handle, Lease and Poll are needed.
type Config struct {
	DB     *db.DB
	Clock  clock.Clock
	Logger *slog.Logger
	Table  Table
	// Node names this process's data folder: at start the queue recovers the leases of earlier processes of that name.
	Node   string
	Handle Handler
	// Failed, where set, changes what the domain keeps of a failed attempt, in the transaction that stores it.
	Failed func(ctx context.Context, tx *sql.Tx, f Failure) error
	// Observe, where set, is called with what happened to each claimed job, once that is stored and the job's place is
	// free.
	Observe func(e Event)
	// Concurrency is how many jobs run at a time in this process, at least 1, and PerKey how many of one key; 0 for no
	// limit.
	Concurrency, PerKey int
	// Lease is how long a process holds a job without renewing the lease, as it does while the handler runs.
	Lease time.Duration
	// Poll is the interval at which the queue looks for due jobs when nothing wakes it.
	Poll time.Duration
	// Backoff is the wait after a failed attempt. First is also the wait after an error before the attempt.
	Backoff Backoff
	// MaxAttempts is the number of attempts after which a job that fails ends. Attempts whose lease was lost count, so
	// that a job that ends its process again and again does not go on forever. MaxLost is the number of leases lost in a
	// row after which a job ends without another attempt. 0 is no limit.
	MaxAttempts, MaxLost int64
	// Turn is how long a job keeps its place while others wait for one; then Yield asks for it. 0 for no limit.
	Turn time.Duration
}

// Queue does the jobs of a domain's table. It is safe for concurrent use.
type Queue struct {
	cfg    Config
	claims *Claims
	doubts Doubts
	wake   Wake

	mu       sync.Mutex
	held     map[*Job]struct{}
	running  map[string]int // by key
	after    *string        // the key that was last served
	rest     time.Time      // until when nothing is claimed
	draining bool
	started  bool

	// claiming is the life of the loop that claims, handling that of the handlers, and storing that of the outcomes, each
	// longer than the one before.
	claiming, handling, storing life
	claimer, renewer            sync.WaitGroup
}

// life is a context with what ends it.
type life struct {
	ctx context.Context //nolint:containedctx // the life of a part of the queue, ended by Drain or Stop
	end context.CancelCauseFunc
}

func newLife() life {
	ctx, end := context.WithCancelCause(db.WithTurn(context.Background(), db.TurnJob))
	return life{ctx, end}
}

// New returns a Queue that claims nothing before Start. It panics on a Table that cannot be a queue, which is a
// constant of the program.
func New(cfg Config) *Queue {
	if missing := cfg.Table.check(); missing != "" {
		panic("jobs: table " + cfg.Table.Name + " " + missing)
	}
	cfg.Concurrency = max(cfg.Concurrency, 1)
	cfg.Logger = cfg.Logger.With(slog.String("queue", cfg.Table.Name))
	return &Queue{cfg: cfg, claims: NewClaims(cfg.Node), wake: NewWake(), held: map[*Job]struct{}{},
		running: map[string]int{}, claiming: newLife(), handling: newLife(), storing: newLife()}
}

// Start recovers the leases of earlier processes of this node and starts to claim.
func (q *Queue) Start(ctx context.Context) error {
	if err := q.Recover(ctx); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.started || q.draining {
		return errors.New("start a queue: it was started or stopped before")
	}
	q.started = true
	q.claimer.Go(func() { Loop(q.claiming.ctx, q.cfg.Clock, q.wake, q.claimDue) })
	q.renewer.Go(func() { Loop(q.storing.ctx, q.cfg.Clock, nil, q.keepLeases) })
	return nil
}

// Wake makes the queue look for due jobs immediately. Call it after the commit that made one due.
func (q *Queue) Wake() { q.wake.Signal() }

// Drain begins the stop: the queue claims nothing more, running jobs may end by themselves, and long ones are asked to
// yield. Stop must follow. The error is always nil.
func (q *Queue) Drain(context.Context) error {
	q.claiming.end(errStopped)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.draining = true
	for j := range q.held {
		j.askToYield()
	}
	return nil
}

// stopGrace is how long handlers may take to return, and outcomes to be stored, once their context has ended.
const stopGrace = 2 * time.Second

// errHung says that handlers did not return.
var errHung = errors.New("jobs did not end in time; their leases will expire")

// Stop waits for the running jobs until ctx ends, then ends the context of those that are left, stores every outcome
// and releases the jobs that were not finished. When a handler does not return, its job keeps its lease, which expires,
// and Stop returns an error. Further calls do nothing.
func (q *Queue) Stop(ctx context.Context) error {
	err := q.Drain(ctx)
	q.claimer.Wait()
	if !await(q.holding(), ctx.Done()) {
		q.handling.end(errStopped)
		grace := q.cfg.Clock.NewTimer(stopGrace)
		defer grace.Stop()
		if !await(q.holding(), grace.C()) {
			err = fmt.Errorf("stop the queue %s: %w", q.cfg.Table.Name, errHung)
		}
	}
	q.handling.end(errStopped)
	q.storing.end(errStopped)
	q.renewer.Wait()
	return err
}

// await reports whether the jobs have ended before over fires or is closed.
func await[T any](list []*Job, over <-chan T) bool {
	for _, j := range list {
		select {
		case <-j.ended:
		case <-over:
			return false
		}
	}
	return true
}

// holding returns the jobs that this process holds.
func (q *Queue) holding() []*Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.held))
}

// Recall takes a job from its holder, in the caller's transaction: after its commit the holder can store nothing, and
// its context ends at the next heartbeat. It is for pausing and cancelling jobs: the caller also changes the columns of
// Where, so that the job is not claimed again.
func (q *Queue) Recall(ctx context.Context, tx *sql.Tx, jobID string) error {
	q.mu.Lock()
	for j := range q.held {
		j.recalled = j.recalled || j.ID == jobID
	}
	q.mu.Unlock()
	return exec(ctx, tx, q.cfg.Table.recall(jobID, q.cfg.Clock.Now()), "recall a job")
}

// ShiftTimes moves the due times and leases of the jobs by so much, after the clock by which they were stored was set.
func (q *Queue) ShiftTimes(ctx context.Context, tx *sql.Tx, by time.Duration) error {
	return exec(ctx, tx, q.cfg.Table.shift(by), "shift the times of jobs")
}

// Progress decodes a job's stored progress into the value that into points to, and reports whether there is any.
func (q *Queue) Progress(ctx context.Context, on db.Querier, jobID string, into any) (bool, error) {
	query := q.cfg.Table.progress(jobID)
	var text sql.NullString
	err := on.QueryRowContext(ctx, query.String(), query.args...).Scan(&text)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return false, fmt.Errorf("read the progress of a job: %w", err)
	}
	return decodeProgress(text.String, into)
}

func exec(ctx context.Context, tx *sql.Tx, query *query, what string) error {
	if _, err := tx.ExecContext(ctx, query.String(), query.args...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// change runs a statement that must find its job, and the domain's change, in one transaction. It returns ErrLost, and
// stores nothing, when the job is no longer the claim's.
func (q *Queue) change(ctx context.Context, query *query, change Change) error {
	err := q.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, query.String(), query.args...)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		switch {
		case err != nil:
			return err
		case n != 1:
			return ErrLost
		case change == nil:
			return nil
		default:
			return change(ctx, tx)
		}
	})
	if err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("change a job: %w", err)
	}
	return err
}
