package replays

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/webhooks/deliveries"
)

const (
	// leaseTime is how long a worker that says nothing keeps a job.
	leaseTime = 10 * time.Second
	// pollInterval is how often jobs are looked for that others have made or left.
	pollInterval = 500 * time.Millisecond
	// maxJobs is how many jobs one round works on, longest due first.
	maxJobs = 50
	// stepPause is the least time between two steps of a job.
	stepPause = 20 * time.Millisecond
	// openWait and maxOpenWait are how long a job that waits for its deliveries waits before it looks again, at first and
	// in the end.
	openWait, maxOpenWait = 100 * time.Millisecond, time.Second
	// A step that fails is tried again after troubleWait, then after twice that, and so on; after maxTroubles in a row the
	// job fails. While the store is down nothing is counted.
	troubleWait = time.Second
	maxTroubles = 7
)

// pace is what the worker remembers of a job. Losing it does no harm.
type pace struct {
	// until is when the job is looked at again.
	until time.Time
	// idle and troubles count the steps in a row that changed nothing, and those that failed.
	idle, troubles int
}

// Recover takes the jobs from an earlier process of this node, before Work is called.
func (s *Service) Recover(ctx context.Context) error {
	return s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return release(ctx, tx, s.cfg.Node+":") })
}

// Release gives up the jobs of this process, so that others need not wait for the end of its leases. Work has ended.
func (s *Service) Release(ctx context.Context) error {
	return s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error { return release(ctx, tx, s.claim) })
}

// Work takes each job that is due one step on, and returns when to call it again. Between the steps the store is
// everybody's.
func (s *Service) Work(ctx context.Context) time.Duration {
	// A step that has begun is carried through also when the process is stopping.
	whole := context.WithoutCancel(ctx)
	list, err := due(whole, s.cfg.DB.Read(), s.claim, s.cfg.Clock.Now(), maxJobs)
	if err != nil {
		s.cfg.Logger.ErrorContext(ctx, "replays could not be looked for", slog.String("error", err.Error()))
		return pollInterval
	}
	s.forget(list)
	for i := range list {
		r := &list[i]
		if ctx.Err() != nil {
			break
		}
		p := s.paces[r.ID]
		if p == nil {
			p = &pace{}
			s.paces[r.ID] = p
		}
		if !p.until.After(s.cfg.Clock.Now()) {
			s.work(whole, r, p)
		}
	}
	wait, now := pollInterval, s.cfg.Clock.Now()
	for _, p := range s.paces {
		wait = min(wait, max(p.until.Sub(now), 0))
	}
	return wait
}

// forget drops what is known of jobs that are no longer due here.
func (s *Service) forget(list []Replay) {
	now, here := s.cfg.Clock.Now(), make(map[string]bool, len(list))
	for i := range list {
		here[list[i].ID] = true
	}
	for replayID, p := range s.paces {
		if !here[replayID] && !p.until.After(now) {
			delete(s.paces, replayID)
		}
	}
}

// work takes a job one step on and says when it is looked at again.
func (s *Service) work(ctx context.Context, r *Replay, p *pace) {
	changed, err := s.step(ctx, r)
	now := s.cfg.Clock.Now()
	switch {
	case err == nil && changed:
		p.idle, p.troubles = 0, 0
		p.until = later(r.work.due, now.Add(stepPause))
	case err == nil:
		p.until = now.Add(min(openWait<<min(p.idle, 10), maxOpenWait))
		p.idle++
	case errors.Is(err, errLost), deliveries.Changed(err):
		p.until = now.Add(stepPause) // what the step was built on has changed; the next reads it anew
	case db.IsUnavailable(err):
		s.cfg.Logger.ErrorContext(ctx, "a replay has to wait for the store", slog.String("replay_id", r.ID),
			slog.String("error", err.Error()))
		p.until = now.Add(troubleWait)
	default:
		s.trouble(ctx, r, p, err)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// trouble lets a job wait that met an error, and ends it where that happens over and over.
func (s *Service) trouble(ctx context.Context, r *Replay, p *pace, err error) {
	now := s.cfg.Clock.Now()
	p.until = now.Add(troubleWait << p.troubles)
	p.troubles++
	s.cfg.Logger.ErrorContext(ctx, "a replay met an error", slog.String("replay_id", r.ID), slog.Int("times", p.troubles),
		slog.String("error", err.Error()))
	if p.troubles < maxTroubles {
		return
	}
	if err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		stuck, err := find(ctx, tx, access.Whole(r.Environment), r.ID, s.cfg.DB.ForUpdate())
		if err != nil || stuck.Status != Queued && stuck.Status != Running {
			return err
		}
		stuck.fail(FailedInternal, now)
		return update(ctx, tx, &stuck)
	}); err != nil {
		s.cfg.Logger.ErrorContext(ctx, "a replay could not be ended", slog.String("replay_id", r.ID),
			slog.String("error", err.Error()))
	}
}
