package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// world is a service that sends nothing, over a database, at a time that stands still.
type world struct {
	*Service
	clock *clock.Manual
	subs  *targets
	env   id.Environment
}

func newWorld(t *testing.T, store testkit.Store) *world {
	t.Helper()
	w := &world{clock: clock.NewManual(testTime()), subs: &targets{byID: map[string]*subscriptions.Target{}},
		env: id.Environment(id.New(id.PrefixEnvironment))}
	w.Service = newService(store.DB, w.subs, w.clock, nil, 1, 1, 1)
	return w
}

// testLease is the lease of the services of tests. It exceeds the timeout of their subscriptions, which is await.Limit.
const testLease = 5 * await.Limit

// newService returns a service with limits, which sends by the client.
func newService(d *db.DB, subs Subscriptions, clk clock.Clock, client *egress.Client,
	concurrency, perSubscription, perHost int) *Service {
	return New(Config{
		Store:         NewStore(StoreConfig{DB: d, Events: events.New(events.Config{DB: d, Deliveries: Filter{}})}),
		Subscriptions: subs, Client: client, Clock: clk, Logger: slog.New(slog.DiscardHandler), Batches: obs.NewBatches(),
		Options: Options{Concurrency: concurrency, PerSubscription: perSubscription, PerHost: perHost,
			Lease: testLease, Node: "node"}})
}

// followSubscriptions is run of a follower that looks at all subscriptions now.
func (f *follower) followSubscriptions(ctx context.Context) time.Duration {
	f.whole, f.changes = pause{}, pause{}
	return f.run(ctx)
}

// all returns the deliveries in memory.
func (d *dispatcher) all() []Delivery {
	list, _ := d.toRenew(-1)
	return list
}

// claim leases up to limit due deliveries of each of the subscriptions, as a node that has room for them; none if some
// have changed since it read them.
func (s *Service) claim(t require.TestingT, now time.Time, limit int, subscriptionIDs ...string) []Delivery {
	asks := make([]ask, len(subscriptionIDs))
	for i, sub := range subscriptionIDs {
		asks[i] = ask{sub, limit}
	}
	name, until := s.claimer.newLease(now)
	claimed, err := s.store.claim(context.WithoutCancel(s.hard), name, now, until, asks)
	if errors.Is(err, errStale) {
		return nil
	}
	require.NoError(t, err)
	list := make([]Delivery, len(claimed))
	for i, c := range claimed {
		list[i] = c.Delivery
	}
	return list
}

// subscription makes a subscription that is enabled.
func (w *world) subscription() string {
	sub := id.New(id.PrefixSubscription)
	w.subs.byID[sub] = &subscriptions.Target{ID: sub, Environment: w.env, Enabled: true}
	return sub
}

// event returns an event whose one delivery is d to the subscription, and that delivery in full.
func (w *world) event(d Delivery, subscription string) (events.NewEvent, Delivery) {
	now := w.clock.Now()
	e := events.NewEvent{Event: events.Event{UUID: id.NewUUID(), Environment: w.env, Verification: "{}", ReceivedAt: now},
		Counters: d.counters()}
	d.EventUUID, d.SubscriptionID, d.ID, d.Environment = e.UUID, subscription, id.NewUUID(), w.env
	d.Generation, d.CreatedAt, d.UpdatedAt = 1, now, now
	return e, d
}

// insert stores events with their deliveries.
func (w *world) insert(t require.TestingT, found []events.NewEvent, list []Delivery) {
	require.NoError(t, w.db.Tx(w.hard, func(tx *sql.Tx) error {
		_, err := w.db.ExecAll(w.hard, tx, append(events.Insert(found), Insert(list))...)
		return err
	}))
}

// insertAs stores an event with deliveries in any state, and the counters that they make.
func (w *world) insertAs(t require.TestingT, e events.NewEvent, list []Delivery) {
	e.Counters = events.Counters{}
	w.insert(t, []events.NewEvent{e}, list)
	change := events.Change{Environment: w.env, EventUUID: e.UUID, At: e.ReceivedAt}
	for _, d := range list {
		change.Merge(events.Change{Counters: d.counters()})
	}
	require.NoError(t, w.db.Tx(w.hard, func(tx *sql.Tx) error {
		_, statement := events.Apply([]events.Change{change}, &events.Log{})
		_, err := w.db.ExecAll(w.hard, tx, statement)
		return err
	}))
}

// read returns a delivery as it stands.
func (w *world) read(t require.TestingT, k Key) Delivery {
	list, err := w.store.query(context.WithoutCancel(w.hard), w.db.Read(), "d.event_uuid = $1 AND d.subscription_id = $2",
		k.EventUUID, k.SubscriptionID)
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0]
}
