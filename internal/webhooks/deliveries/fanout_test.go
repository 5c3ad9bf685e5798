package deliveries

import (
	"context"
	"database/sql"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs/jobstest"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// matching returns n subscriptions that match, of which every third is paused.
func (w *world) matching(n int) []subscriptions.Matched {
	out := make([]subscriptions.Matched, n)
	for i := range out {
		out[i] = subscriptions.Matched{ID: w.subscription(), Enabled: i%3 != 0}
	}
	return out
}

// receive stores an event that the subscriptions match, as ingest does.
func (w *world) receive(t require.TestingT, matched []subscriptions.Matched) events.Event {
	w.dispatcher.pause() // nothing is sent
	e := events.Event{UUID: id.NewUUID(), Environment: w.env, Verification: "{}", ReceivedAt: w.clock.Now()}
	payload := events.Payload{Headers: "{}", Body: []byte("1"), Encoding: events.JSON}
	b := w.NewBatch(w.clock.Now())
	plan := b.Add(&e, &payload, matched)
	require.NoError(t, b.Commit(context.WithoutCancel(w.hard), func(tx *sql.Tx) error {
		found := []events.NewEvent{{Event: e, Counters: plan.Counters(), Payload: &payload}}
		_, err := w.db.ExecAll(w.hard, tx, append(events.Insert(found), b.Insert([]*Plan{plan})...)...)
		return err
	}))
	return e
}

// deliveriesOf returns the status of each delivery of an event, by subscription.
func (w *world) deliveriesOf(t require.TestingT, event string) map[string]Status {
	found, err := w.store.ByEvents(context.WithoutCancel(w.hard), access.Whole(w.env), []string{event})
	require.NoError(t, err)
	out := map[string]Status{}
	for _, d := range found[event] {
		out[d.SubscriptionID] = d.Status
	}
	require.Len(t, found[event], len(out), "one delivery for each subscription")
	return out
}

// counted returns how many deliveries an event counts as open, as held and as cancelled, and its status.
func (w *world) counted(t require.TestingT, event string) (open, held, cancelled int, status events.Status) {
	require.NoError(t, w.db.Read().QueryRowContext(w.hard, `SELECT n_pending + n_sending, n_held, n_cancelled, status
		FROM webhook_events WHERE event_uuid = $1`, event).Scan(&open, &held, &cancelled, &status))
	return open, held, cancelled, status
}

func (w *world) waitingParts(t require.TestingT) (parts, jobs int) {
	require.NoError(t, w.db.Read().QueryRowContext(w.hard, `SELECT (SELECT count(*) FROM delivery_fanout_parts),
		(SELECT count(*) FROM delivery_fanouts)`).Scan(&parts, &jobs))
	return parts, jobs
}

// finish stores what is left of all fan-outs.
func (w *world) finish(t require.TestingT) {
	w.fanouts.rest = func(context.Context, time.Duration) {}
	require.NoError(t, w.fanouts.queue.RunDue(context.WithoutCancel(w.hard)))
	parts, left := w.waitingParts(t)
	require.Equal(t, []int{0, 0}, []int{parts, left})
}

// complete requires that the event has one delivery to each subscription, held if that was paused, and counts them.
func (w *world) complete(t require.TestingT, event string, matched []subscriptions.Matched) {
	got := w.deliveriesOf(t, event)
	require.Len(t, got, len(matched))
	open, held := 0, 0
	for _, m := range matched {
		if m.Enabled {
			open++
			require.Contains(t, []Status{Pending, Sending}, got[m.ID])
		} else {
			held++
			require.Equal(t, Held, got[m.ID])
		}
	}
	countedOpen, countedHeld, _, _ := w.counted(t, event)
	require.Equal(t, []int{open, held}, []int{countedOpen, countedHeld})
}

// An event that thousands of subscriptions match is stored with the first of its deliveries, in a transaction of a
// limited number of rows, and counts all of them from the start. The rest follow in their order, a few hundred in each
// transaction, and are exactly those that matched.
func TestFanoutInParts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		matched := w.matching(firstDeliveries + 2*chunk + 1)
		small := w.matching(firstDeliveries)
		e := w.receive(t, matched)
		require.Equal(t, firstDeliveries+1+3, NewRows(len(matched)))
		parts, left := w.waitingParts(t)
		require.Equal(t, []int{3, 1}, []int{parts, left})
		other := w.receive(t, small)
		w.complete(t, other.UUID, small)
		require.Equal(t, firstDeliveries, NewRows(len(small)))

		first := w.deliveriesOf(t, e.UUID)
		require.Len(t, first, firstDeliveries)
		open, held, _, status := w.counted(t, e.UUID)
		require.Equal(t, len(matched), open+held)
		require.Equal(t, events.Received, status)
		var sizes []int
		var order []string
		w.fanouts.stored = func(env id.Environment, due []string) {
			require.Equal(t, w.env, env)
			n := len(w.deliveriesOf(t, e.UUID))
			sizes = append(sizes, n)
			order = append(order, due...)
		}
		w.finish(t)
		require.Equal(t, []int{firstDeliveries + chunk, firstDeliveries + 2*chunk, len(matched)}, sizes)
		w.complete(t, e.UUID, matched)
		var want []string
		for _, m := range matched[firstDeliveries:] {
			if m.Enabled {
				want = append(want, m.ID)
			}
		}
		require.Equal(t, want, order)
	})
}

// A fan-out that ends at any point, by a stop, an error or the loss of its process, continues where it was: no delivery
// is lost, none exists twice, and subscriptions that were created or changed meanwhile make no difference.
func TestFanoutContinues(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		matched := w.matching(firstDeliveries + 5*chunk)
		rapid.Check(t, func(rt *rapid.T) {
			e := w.receive(rt, matched)
			for range rapid.IntRange(0, 4).Draw(rt, "interruptions") {
				ctx, cancel := context.WithCancel(context.WithoutCancel(w.hard))
				left := rapid.IntRange(0, 3).Draw(rt, "parts")
				process := newService(w.db, w.subs, w.clock, nil, 1, 1, 1).fanouts
				process.rest = func(context.Context, time.Duration) {}
				process.stored = func(id.Environment, []string) {
					if left--; left <= 0 {
						cancel()
					}
				}
				if left == 0 { // the process is lost with its lease, before it has stored anything
					_, err := w.db.Write().ExecContext(ctx, `UPDATE delivery_fanouts SET claim_id = 'node:lost', lease_ms = $1`,
						w.clock.Now().Add(time.Hour).UnixMilli())
					require.NoError(rt, err)
					require.NoError(rt, process.queue.Recover(ctx))
				}
				_ = process.queue.RunDue(ctx)
				cancel()
				w.clock.Advance(time.Minute)
			}
			w.finish(rt)
			w.complete(rt, e.UUID, matched)
		})
	})
}

// A fan-out in progress follows its event: expunging the event cancels deliveries that are stored later, and one that a
// bulk replay has created is neither duplicated nor counted twice.
func TestFanoutOfAnEventThatChanges(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		matched := w.matching(firstDeliveries + chunk)
		e := w.receive(t, matched)
		p := access.Principal{Kind: access.KindUser, ID: id.New(id.PrefixUser), Name: "dev", Team: "team_x",
			Environment: w.env, Rights: access.Developer.Rights()}
		require.NoError(t, w.Expunge(t.Context(), p, e.UUID))
		w.finish(t)
		cancelled := 0
		for _, status := range w.deliveriesOf(t, e.UUID) {
			if status == Cancelled {
				cancelled++
			}
		}
		open, held, counted, _ := w.counted(t, e.UUID)
		require.Equal(t, []int{0, cancelled}, []int{held, counted})
		require.Equal(t, []int{0, len(matched)}, []int{open, cancelled})

		e = w.receive(t, matched)
		replayed := matched[firstDeliveries+1]
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			d := newDelivery(w.env, e.UUID, replayed, w.clock.Now())
			d.Generation = 2
			return w.store.create(t.Context(), tx, []Delivery{d}, w.clock.Now().UnixMilli())
		}))
		w.finish(t)
		w.complete(t, e.UUID, matched)
		require.EqualValues(t, 2, w.read(t, Key{EventUUID: e.UUID, SubscriptionID: replayed.ID}).Generation)
	})
}

// end ends all deliveries of an event that are stored.
func (w *world) end(t *testing.T, event string) {
	t.Helper()
	found, err := w.store.ByEvents(t.Context(), access.Whole(w.env), []string{event})
	require.NoError(t, err)
	var moves []move
	for _, d := range found[event] {
		if d.Status != Cancelled {
			moves = append(moves, move{from: d, to: d.cancelled(w.clock.Now())})
		}
	}
	for some := range slices.Chunk(moves, chunk) {
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			return w.store.apply(t.Context(), tx, some, w.clock.Now().UnixMilli())
		}))
	}
}

// An event is not removed by retention while deliveries of it wait to be stored, although all that are stored have
// ended; and it is when they have ended too.
func TestFanoutKeepsItsEvent(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		matched := w.matching(firstDeliveries + chunk)
		e := w.receive(t, matched)
		removable := func() (locked []events.Old) {
			remover := events.NewRemover(w.db)
			require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) (err error) {
				locked, err = remover.LockFinished(t.Context(), tx, w.env, []events.Old{{UUID: e.UUID}})
				return err
			}))
			return locked
		}
		w.end(t, e.UUID)
		require.NotContains(t, w.deliveriesOf(t, e.UUID), matched[firstDeliveries].ID)
		open, held, cancelled, _ := w.counted(t, e.UUID)
		require.Equal(t, []int{chunk, firstDeliveries}, []int{open + held, cancelled})
		require.Empty(t, removable())
		w.finish(t)
		w.end(t, e.UUID)
		open, held, cancelled, _ = w.counted(t, e.UUID)
		require.Equal(t, []int{0, len(matched)}, []int{open + held, cancelled})
		require.Len(t, removable(), 1)
	})
}

// A bulk replay that creates a delivery at the same moment as the fan-out makes the fan-out wait and not fail: the
// delivery exists once and is counted once, and the part is stored by the first attempt.
func TestFanoutNextToAReplay(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		matched := w.matching(firstDeliveries + chunk)
		e := w.receive(t, matched)
		replayed := matched[firstDeliveries : firstDeliveries+3] // one of them is paused
		w.fanouts.rest = func(context.Context, time.Duration) {}
		done := make(chan error, 1)
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			var list []Delivery
			for _, m := range replayed {
				d := newDelivery(w.env, e.UUID, m, w.clock.Now())
				d.Generation = 2
				list = append(list, d)
			}
			if err := w.store.create(t.Context(), tx, list, w.clock.Now().UnixMilli()); err != nil {
				return err
			}
			go func() { done <- w.fanouts.queue.RunDue(context.WithoutCancel(w.hard)) }()
			if w.db.Engine() == db.Postgres {
				await.Condition(t, "the fan-out waits for the replay", func() bool {
					var waiting int
					err := w.db.Read().QueryRowContext(w.hard, `SELECT COUNT(*) FROM pg_stat_activity
						WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
					return err == nil && waiting > 0
				})
			}
			return nil
		}))
		require.NoError(t, await.Value(t, "the fan-out ends", done))
		parts, left := w.waitingParts(t)
		require.Equal(t, []int{0, 0}, []int{parts, left})
		w.complete(t, e.UUID, matched)
		for _, m := range replayed {
			require.EqualValues(t, 2, w.read(t, Key{EventUUID: e.UUID, SubscriptionID: m.ID}).Generation)
		}
	})
}

// A part whose event is not there is an error, which is logged and retried, and not a part that is silently gone.
func TestFanoutWithoutItsEvent(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		event := id.NewUUID()
		_, f, err := splitFanout(w.env, event, w.matching(3), 0, w.clock.Now())
		require.NoError(t, err)
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := w.db.ExecAll(t.Context(), tx, fanoutStatements([]*fanout{f})...)
			return err
		}))
		p, _, err := w.store.nextPart(t.Context(), w.env, event)
		require.NoError(t, err)
		require.ErrorContains(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			return w.store.storePart(t.Context(), tx, w.env, event, p, w.clock.Now())
		}), "0 of 1 events found")
		parts, _ := w.waitingParts(t)
		require.Equal(t, 1, parts)
		require.Empty(t, w.deliveriesOf(t, event))
	})
}

// The backlog of fan-outs is visible: how many events wait, and since when the first of them, however often its fan-out
// has been retried.
func TestFanoutMetrics(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		gauges := func() []float64 {
			require.NoError(t, w.fanouts.measure(t.Context()))
			metrics := w.ReportFanouts(w.Module()).Metrics
			return []float64{testkit.Metric(t, metrics, "sallyport_delivery_fanouts"),
				testkit.Metric(t, metrics, "sallyport_delivery_fanouts_oldest_seconds")}
		}
		require.Equal(t, []float64{0, 0}, gauges())
		matched := w.matching(firstDeliveries + 1)
		first := w.receive(t, matched)
		w.receive(t, matched)
		w.fanouts.clock = clock.NewManual(id.Time(first.UUID).Add(90 * time.Second))
		_, err := w.db.Write().ExecContext(t.Context(), `UPDATE delivery_fanouts SET due_ms = due_ms + 60000, attempts = 5`)
		require.NoError(t, err)
		require.Equal(t, []float64{2, 90}, gauges())
		w.clock.Advance(time.Minute)
		w.finish(t)
		require.Equal(t, []float64{0, 0}, gauges())
	})
}

// The gateway's own events are stored by transactions of other things: each stores the first deliveries of its events
// only.
func TestForwardsOfOtherTransactions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		matched := w.matching(25)
		e := events.NewEvent{Event: events.Event{UUID: id.NewUUID(), Environment: w.env, Verification: "{}",
			ReceivedAt: w.clock.Now()}}
		var f Forwards
		var err error
		e.Counters, err = f.Add(w.env, e.UUID, matched, 10, w.clock.Now())
		require.NoError(t, err)
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := w.db.ExecAll(t.Context(), tx, append(events.Insert([]events.NewEvent{e}), f.Statements()...)...)
			return err
		}))
		require.Len(t, w.deliveriesOf(t, e.UUID), 10)
		w.finish(t)
		w.complete(t, e.UUID, matched)
	})
}

// The table keeps the promises of the queue.
func TestFanoutQueue(t *testing.T) {
	t.Parallel()
	jobstest.Conform(t, func(_ *testing.T, store testkit.Store) jobstest.Fixture {
		return jobstest.Fixture{Table: fanoutTable(),
			Insert: func(ctx context.Context, tx *sql.Tx, key string, due time.Time) (string, error) {
				f := &fanout{environment: id.Environment(key), event: id.NewUUID(), due: due}
				_, err := store.DB.ExecAll(ctx, tx, []db.Statement{fanoutStatements([]*fanout{f})[0]}...)
				return f.event, err
			}}
	})
}
