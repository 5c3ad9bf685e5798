package replays

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

func testTime() time.Time { return time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC) }

// targets stands in for internal/webhooks/subscriptions: it says what is enabled and what is gone. Each takes every
// event.
type targets struct {
	byID map[string]*subscriptions.Target
}

func (f *targets) Get(_ context.Context, v access.View, subscriptionID string) (subscriptions.Subscription, error) {
	if t, ok := f.byID[subscriptionID]; !ok || t.Deleted || t.Environment != v.Environment {
		return subscriptions.Subscription{}, apperr.NotFound("webhook subscription")
	}
	return subscriptions.Subscription{ID: subscriptionID, Environment: v.Environment, EventTypes: []string{"*"}}, nil
}

func (f *targets) Target(_ context.Context, _ id.Environment, subscriptionID string) (*subscriptions.Target, error) {
	t, ok := f.byID[subscriptionID]
	if !ok {
		return nil, apperr.NotFound("webhook subscription")
	}
	return t, nil
}

func (f *targets) Disable(context.Context, id.Environment, string, string) error { return nil }

// world is a database with events and deliveries that nobody sends, at a time that stands still.
type world struct {
	t          require.TestingT
	ctx        context.Context //nolint:containedctx // the test's
	store      testkit.Store
	env        id.Environment
	clock      *clock.Manual
	subs       *targets
	events     *events.Store
	deliveries *deliveries.Service
}

func newWorld(t *testing.T, store testkit.Store) *world {
	t.Helper()
	clk, subs := clock.NewManual(testTime()), &targets{byID: map[string]*subscriptions.Target{}}
	list := events.New(events.Config{DB: store.DB, Deliveries: deliveries.Filter{}})
	w := &world{t: t, ctx: t.Context(), store: store, clock: clk, subs: subs, events: list,
		deliveries: deliveries.New(deliveries.Config{
			Store: deliveries.NewStore(deliveries.StoreConfig{DB: store.DB, Events: list}), Subscriptions: subs, Clock: clk,
			Logger: slog.New(slog.DiscardHandler), Batches: obs.NewBatches(),
			Options: deliveries.Options{Concurrency: 1, PerSubscription: 1, PerHost: 1, Lease: time.Minute, Node: "node"}})}
	w.newEnvironment()
	return w
}

// newEnvironment moves the world to an environment without anything in it.
func (w *world) newEnvironment() {
	w.env = id.Environment(id.New(id.PrefixEnvironment))
	team := id.New(id.PrefixTeam)
	w.exec(`INSERT INTO teams (id, name, created_ms) VALUES ($1, 'test', 0)`, team)
	w.exec(`INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, $1, 0)`, string(w.env), team)
}

func (w *world) exec(query string, args ...any) {
	_, err := w.store.DB.Write().ExecContext(w.ctx, query, args...)
	require.NoError(w.t, err)
}

func (w *world) tx(fn func(tx *sql.Tx) error) { require.NoError(w.t, w.store.DB.Tx(w.ctx, fn)) }

// node returns a service as a process has it.
func (w *world) node(name string) *Service {
	return New(Config{DB: w.store.DB, Clock: w.clock, Events: w.events, Deliveries: w.deliveries, Subscriptions: w.subs,
		Logger: slog.New(slog.DiscardHandler), Node: name})
}

// anybody is a principal in the world's environment.
func (w *world) anybody() access.Principal {
	p := access.System("test")
	p.Environment = w.env
	return p
}

func (w *world) subscription() string {
	sub := id.New(id.PrefixSubscription)
	w.subs.byID[sub] = &subscriptions.Target{ID: sub, Environment: w.env, Enabled: true}
	return sub
}

// event stores an event with deliveries in the states given, by subscription.
func (w *world) event(states map[string]deliveries.Status) string {
	now := w.clock.Now()
	e := events.NewEvent{Event: events.Event{UUID: id.NewUUID(), Environment: w.env, Type: "a.b", Verification: "{}",
		ReceivedAt: now}, Payload: &events.Payload{Headers: "{}", Encoding: events.Text}}
	change := events.Change{Environment: w.env, EventUUID: e.UUID, At: now}
	var list []deliveries.Delivery
	for sub, status := range states {
		list = append(list, deliveries.Delivery{Key: deliveries.Key{EventUUID: e.UUID, SubscriptionID: sub}, ID: id.NewUUID(),
			Environment: w.env, Status: status, Due: now.Add(time.Hour), CreatedAt: now})
		change.Counters = add(change.Counters, status, 1)
	}
	w.tx(func(tx *sql.Tx) error {
		_, apply := events.Apply([]events.Change{change}, &events.Log{At: now})
		_, err := w.store.DB.ExecAll(w.ctx, tx, append(events.Insert([]events.NewEvent{e}), deliveries.Insert(list),
			apply)...)
		return err
	})
	return e.UUID
}

// add counts n deliveries of the state.
func add(c events.Counters, s deliveries.Status, n int64) events.Counters {
	switch s {
	case deliveries.Pending:
		c.Pending += n
	case deliveries.Sending:
		c.Sending += n
	case deliveries.RetryWait:
		c.RetryWait += n
	case deliveries.Held:
		c.Held += n
	case deliveries.Succeeded:
		c.Succeeded += n
	case deliveries.Dead:
		c.Dead += n
	case deliveries.Cancelled:
		c.Cancelled += n
	}
	return c
}

// rows returns the environment's deliveries.
func (w *world) rows() map[deliveries.Key]deliveries.Delivery {
	first, err := w.events.List(w.ctx, access.Whole(w.env), events.Filter{}, all())
	require.NoError(w.t, err)
	uuids := make([]string, len(first))
	for i := range first {
		uuids[i] = first[i].UUID
	}
	byEvent, err := w.deliveries.Store().ByEvents(w.ctx, w.env, uuids)
	require.NoError(w.t, err)
	out := map[deliveries.Key]deliveries.Delivery{}
	for _, list := range byEvent {
		for _, d := range list {
			out[d.Key] = d
		}
	}
	return out
}

// sorted returns the environment's deliveries in an order that does not change.
func (w *world) sorted() []deliveries.Delivery {
	return slices.SortedFunc(maps.Values(w.rows()), func(a, b deliveries.Delivery) int {
		return cmp.Or(cmp.Compare(a.EventUUID, b.EventUUID), cmp.Compare(a.SubscriptionID, b.SubscriptionID))
	})
}

// end ends a delivery as a worker does that has tried it, or as its subscription's end does.
func (w *world) end(d deliveries.Delivery, to deliveries.Status) {
	now := w.clock.Now()
	var c events.Counters
	change := events.Change{Environment: w.env, EventUUID: d.EventUUID, At: now, Counters: add(add(c, d.Status, -1), to,
		1)}
	tries := 1
	if to == deliveries.Held || to == deliveries.Cancelled {
		tries = 0
	}
	w.tx(func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(w.ctx, `UPDATE deliveries SET status = $1, generation_attempts = generation_attempts + $2 WHERE event_uuid = $3
			AND subscription_id = $4`, string(to), tries, d.EventUUID, d.SubscriptionID); err != nil {
			return err
		}
		_, apply := events.Apply([]events.Change{change}, &events.Log{At: now})
		_, err := w.store.DB.ExecAll(w.ctx, tx, apply)
		return err
	})
}

// create makes a job.
func (w *world) create(s *Service, o Order) Replay {
	if o.RatePerSecond == 0 {
		o.RatePerSecond = MaxRate
	}
	r, err := s.Create(w.ctx, w.anybody(), o)
	require.NoError(w.t, err)
	return r
}

// read returns a job as it is stored.
func (w *world) read(replayID string) Replay {
	r, err := find(w.ctx, w.store.DB.Read(), access.Whole(w.env), replayID, "")
	require.NoError(w.t, err)
	return r
}

// finish works on a node until the job has ended, with deliveries that succeed at once.
func (w *world) finish(s *Service, replayID string) Replay {
	for range 1000 {
		r := w.read(replayID)
		if r.Status.Ended() {
			return r
		}
		s.Work(w.ctx)
		for _, d := range w.rows() {
			if d.Status == deliveries.Pending {
				w.end(d, deliveries.Succeeded)
			}
		}
		w.clock.Advance(time.Second)
	}
	require.FailNow(w.t, "the job does not end")
	return Replay{}
}
