package replays

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// Subscriptions tells whether a subscription is there.
type Subscriptions interface {
	Get(ctx context.Context, v access.View, subscriptionID string) (subscriptions.Subscription, error)
}

// Config is what a Service needs.
type Config struct {
	DB            *db.DB
	Clock         clock.Clock
	Events        *events.Store
	Deliveries    *deliveries.Service
	Subscriptions Subscriptions
	Logger        *slog.Logger
	// Node names this process's data folder: at start it takes the jobs of its predecessor.
	Node string
}

// Service keeps replays and works on them. It is safe for concurrent use; one goroutine calls Work.
type Service struct {
	cfg     Config
	metrics metrics
	claim   string
	wake    jobs.Wake
	// paces is what the worker knows of each job.
	paces map[string]*pace
	// limits are those of previews.
	limits previewLimits
	// interrupt, where tests set it, ends a step between its work and its commit.
	interrupt func() error
}

// New returns a Service that works on nothing before Work is called.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, metrics: newMetrics(), claim: cfg.Node + ":" + strconv.FormatInt(clock.Millis(cfg.Clock.Now()), 36) + ":" +
		id.NewUUID(), wake: jobs.NewWake(), paces: map[string]*pace{}, limits: defaultPreviewLimits()}
}

// Create stores a job.
//
// Errors: replays_limit; validation_error for a subscription that the environment does not have.
func (s *Service) Create(ctx context.Context, p access.Principal, o Order) (Replay, error) {
	if err := s.check(ctx, p.View(), &o); err != nil {
		return Replay{}, err
	}
	first, last, err := s.cfg.Events.Bounds(ctx, p.Environment)
	if err != nil {
		return Replay{}, err
	}
	now := clock.FromMillis(clock.Millis(s.cfg.Clock.Now()))
	r := Replay{ID: id.New(id.PrefixReplay), Environment: p.Environment, Status: Queued, Order: o,
		CreatedBy: Creator{p.Kind, p.ID, p.Name}, Counts: Counts{Skipped: map[deliveries.SkipReason]int64{}}, CreatedAt: now,
		UpdatedAt: now, work: work{first: first, last: last, scanned: last == "", lease: clock.FromMillis(0), due: now}}
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		// Unfinished jobs are counted under a lock, so that two orders at once cannot both take the last place.
		if err := s.cfg.DB.AdvisoryLock(ctx, tx, db.LockFor("webhook_replays", string(p.Environment))); err != nil {
			return err
		}
		open, err := unfinished(ctx, tx, " AND r.environment_id = $1", string(p.Environment))
		if err != nil {
			return err
		}
		if open[Queued]+open[Running]+open[Paused] >= MaxUnfinished {
			return apperr.New(apperr.CodeReplaysLimit,
				fmt.Sprintf("The environment has %d unfinished replays; let one end, or cancel one", MaxUnfinished))
		}
		if err := insert(ctx, tx, &r); err != nil {
			return err
		}
		return s.record(ctx, tx, p, now, "create", r.ID, nil, state(&r))
	})
	if err != nil {
		return Replay{}, err
	}
	s.wake.Signal()
	return r, nil
}

// check bounds an order to what a view shows, and refuses one that could not be carried out.
func (s *Service) check(ctx context.Context, v access.View, o *Order) error {
	o.Bound = v.Connections
	if o.To == "" {
		return nil
	}
	_, err := s.cfg.Subscriptions.Get(ctx, v, o.To)
	if apperr.Is(err, apperr.CodeNotFound) {
		return apperr.Invalid(apperr.Detail{Location: "to_subscription_id", Rule: "exists",
			Message: "the environment has no such subscription"})
	}
	return err
}

func (s *Service) record(ctx context.Context, tx *sql.Tx, p access.Principal, now time.Time, verb, replayID string,
	before, after audit.State) error {
	return audit.Record(ctx, tx, now, audit.Event{Team: p.Team, Environment: p.Environment, Actor: p,
		Action: "webhook_replay." + verb, TargetType: "webhook_replay", TargetID: replayID, Before: before, After: after})
}

// state is the job as the audit trail shows it; its progress is no change that anybody made, and neither is its
// beginning.
func state(r *Replay) audit.State {
	o, status := &r.Order, r.Status
	if status == Queued {
		status = Running
	}
	return audit.State{"status": status, "filter": o.Filter.stored(), "force": o.Force, "to_subscription_id": o.To,
		"rate_per_second": o.RatePerSecond}
}

// Get returns a job that the view shows, or not_found. A bounded view shows the jobs that were made under the same
// bound.
func (s *Service) Get(ctx context.Context, v access.View, replayID string) (Replay, error) {
	r, err := find(ctx, s.cfg.DB.Read(), v, replayID, "")
	if err != nil {
		return Replay{}, err
	}
	return r, s.refresh(ctx, &r)
}

// refresh brings up to date what became of a job's deliveries, which nobody stores while the job rests.
func (s *Service) refresh(ctx context.Context, r *Replay) error {
	progress, err := s.cfg.Deliveries.Progress(ctx, r.Environment, r.work.open)
	r.settle(progress)
	return err
}

// ListFilter narrows a list of jobs; empty does not narrow.
type ListFilter struct{ Statuses []Status }

// List returns a page of the jobs that the view shows, one row more than the page when another follows.
func (s *Service) List(ctx context.Context, v access.View, f ListFilter, p page.Request) ([]Replay, error) {
	rows, err := list(ctx, s.cfg.DB.Read(), v, f, p)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if err := s.refresh(ctx, &rows[i]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Pause stops a job: when it returns, the job starts nothing more until Resume. What it has started goes on. A job that
// is paused is left as it is.
//
// Errors: not_found; replay_ended.
func (s *Service) Pause(ctx context.Context, p access.Principal, replayID string) (Replay, error) {
	return s.change(ctx, p, replayID, "pause", (*Replay).pause)
}

// Resume lets a paused job go on. One that is not paused is left as it is.
//
// Errors: not_found; replay_ended.
func (s *Service) Resume(ctx context.Context, p access.Principal, replayID string) (Replay, error) {
	return s.change(ctx, p, replayID, "resume", (*Replay).resume)
}

// Cancel ends a job: when it returns, the job starts nothing more. What it has started goes on. A job that is cancelled
// is left as it is.
//
// Errors: not_found; replay_ended.
func (s *Service) Cancel(ctx context.Context, p access.Principal, replayID string) (Replay, error) {
	return s.change(ctx, p, replayID, "cancel", (*Replay).cancel)
}

func (s *Service) change(ctx context.Context, p access.Principal, replayID, verb string,
	to func(*Replay, time.Time) (bool, error)) (Replay, error) {
	var r Replay
	now := clock.FromMillis(clock.Millis(s.cfg.Clock.Now()))
	err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		// The worker's commit of a step is waited for, and the next finds another version.
		if r, err = find(ctx, tx, p.View(), replayID, s.cfg.DB.ForUpdate()); err != nil {
			return err
		}
		before := state(&r)
		changed, err := to(&r, now)
		if err != nil || !changed {
			return err
		}
		if err := update(ctx, tx, &r); err != nil {
			return err
		}
		return s.record(ctx, tx, p, now, verb, r.ID, before, state(&r))
	})
	if err != nil {
		return Replay{}, err
	}
	s.wake.Signal()
	return r, s.refresh(ctx, &r)
}

// Expire deletes jobs that ended long ago, in small transactions.
func (s *Service) Expire(ctx context.Context, now time.Time) error {
	for more := true; more; {
		err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) (err error) {
			more, err = expire(ctx, tx, now.Add(-Lifetime))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Measure refreshes the gauge of unfinished jobs.
func (s *Service) Measure(ctx context.Context) error {
	n, err := unfinished(ctx, s.cfg.DB.Read(), "")
	if err != nil {
		return err
	}
	for _, status := range []Status{Queued, Running, Paused} {
		s.metrics.unfinished.WithLabelValues(string(status)).Set(float64(n[status]))
	}
	return nil
}
