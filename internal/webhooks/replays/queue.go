package replays

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
)

const (
	// leaseTime is how long a process that is gone keeps a replay.
	leaseTime = 10 * time.Second
	// pollInterval is how often the queue looks for replays that other processes have created or left.
	pollInterval = 500 * time.Millisecond
	// maxHeld is how many replays a process works on at a time, and turnTime how long one of them keeps its place while
	// others wait.
	maxHeld  = 50
	turnTime = 2 * time.Second
	// stepPause is the least time between two steps of a replay.
	stepPause = 20 * time.Millisecond
	// openWait is the wait of a replay that can only wait for its deliveries. It doubles up to maxOpenWait.
	openWait, maxOpenWait = 100 * time.Millisecond, time.Second
	// A replay that meets an error is retried after firstRetry, then after twice that, and so on. It fails after
	// maxErrors without a step in between. While the database is down nothing is counted.
	firstRetry, maxRetry = time.Second, time.Minute
	maxErrors            = 7
)

// queueTable declares the queue of replays. The due time is that of the next deliveries, which a step sets.
func queueTable() jobs.Table {
	return jobs.Table{Name: "webhook_replays", ID: "id", Due: "due_ms", Claim: "claim_id", Lease: "lease_ms",
		Attempts: "attempts", Key: "environment_id", Finished: "finished_ms", Where: "status IN ('queued', 'running')"}
}

// queueConfig returns what the queue of replays is made from.
func (s *Service) queueConfig() jobs.Config {
	return jobs.Config{DB: s.cfg.DB, Clock: s.cfg.Clock, Logger: s.cfg.Logger, Table: queueTable(), Node: s.cfg.Node,
		Handle: s.runReplay, Failed: s.recordFailure, Concurrency: maxHeld, Turn: turnTime, Lease: leaseTime,
		Poll: pollInterval, MaxAttempts: maxErrors, Backoff: jobs.Backoff{First: firstRetry, Max: maxRetry}}
}

// holder works on a replay that this process has claimed. It is for one goroutine.
type holder struct {
	*Service
	job *jobs.Job
	// replay is as it was last read or stored.
	replay Replay
	// idle counts the steps in a row that changed nothing.
	idle int
}

// openReplay returns the holder of a claimed replay.
func (s *Service) openReplay(ctx context.Context, j *jobs.Job) (*holder, error) {
	j.Annotate(slog.String("replay_id", j.ID))
	r, err := find(ctx, s.cfg.DB.Read(), access.Whole(id.Environment(j.Key)), j.ID, "")
	return &holder{Service: s, job: j, replay: r}, markError(err)
}

// runReplay is the queue's handler: it takes the steps of a replay until the replay ends or has to yield its place.
func (s *Service) runReplay(ctx context.Context, j *jobs.Job) (jobs.Outcome, error) {
	h, err := s.openReplay(ctx, j)
	if err != nil {
		return jobs.Outcome{}, err
	}
	for {
		end, next, err := h.takeTurn(ctx)
		switch {
		case err != nil:
			return jobs.Outcome{}, err
		case end != nil:
			return *end, nil
		case !h.waitUntil(ctx, next):
			return jobs.Again(next, nil), nil
		}
	}
}

// takeTurn takes a step when it is this replay's turn: the replays of a process take one step at a time, so that
// together they use no more of the database than a single one.
func (h *holder) takeTurn(ctx context.Context) (end *jobs.Outcome, next time.Time, err error) {
	select {
	case h.stepping <- struct{}{}:
		defer func() { <-h.stepping }()
		return h.step(ctx)
	case <-ctx.Done():
		return nil, next, context.Cause(ctx)
	}
}

// waitUntil reports whether the time came before the replay had to yield its place.
func (h *holder) waitUntil(ctx context.Context, at time.Time) bool {
	timer := h.cfg.Clock.NewTimer(at.Sub(h.cfg.Clock.Now()))
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-h.job.Yield():
	case <-ctx.Done():
	}
	return false
}

// markError marks an error of a step with what it means for the queue. While the database is down, and where another
// process has changed the replay, the step is taken again and not counted.
func markError(err error) error {
	if err != nil && (db.IsUnavailable(err) || errors.Is(err, errChanged)) {
		return jobs.Before(err)
	}
	return err
}

// recordFailure ends a replay as failed when the queue does not retry it any more.
func (s *Service) recordFailure(ctx context.Context, tx *sql.Tx, f jobs.Failure) error {
	if !f.Permanent() {
		return nil
	}
	return endFailed(ctx, tx, f.Job.ID, s.cfg.Clock.Now())
}
