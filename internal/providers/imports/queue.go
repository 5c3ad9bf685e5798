package imports

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/providers/documents"
)

const (
	// leaseTime is how long a process that is gone keeps an import.
	leaseTime = 15 * time.Second
	// pollInterval is how often the queue looks for imports that other processes have created or left.
	pollInterval = time.Second
	// An import that meets an error of the service is retried after firstRetry, then after twice that, and so on. It fails
	// after maxAttempts, or when it was begun maxStarts times: each piece that it stores ends the queue's own counts.
	firstRetry, maxRetry = time.Second, time.Minute
	maxAttempts          = 5
	maxStarts            = 5
)

// queueTable declares the queue of imports.
func queueTable() jobs.Table {
	return jobs.Table{Name: tableName, ID: "id", Due: "due_ms", Claim: "claim_id", Lease: "lease_ms",
		Attempts: "attempts", Lost: "leases_lost", Key: "environment_id", Progress: "progress", Finished: "finished_ms",
		Where: "status IN ('queued', 'running')"}
}

// queueConfig returns what the queue of imports is made from. A process reads one document at a time, because a large
// one takes much memory.
func (s *Service) queueConfig() jobs.Config {
	return jobs.Config{DB: s.cfg.DB, Clock: s.cfg.Clock, Logger: s.cfg.Logger, Table: queueTable(), Node: s.cfg.Node,
		Handle: s.run, Failed: s.recordFailure, Concurrency: 1, Lease: leaseTime, Poll: pollInterval,
		MaxAttempts: maxAttempts, Backoff: jobs.Backoff{First: firstRetry, Max: maxRetry}}
}

// run is the queue's handler: it reads a document from its beginning to its end. A process that ends meanwhile leaves
// parts, which the next one deletes first.
func (s *Service) run(ctx context.Context, j *jobs.Job) (jobs.Outcome, error) {
	j.Annotate(slog.String("import_id", j.ID))
	m, err := find(ctx, s.cfg.DB.Read(), id.Environment(j.Key), j.ID, "")
	if err != nil {
		return jobs.Outcome{}, jobs.Before(err)
	}
	r := &reader{Service: s, job: j, m: &m, began: s.cfg.Clock.Now()}
	err = r.read(ctx)
	var problem *documents.Problem
	var refused *refusal
	switch {
	case err == nil:
		s.metrics.count(Ready)
		return jobs.Done(r.finish()), nil
	case errors.As(err, &problem):
		return r.fail(&Failure{Code: FailedDocument, Line: problem.Line, Column: problem.Column, Message: problem.Message})
	case errors.As(err, &refused):
		return r.fail(&Failure{Code: refused.code, Message: refused.message})
	case errors.Is(err, jobs.ErrLost) || ctx.Err() != nil:
		return jobs.Outcome{}, err
	case db.IsUnavailable(err) || errors.Is(err, errChanged):
		return jobs.Outcome{}, jobs.Before(err)
	default:
		return jobs.Outcome{}, err
	}
}

// refusal is why an import fails that is neither a problem of the document nor an error of the service.
type refusal struct {
	code    FailureCode
	message string
}

func (r *refusal) Error() string { return r.message }

// fail ends an import as failed. Its parts are deleted later.
func (r *reader) fail(f *Failure) (jobs.Outcome, error) {
	r.metrics.count(Failed)
	m := *r.m
	return jobs.Done(func(ctx context.Context, tx *sql.Tx) error {
		next := m
		next.Status, next.Failure, next.UpdatedAt, next.StoredBytes, next.Actions = Failed, f, r.now(), 0, 0
		return update(ctx, tx, &next)
	}), nil
}

// recordFailure ends an import as failed when the queue does not retry it any more. It reads nothing of the import,
// because reading it may be the error.
func (s *Service) recordFailure(ctx context.Context, tx *sql.Tx, f jobs.Failure) error {
	if !f.Permanent() {
		return nil
	}
	failure := Failure{Code: FailedInternal, Message: "An error of the service ended the import; its log says more"}
	text, err := db.EncodeJSON(failure)
	if err != nil {
		return err
	}
	s.metrics.count(Failed)
	_, err = tx.ExecContext(ctx, "UPDATE catalog_imports SET status = 'failed', failure = $1, updated_ms = $2, "+
		"stored_bytes = 0, version = version + 1 WHERE id = $3", text, clock.Millis(s.cfg.Clock.Now()), f.Job.ID)
	return err //nolint:wrapcheck // the queue says what failed
}

// restFactor is how many times as long as its work an import rests.
const restFactor = 3

// rest waits three times as long as the work before has taken, so that an import takes a quarter of a core at most and
// leaves room for requests: the collector takes as much again for what it has allocated.
func (s *Service) rest(ctx context.Context, worked time.Duration) {
	if worked <= 0 {
		return // the clock was set
	}
	timer := s.cfg.Clock.NewTimer(min(restFactor*worked, time.Second))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
