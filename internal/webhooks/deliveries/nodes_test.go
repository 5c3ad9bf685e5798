package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// check compares the database with the model.
func (n *nodes) check() {
	ctx := n.t.Context()
	rows, err := n.all[0].store.query(ctx, n.db.Read(), "1 = 1")
	require.NoError(n.rt, err)
	byEvent := map[string]map[string]Delivery{}
	for _, d := range rows {
		if byEvent[d.EventUUID] == nil {
			byEvent[d.EventUUID] = map[string]Delivery{}
		}
		byEvent[d.EventUUID][d.SubscriptionID] = d
	}
	stored, recorded := n.storedEvents(ctx), n.recordedAttempts(ctx)
	require.Len(n.rt, stored, len(n.model))
	for uuid, e := range n.model {
		got := byEvent[uuid]
		require.Len(n.rt, got, len(e.deliveries), "one delivery per event and subscription")
		var attempts int64
		for sub, m := range e.deliveries {
			d := got[sub]
			require.Equal(n.rt, fmt.Sprint(m.status, m.generation, m.inGeneration, m.attempts, m.lost, m.claim),
				fmt.Sprint(d.Status, d.Generation, d.GenerationAttempts, d.AttemptCount, d.LeasesLost, d.ClaimID), "%v", d.Key)
			require.WithinDuration(n.rt, m.due, d.Due, 0, "%v, which is %s", d.Key, d.Status)
			for _, count := range m.successes {
				require.LessOrEqual(n.rt, count, 1, "one recorded success per generation")
			}
			attempts += m.attempts
		}
		row := stored[uuid]
		require.Equal(n.rt, e.status(), row.status, "by the table; the counters are %+v", e.counters())
		require.Equal(n.rt, attempts, row.attempts)
		require.Equal(n.rt, e.counters(), row.counters, "the counters of event %s", uuid)
		require.Equal(n.rt, e.records(), recorded[uuid], "recorded attempts of event %s", uuid)
	}
	for _, w := range n.all {
		for _, other := range n.all {
			for k, d := range w.memory {
				if o, both := other.memory[k]; both && other != w {
					require.False(n.rt, n.holds(d) && n.holds(o), "two nodes have the lease of %v", k)
				}
			}
		}
	}
}

// storedEvent is what the row of an event says about its deliveries.
type storedEvent struct {
	status   events.Status
	attempts int64
	counters events.Counters
}

// storedEvents returns all events.
func (n *nodes) storedEvents(ctx context.Context) map[string]storedEvent {
	out := map[string]storedEvent{}
	n.query(ctx, `SELECT event_uuid, status, attempt_count, n_sending, n_pending, n_retry_wait, n_held, n_held_failed,
		n_dead, n_succeeded, n_cancelled, n_tried FROM webhook_events`, func(r *sql.Rows) error {
		var uuid string
		var e storedEvent
		c := &e.counters
		err := r.Scan(&uuid, &e.status, &e.attempts, &c.Sending, &c.Pending, &c.RetryWait, &c.Held, &c.HeldFailed, &c.Dead,
			&c.Succeeded, &c.Cancelled, &c.Attempted)
		out[uuid] = e
		return err
	})
	return out
}

// records counts attempts: those that are recorded as the outcome of a delivery, those of them that succeeded, and
// those that came too late to be one.
type records struct{ outcomes, successes, superseded int64 }

// records returns the counts that the database must hold.
func (e *modelledEvent) records() (r records) {
	for _, m := range e.deliveries {
		r.outcomes += m.attempts
		r.superseded += m.superseded
		for _, count := range m.successes {
			r.successes += int64(count)
		}
	}
	return r
}

// recordedAttempts returns the counts of all events.
func (n *nodes) recordedAttempts(ctx context.Context) map[string]records {
	out := map[string]records{}
	n.query(ctx, `SELECT event_uuid, COUNT(*) FILTER (WHERE outcome <> 'superseded'),
		COUNT(*) FILTER (WHERE outcome = 'succeeded'), COUNT(*) FILTER (WHERE outcome = 'superseded')
		FROM delivery_attempts GROUP BY event_uuid`, func(r *sql.Rows) error {
		var uuid string
		var c records
		err := r.Scan(&uuid, &c.outcomes, &c.successes, &c.superseded)
		out[uuid] = c
		return err
	})
	return out
}

func (n *nodes) query(ctx context.Context, query string, scan func(r *sql.Rows) error) {
	rows, err := n.db.Read().QueryContext(ctx, query) //nolint:rowserrcheck // Each checks it
	require.NoError(n.rt, err)
	require.NoError(n.rt, db.Each(rows, scan))
}

// Two nodes that work on one database in any order, with leases that end while their node still believes in them, do
// with every delivery what the model says: receipts, duplicates, fan-outs in parts, claims, deliveries that give way,
// outcomes, lost and renewed leases, crashes, changes of subscriptions, replays, redeliveries, removed and expired
// payloads. No success is recorded twice, and no two nodes have one lease.
func TestNodesFollowTheModel(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		rapid.Check(t, func(rt *rapid.T) {
			for _, table := range []string{"delivery_stats", "delivery_attempts", "delivery_fanout_parts", "delivery_fanouts",
				"deliveries", "webhook_event_payloads", "webhook_events", "audit_events"} {
				_, err := store.DB.Write().ExecContext(t.Context(), "DELETE FROM "+table)
				require.NoError(t, err)
			}
			n := newNodes(t, rt, store)
			n.run()
		})
	})
}

// run draws the steps.
func (n *nodes) run() {
	node := func() *worker { return n.all[rapid.IntRange(0, len(n.all)-1).Draw(n.rt, "node")] }
	event := func() string {
		if len(n.model) == 0 {
			n.rt.Skip("no event yet")
		}
		return rapid.SampledFrom(slices.Sorted(maps.Keys(n.model))).Draw(n.rt, "event")
	}
	original := func() string {
		uuid := event()
		if other := n.model[uuid].duplicateOf; other != "" {
			return other
		}
		return uuid
	}
	sub := func() string {
		return rapid.SampledFrom(slices.Sorted(maps.Keys(n.subs.byID))).Draw(n.rt, "subscription")
	}
	some := func(w *worker) (keys []Key) {
		for _, k := range sortedKeys(w.memory) {
			if rapid.Bool().Draw(n.rt, "this one") {
				keys = append(keys, k)
			}
		}
		return keys
	}
	end := func() outcome {
		now, status := n.clock.Now(), 500
		return rapid.SampledFrom([]outcome{{At: now}, {At: now, HTTPStatus: &status,
			Failure: &Failure{Code: codeUnexpectedStatus, Message: "m", At: now}}, {At: now, Permanent: true,
			Failure: &Failure{Code: codeGone, Message: "m", At: now}}}).Draw(n.rt, "outcome")
	}
	wait := func(most time.Duration) time.Duration {
		return time.Duration(rapid.IntRange(1, int(most/time.Second)).Draw(n.rt, "seconds")) * time.Second
	}
	all := func(w *worker) []Key { return sortedKeys(w.memory) }
	always := func(o outcome) func() outcome {
		return func() outcome {
			o.At = n.clock.Now()
			return o
		}
	}
	refused := always(outcome{Permanent: true, Failure: &Failure{Code: codeGone, Message: "m", At: n.clock.Now()}})
	n.rt.Repeat(map[string]func(*rapid.T){
		"":       func(*rapid.T) { n.check() },
		"ingest": func(*rapid.T) { n.ingest(node(), func() bool { return rapid.Bool().Draw(n.rt, "leased") }) },
		"ingestMany": func(*rapid.T) {
			n.ingestMany(rapid.IntRange(0, 2).Draw(n.rt, "first"))
		},
		"storeRest": func(*rapid.T) { n.storeRest(node(), original()) },
		"duplicate": func(*rapid.T) { n.duplicate(node(), original()) },
		"claim":     func(*rapid.T) { n.claim(node(), rapid.IntRange(1, 5).Draw(n.rt, "limit")) },
		"giveWay": func(*rapid.T) {
			w := node()
			n.giveWay(w, some(w), n.clock.Now().Add(-wait(time.Minute)))
		},
		"finish": func(*rapid.T) {
			w := node()
			n.finish(w, some(w), end)
		},
		"release": func(*rapid.T) {
			w := node()
			n.release(w, some(w))
		},
		"crash":   func(*rapid.T) { n.crash(node(), rapid.Bool().Draw(n.rt, "restart")) },
		"recover": func(*rapid.T) { n.recover(node()) },
		"renew":   func(*rapid.T) { n.renew(node()) },
		"wait":    func(*rapid.T) { n.clock.Advance(wait(time.Minute)) },
		"outlast": func(*rapid.T) { n.clock.Advance(nodesLease + time.Second) },
		"disable": func(*rapid.T) { n.change(node(), sub(), func(t *subscriptions.Target) { t.Enabled = false }) },
		"enable":  func(*rapid.T) { n.change(node(), sub(), func(t *subscriptions.Target) { t.Enabled = true }) },
		"delete": func(*rapid.T) {
			n.change(node(), sub(), func(t *subscriptions.Target) { t.Deleted = true })
			n.subscribe()
		},
		"follow":      func(*rapid.T) { n.follow(node()) },
		"replay":      func(*rapid.T) { n.replay(node(), event(), false) },
		"forceReplay": func(*rapid.T) { n.replay(node(), event(), true) },
		"redeliver":   func(*rapid.T) { n.redeliver(node(), original()) },
		"expunge":     func(*rapid.T) { n.expunge(node(), event()) },
		"endExpired":  func(*rapid.T) { n.endExpired(node(), n.clock.Now().Add(-wait(10*time.Minute))) },
		// Single steps rarely lead there: a node works on with leases that another has.
		"takeOver": func(*rapid.T) {
			late, other := n.all[0], n.all[1]
			n.ingest(late, func() bool { return true })
			n.claim(late, 5)
			n.clock.Advance(nodesLease + time.Second)
			n.recover(other)
			n.claim(other, 5)
			n.check()
			n.clock.Advance(wait(time.Minute))
			keys := all(late)
			rapid.SampledFrom([]func(){func() { n.renew(late) }, func() { n.finish(late, keys, end) },
				func() { n.giveWay(late, keys, n.clock.Now()) }, func() { n.release(late, keys) }}).Draw(n.rt, "then")()
		},
		// Deliveries lose many leases in a row, perhaps with an attempt between them.
		"loseLeases": func(*rapid.T) {
			n.ingestMany(3)
			for range rapid.IntRange(1, 6).Draw(n.rt, "leases") {
				n.claim(n.all[0], 5)
				if rapid.IntRange(0, 5).Draw(n.rt, "an attempt") == 0 {
					n.finish(n.all[0], some(n.all[0]), end)
				}
				n.crash(n.all[0], true)
			}
		},
		// Everything dies, is redelivered and dies again, before or after the time in which that happens once.
		"redeliverTwice": func(*rapid.T) {
			w := node()
			uuid := n.ingest(w, func() bool { return true })
			for range 2 {
				n.claim(w, 5)
				n.finish(w, all(w), refused)
				n.check()
				n.redeliver(w, uuid)
				n.clock.Advance(time.Duration(rapid.IntRange(4, 6).Draw(n.rt, "minutes")) * time.Minute)
			}
		},
		// Deliveries with a past are held in a generation without one.
		"restartHeld": func(*rapid.T) {
			w, held := node(), sub()
			uuid := n.ingest(w, func() bool { return true })
			for range 3 {
				n.finish(w, all(w), end)
				n.clock.Advance(time.Minute)
				n.claim(w, 5)
			}
			n.release(w, all(w))
			n.change(w, held, func(t *subscriptions.Target) { t.Enabled = false })
			n.replay(w, uuid, rapid.Bool().Draw(n.rt, "force"))
		},
	})
}
