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
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/jobs/jobstest"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/eventtypes"
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

func (*targets) TypeRules(context.Context, id.Environment, subscriptions.Origin) (eventtypes.Rules, error) {
	return eventtypes.Rules{}, nil
}

func (*targets) Warnings(context.Context, *subscriptions.Subscription) []subscriptions.Warning {
	return nil
}

func (*targets) TestedTypes(context.Context, *subscriptions.Subscription, string) []subscriptions.TestedType {
	return nil
}

func (f *targets) Disable(context.Context, id.Environment, string, string) error { return nil }

// world is a database with events and deliveries that are not sent, at a time that stands still.
type world struct {
	t          require.TestingT
	ctx        context.Context //nolint:containedctx // the test's
	store      testkit.Store
	env        id.Environment
	clock      *clock.Manual
	subs       *targets
	events     *events.Store
	deliveries *deliveries.Service
	nodes      []*node
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
	t.Cleanup(func() {
		w.t = t
		w.endNodes()
	})
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

// service returns a Service whose queue runs by itself once it is started.
func (w *world) service(name string) *Service {
	return New(Config{DB: w.store.DB, Clock: w.clock, Events: w.events, Deliveries: w.deliveries, Subscriptions: w.subs,
		Logger: slog.New(slog.DiscardHandler), Node: name})
}

// node is a process whose replays take their steps when the test says so. Claims, leases and outcomes are the queue's.
type node struct {
	*Service
	w      *world
	worker *jobstest.Worker
	hands  []*hand
}

// hand is a replay that a node has claimed.
type hand struct {
	*holder
	run *jobstest.Run
	// until is when the next step is due.
	until time.Time
}

// node returns a process of the name given.
func (w *world) node(name string) *node {
	n := &node{Service: w.service(name), w: w, worker: jobstest.NewWorker()}
	c := n.queueConfig()
	c.Handle, c.Observe = n.worker.Handle, n.worker.Observe
	n.queue = jobs.New(c)
	w.nodes = append(w.nodes, n)
	return n
}

// endNodes stops every node.
func (w *world) endNodes() {
	over, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	cancel()
	for _, n := range w.nodes {
		n.worker.Free()
		require.NoError(w.t, n.queue.Stop(over))
	}
	w.nodes = nil
}

// claim claims the replays that are due, and returns them.
func (n *node) claim() (claimed []*hand) {
	count := 1
	for count > 0 {
		var err error
		count, err = n.queue.Claim(n.w.ctx)
		require.NoError(n.w.t, err)
		for range count {
			run := n.worker.Next(n.w.t)
			h, err := n.openReplay(n.w.ctx, run.Job)
			require.NoError(n.w.t, err)
			claimed = append(claimed, &hand{holder: h, run: run})
		}
	}
	n.hands = append(n.hands, claimed...)
	return claimed
}

// step takes one step of a replay, as the queue's handler does, and lets the queue store what ends it.
func (n *node) step(h *hand) error {
	end, next, err := h.takeTurn(n.w.ctx)
	h.until = next
	switch {
	case err != nil:
		n.drop(h)
		h.run.End(n.w.t, jobs.Outcome{}, err)
	case end != nil:
		n.drop(h)
		h.run.End(n.w.t, *end, nil)
	}
	return err
}

func (n *node) drop(h *hand) {
	n.hands = slices.DeleteFunc(n.hands, func(o *hand) bool { return o == h })
}

// work claims what is due and takes one step of each replay that the node holds, if it is due. Errors are the queue's.
func (n *node) work() {
	n.claim()
	for _, h := range slices.Clone(n.hands) {
		if !h.until.After(n.w.clock.Now()) {
			_ = n.step(h) // the queue has it
		}
	}
}

// yield releases the node's replays, as its handlers do when the process stops.
func (n *node) yield() {
	for _, h := range n.hands {
		h.run.End(n.w.t, jobs.Again(h.until, nil), nil)
	}
	n.hands = nil
}

// anyone is a principal in the world's environment.
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
	first, _, err := w.events.List(w.ctx, access.Whole(w.env), events.Filter{}, all())
	require.NoError(w.t, err)
	uuids := make([]string, len(first))
	for i := range first {
		uuids[i] = first[i].UUID
	}
	byEvent, err := w.deliveries.Store().ByEvents(w.ctx, access.Whole(w.env), uuids)
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

// end ends a delivery as a worker does after an attempt, or as its subscription's end does.
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
		if _, err := tx.ExecContext(w.ctx, `UPDATE deliveries SET status = $1, generation_attempts = generation_attempts + $2
			WHERE event_uuid = $3
			AND subscription_id = $4`, string(to), tries, d.EventUUID, d.SubscriptionID); err != nil {
			return err
		}
		_, apply := events.Apply([]events.Change{change}, &events.Log{At: now})
		_, err := w.store.DB.ExecAll(w.ctx, tx, apply)
		return err
	})
}

// create creates a replay.
func (w *world) create(s *Service, o Order) Replay {
	if o.RatePerSecond == 0 {
		o.RatePerSecond = MaxRate
	}
	r, err := s.Create(w.ctx, w.anybody(), o)
	require.NoError(w.t, err)
	return r
}

// read returns a replay as it is stored.
func (w *world) read(replayID string) Replay {
	r, err := find(w.ctx, w.store.DB.Read(), access.Whole(w.env), replayID, "")
	require.NoError(w.t, err)
	return r
}

// finish works on a node until the replay has ended, with deliveries that succeed immediately.
func (w *world) finish(n *node, replayID string) Replay {
	for range 1000 {
		r := w.read(replayID)
		if r.Status.hasEnded() {
			return r
		}
		n.work()
		for _, d := range w.rows() {
			if d.Status == deliveries.Pending {
				w.end(d, deliveries.Succeeded)
			}
		}
		w.clock.Advance(time.Second)
	}
	require.FailNow(w.t, "the replay does not end")
	return Replay{}
}
