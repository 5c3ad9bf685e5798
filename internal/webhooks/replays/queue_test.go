package replays

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/jobs/jobstest"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/deliveries"
)

// The table of replays keeps what every queue promises.
func TestTableIsAQueue(t *testing.T) {
	t.Parallel()
	jobstest.Conform(t, func(t *testing.T, store testkit.Store) jobstest.Fixture {
		t.Helper()
		w := newWorld(t, store)
		environments := map[id.Environment]bool{}
		return jobstest.Fixture{Table: queueTable(),
			Insert: func(ctx context.Context, tx *sql.Tx, key string, due time.Time) (string, error) {
				env := id.Environment(key)
				if !environments[env] {
					environments[env] = true
					if _, err := tx.ExecContext(ctx, `INSERT INTO environments (id, team_id, name, created_ms)
						SELECT $1, team_id, $1, 0 FROM environments WHERE id = $2`, key, string(w.env)); err != nil {
						return "", err
					}
				}
				r := Replay{ID: id.New(id.PrefixReplay), Environment: env, Status: Queued, CreatedAt: clock.FromMillis(0),
					UpdatedAt: clock.FromMillis(0), work: work{due: due}}
				return r.ID, insert(ctx, tx, &r)
			}}
	})
}

// A change of its state takes a replay from its worker: the worker stores nothing more, and once the replay is resumed
// any process can claim it immediately.
func TestPauseTakesTheReplayFromItsWorker(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		one, two := w.node("one"), w.node("two")
		for range 3 {
			w.event(map[string]deliveries.Status{w.subscription(): deliveries.Dead})
		}
		r := w.create(one.Service, Order{Filter: Filter{All: true}, RatePerSecond: 1})
		one.work()
		_, err := two.Pause(t.Context(), w.anybody(), r.ID)
		require.NoError(t, err)
		w.clock.Advance(time.Second)
		require.Empty(t, two.claim(), "a paused replay is not claimed")
		_, err = two.Resume(t.Context(), w.anybody(), r.ID)
		require.NoError(t, err)
		require.Len(t, two.claim(), 1)
		require.ErrorIs(t, one.step(one.hands[0]), jobs.ErrLost)
		require.EqualValues(t, 1, w.read(r.ID).Replayed)
		two.work()
		require.EqualValues(t, 2, w.read(r.ID).Replayed)
	})
}

// A process that is started runs replays to their end by itself, and releases those that it has when it stops, so that
// another process can go on immediately and at the same rate.
func TestProcessRunsReplays(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		s, sub := w.service("one"), w.subscription()
		for range 2 * window {
			w.event(map[string]deliveries.Status{sub: deliveries.Dead})
		}
		require.NoError(t, s.queue.Start(t.Context()))
		defer func() { require.NoError(t, s.queue.Stop(t.Context())) }()
		until := func(happened func() bool) {
			// The loops that claim and that renew leases wait for their timers.
			const loops = 2
			for !happened() {
				require.NoError(t, w.clock.AwaitTimers(t.Context(), loops, leaseTime))
				w.clock.Advance(openWait)
			}
		}
		fast := w.create(s, Order{Filter: Filter{All: true}})
		until(func() bool {
			for _, d := range w.rows() {
				if d.Status == deliveries.Pending {
					w.end(d, deliveries.Succeeded)
				}
			}
			return w.read(fast.ID).Status.hasEnded()
		})
		got := w.read(fast.ID)
		require.Equal(t, Completed, got.Status)
		require.EqualValues(t, 2*window, got.Succeeded)

		slow := w.create(s, Order{Filter: Filter{All: true}, Force: true, RatePerSecond: 1})
		until(func() bool { return w.read(slow.ID).Replayed > 0 })
		require.NoError(t, s.queue.Drain(t.Context()))
		require.NoError(t, s.queue.Stop(t.Context()))
		before := w.read(slow.ID)
		require.Equal(t, Running, before.Status)
		two := w.node("two")
		if before.work.due.After(w.clock.Now()) {
			require.Empty(t, two.claim(), "the rate")
			w.clock.Advance(time.Second)
		}
		two.work()
		require.Equal(t, before.Replayed+1, w.read(slow.ID).Replayed)
	})
}
