package jobs

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"sallyport/internal/platform/clock"
)

// Handler does one job that the queue has claimed. Its context ends when the lease is lost or the queue is stopped
// hard; it must return soon after that. It changes the database only by the outcome, or by Save.
type Handler func(ctx context.Context, j *Job) (Outcome, error)

// Job is a job that this process has claimed. Its methods are for the handler.
type Job struct {
	ID string
	// Key is the job's fairness key; empty where the table has none.
	Key string
	// Attempt counts this claim and those before it, from 1, since the job was last due by its own schedule or saved
	// something; 0 where the table does not count.
	Attempt int64
	// Lost counts the leases in a row that ended without an outcome.
	Lost int64

	q        *Queue
	claim    string
	progress string
	since    time.Time
	attrs    []slog.Attr
	cancel   context.CancelCauseFunc
	ended    chan struct{}

	// leased is a moment before the statement was sent by which the lease began or was last extended, yields whether the
	// handler was asked to yield its place, and recalled whether this process has recalled the job; all under q.mu.
	leased           clock.Moment
	yields, recalled bool
	yield            chan struct{}
}

// Save stores the change in a transaction of its own and extends the lease, without ending the job: a long job stores
// what it has done so far. Attempts are counted from this one again. It returns ErrLost, and stores nothing, when the
// lease was lost.
func (j *Job) Save(ctx context.Context, change Change) error { return j.save(ctx, nil, change) }

// SaveProgress is Save with the job's progress, which is stored as JSON in the table's column for it.
func (j *Job) SaveProgress(ctx context.Context, progress any, change Change) error {
	text, err := json.Marshal(progress)
	if err != nil {
		return fmt.Errorf("encode the progress of a job: %w", err)
	}
	return j.save(ctx, text, change)
}

func (j *Job) save(ctx context.Context, progress []byte, change Change) error {
	q := j.q
	from, until := clock.MomentOf(q.cfg.Clock), q.cfg.Clock.Now().Add(q.cfg.Lease)
	if err := q.change(ctx, q.cfg.Table.save(j, until, progress), change); err != nil {
		return err
	}
	if q.cfg.Table.Attempts != "" && q.cfg.Table.Claim != "" {
		j.Attempt = 1
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	j.leased = from
	return nil
}

// Lasts reports whether the lease lasts for at least d, also if the process stood still since it was renewed. A handler
// asks before it does something outside the database that takes that long.
func (j *Job) Lasts(d time.Duration) bool {
	j.q.mu.Lock()
	defer j.q.mu.Unlock()
	return j.leaseLeft() >= d
}

// leaseLeft returns the least time for which the lease still lasts; q.mu is held.
func (j *Job) leaseLeft() time.Duration {
	return j.q.cfg.Lease - j.leased.AtMost(clock.MomentOf(j.q.cfg.Clock))
}

// Progress decodes the progress that was stored before this claim into what into points to, and reports whether there
// was any.
func (j *Job) Progress(into any) (bool, error) { return decodeProgress(j.progress, into) }

func decodeProgress(text string, into any) (bool, error) {
	if text == "" {
		return false, nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return false, fmt.Errorf("decode the progress of a job: %w", err)
	}
	return true, nil
}

// Yield returns a channel that is closed when the job should return Again, because the queue is draining, or because
// other jobs wait for a place and this one has had its turn. A job that ignores it keeps its place.
func (j *Job) Yield() <-chan struct{} { return j.yield }

// Annotate adds attributes to the lines that the queue logs about the job.
func (j *Job) Annotate(attrs ...slog.Attr) { j.attrs = append(j.attrs, attrs...) }

// askToYield closes the yield channel; q.mu is held.
func (j *Job) askToYield() {
	if !j.yields {
		j.yields = true
		close(j.yield)
	}
}

// scanJob reads what a claim returns of a job.
func scanJob(r *sql.Rows) (*Job, error) {
	j := &Job{yield: make(chan struct{}), ended: make(chan struct{})}
	var progress sql.NullString
	err := r.Scan(&j.ID, &j.Attempt, &j.Lost, &j.Key, &progress)
	j.progress = progress.String
	return j, err
}
