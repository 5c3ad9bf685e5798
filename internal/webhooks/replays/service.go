package replays

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/fleet"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// Subscriptions finds the subscription that a replay names.
type Subscriptions interface {
	Get(ctx context.Context, v access.View, subscriptionID string) (subscriptions.Subscription, error)
}

// Config holds what a Service is made from.
type Config struct {
	DB            *db.DB
	Clock         clock.Clock
	Events        *events.Store
	Deliveries    *deliveries.Service
	Subscriptions Subscriptions
	Logger        *slog.Logger
	// Node names this process's data folder: at start the queue recovers the replays of earlier processes of that name.
	Node string
	// Hints lead to the workers if they are on other nodes; nil means that they are not.
	Hints *fleet.Hints
}

// Service creates, changes and runs replays. It is safe for concurrent use.
type Service struct {
	cfg     Config
	metrics metrics
	queue   *jobs.Queue
	// stepping has room for the one step that this process takes at a time.
	stepping chan struct{}
	// limits are those of previews.
	limits previewLimits
	// interrupt, where tests set it, ends a step between its work and its commit.
	interrupt func() error
}

// New returns a Service. Its module runs the replays.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, metrics: newMetrics(), stepping: make(chan struct{}, 1), limits: defaultPreviewLimits()}
	s.queue = jobs.New(s.queueConfig())
	cfg.Hints.On(replayHint, func([]string) { s.queue.Wake() })
	return s
}

// replayHint is the topic of the hints that a replay is due.
const replayHint = "replays"

// due wakes the workers, after the commit of a replay that is due.
func (s *Service) due() {
	s.queue.Wake()
	s.cfg.Hints.Give(replayHint)
}

// Create stores a replay.
//
// Errors: replays_limit; validation_error for a subscription that does not exist in the environment.
func (s *Service) Create(ctx context.Context, p access.Principal, o Order) (Replay, error) {
	if err := s.checkOrder(ctx, p.View(), &o); err != nil {
		return Replay{}, err
	}
	first, last, err := s.cfg.Events.Bounds(ctx, p.Environment)
	if err != nil {
		return Replay{}, err
	}
	now := clock.FromMillis(clock.Millis(s.cfg.Clock.Now()))
	r := Replay{ID: id.New(id.PrefixReplay), Environment: p.Environment, Status: Queued, Order: o,
		CreatedBy: Creator{p.Kind, p.ID, p.Name}, Counts: Counts{Skipped: map[deliveries.SkipReason]int64{}}, CreatedAt: now,
		UpdatedAt: now, work: work{first: first, last: last, scanned: last == "", due: now}}
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		// Unfinished replays are counted under a lock, so that two requests cannot both take the last place.
		if err := s.cfg.DB.AdvisoryLock(ctx, tx, db.LockFor("webhook_replays", string(p.Environment))); err != nil {
			return err
		}
		open, err := countUnfinished(ctx, tx, new(db.Where).And("environment_id = ?", string(p.Environment)))
		if err != nil {
			return err
		}
		if open[Queued]+open[Running]+open[Paused] >= MaxUnfinished {
			return apperr.New(apperr.CodeReplaysLimit,
				fmt.Sprintf("The environment has %d unfinished replays; wait for one to end, or cancel one", MaxUnfinished))
		}
		if err := insert(ctx, tx, &r); err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, p, now, "create", r.ID, nil, auditState(&r))
	})
	if err != nil {
		return Replay{}, err
	}
	s.due()
	return r, nil
}

// checkOrder limits an order to the connections of the view. It returns an error for a subscription that does not
// exist.
func (s *Service) checkOrder(ctx context.Context, v access.View, o *Order) error {
	o.Bound = v.Connections
	if err := s.cfg.Events.CheckTypes("filter.event_type", o.Filter.Types); err != nil {
		return err
	}
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

func (s *Service) recordAudit(ctx context.Context, tx *sql.Tx, p access.Principal, now time.Time, verb, replayID string,
	before, after audit.State) error {
	return audit.Record(ctx, tx, now, audit.Event{Team: p.Team, Environment: p.Environment, Actor: p,
		Action: "webhook_replay." + verb, TargetType: "webhook_replay", TargetID: replayID, Before: before, After: after})
}

// auditState returns a replay as the audit trail shows it. Its progress and its beginning are not changes by a user.
func auditState(r *Replay) audit.State {
	o, status := &r.Order, r.Status
	if status == Queued {
		status = Running
	}
	return audit.State{"status": status, "filter": o.Filter.stored(), "force": o.Force, "to_subscription_id": o.To,
		"rate_per_second": o.RatePerSecond}
}

// Get returns a replay that the view shows, or not_found. A bounded view shows the replays created under the same
// bound.
func (s *Service) Get(ctx context.Context, v access.View, replayID string) (Replay, error) {
	r, err := find(ctx, s.cfg.DB.Read(), v, replayID, "")
	if err != nil {
		return Replay{}, err
	}
	return r, s.refreshOutcomes(ctx, &r)
}

// refreshOutcomes counts the outcomes of a replay's deliveries, which are not stored while no worker has the replay.
func (s *Service) refreshOutcomes(ctx context.Context, r *Replay) error {
	progress, err := s.cfg.Deliveries.Progress(ctx, r.Environment, r.work.open, r.CreatedAt)
	r.addOutcomes(progress)
	return err
}

// ListFilter restricts a list of replays; the zero ListFilter does not.
type ListFilter struct{ Statuses []Status }

// List returns a page of the replays that the view shows, and one row more if another page follows. It takes turns
// among the lists of the environment.
func (s *Service) List(ctx context.Context, v access.View, f ListFilter, p page.Request) ([]Replay, error) {
	rows, err := db.Listed(ctx, s.cfg.DB, string(v.Environment), func(ctx context.Context, q db.Querier) ([]Replay,
		error) {
		return list(ctx, q, v, f, p)
	})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if err := s.refreshOutcomes(ctx, &rows[i]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Pause stops a replay: once Pause returns, the replay starts nothing until Resume. Started deliveries continue.
// Pausing a paused replay changes nothing.
//
// Errors: not_found; replay_ended.
func (s *Service) Pause(ctx context.Context, p access.Principal, replayID string) (Replay, error) {
	return s.changeStatus(ctx, p, replayID, "pause", (*Replay).pause)
}

// Resume continues a paused replay. Resuming another one changes nothing.
//
// Errors: not_found; replay_ended.
func (s *Service) Resume(ctx context.Context, p access.Principal, replayID string) (Replay, error) {
	return s.changeStatus(ctx, p, replayID, "resume", (*Replay).resume)
}

// Cancel ends a replay: once Cancel returns, the replay starts nothing. Started deliveries continue. Cancelling a
// cancelled replay changes nothing.
//
// Errors: not_found; replay_ended.
func (s *Service) Cancel(ctx context.Context, p access.Principal, replayID string) (Replay, error) {
	return s.changeStatus(ctx, p, replayID, "cancel", (*Replay).cancel)
}

// changeStatus changes the state of a replay and takes the replay from its worker.
func (s *Service) changeStatus(ctx context.Context, p access.Principal, replayID, verb string,
	to func(*Replay, time.Time) (bool, error)) (Replay, error) {
	var r Replay
	now := clock.FromMillis(clock.Millis(s.cfg.Clock.Now()))
	err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		// This waits for the commit of a step in progress. The worker can store no other.
		if r, err = find(ctx, tx, p.View(), replayID, s.cfg.DB.ForUpdate()); err != nil {
			return err
		}
		before := auditState(&r)
		changed, err := to(&r, now)
		if err != nil || !changed {
			return err
		}
		if err := update(ctx, tx, &r); err != nil {
			return err
		}
		if err := s.queue.Recall(ctx, tx, r.ID); err != nil {
			return err
		}
		return s.recordAudit(ctx, tx, p, now, verb, r.ID, before, auditState(&r))
	})
	if err != nil {
		return Replay{}, err
	}
	s.due()
	return r, s.refreshOutcomes(ctx, &r)
}

// expire deletes replays that ended more than Lifetime ago, in small transactions.
func (s *Service) expire(ctx context.Context, now time.Time) error {
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

// measure refreshes the gauge of unfinished replays.
func (s *Service) measure(ctx context.Context) error {
	n, err := countUnfinished(ctx, s.cfg.DB.Read(), new(db.Where))
	if err != nil {
		return err
	}
	for _, status := range []Status{Queued, Running, Paused} {
		s.metrics.unfinished.WithLabelValues(string(status)).Set(float64(n[status]))
	}
	return nil
}
