package retention

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// A payload is removed when it expires, an event with all its parts when the event does, and neither a millisecond
// sooner. Another environment has its own times.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		env, other := w.environment(30, 90), w.environment(3, 40)
		start := w.clk.Now()
		e := w.add(t, event{env: env, received: start, body: "x", states: []deliveries.Status{deliveries.Succeeded,
			deliveries.Dead}, attempts: 3, bodyKeyUntil: start.Add(time.Hour)})
		repeat := w.add(t, event{env: env, received: start.Add(time.Millisecond), duplicate: true})
		foreign := w.add(t, event{env: other, received: start, body: "y"})
		all := map[string]int{"webhook_events": 3, "webhook_event_payloads": 2, "webhook_event_keys": 3, "deliveries": 2,
			"delivery_attempts": 3}
		w.run()
		require.Equal(t, all, w.counts(t))

		w.clk.Advance(time.Hour)
		w.run()
		all["webhook_event_keys"]-- // the window is over
		require.Equal(t, all, w.counts(t))

		w.clk.Advance(3*day - time.Hour - time.Millisecond)
		w.run()
		require.Equal(t, all, w.counts(t))
		require.False(t, w.seen(other)[0].PayloadExpired)
		w.clk.Advance(time.Millisecond)
		require.True(t, w.seen(other)[0].PayloadExpired, "at once for who reads")
		w.run()
		all["webhook_event_payloads"]--
		require.Equal(t, all, w.counts(t))

		w.clk.Advance(27*day - time.Millisecond)
		w.run()
		require.Equal(t, all, w.counts(t))
		shown := w.seen(env)
		require.False(t, shown[0].PayloadExpired)
		require.Equal(t, start.Add(30*day), *shown[0].PayloadExpiresAt)
		require.Equal(t, start.Add(90*day), shown[0].ExpiresAt)
		require.Nil(t, shown[1].PayloadExpiresAt)
		w.clk.Advance(time.Millisecond)
		w.run()
		delete(all, "webhook_event_payloads")
		require.Equal(t, all, w.counts(t))
		shown = w.seen(env)
		require.True(t, shown[0].PayloadExpired)
		require.False(t, shown[1].PayloadExpired, "a repeat never had one")
		payloads, err := w.stored.Payloads(t.Context(), env, shown)
		require.NoError(t, err)
		require.Empty(t, payloads)

		w.clk.Advance(10 * day)
		w.run()
		require.Empty(t, w.seen(other))
		_, err = w.stored.Get(t.Context(), access.Whole(other), foreign.UUID)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		require.Equal(t, map[string]int{"webhook_events": 2, "webhook_event_keys": 1, "deliveries": 2,
			"delivery_attempts": 3}, w.counts(t))
		w.clk.Advance(50*day - time.Millisecond)
		w.run()
		require.Len(t, w.seen(env), 2)
		w.clk.Advance(time.Millisecond)
		w.run()
		require.Equal(t, []string{repeat.UUID}, []string{w.seen(env)[0].UUID}, "a repeat goes by its own time")
		require.Equal(t, map[string]int{"webhook_events": 1}, w.counts(t))
		w.clk.Advance(time.Millisecond)
		w.run()
		require.Empty(t, w.counts(t))
		require.Equal(t, []int{3, 2, 3, 3}, []int{w.removedSoFar("event"), w.removedSoFar("delivery"),
			w.removedSoFar("attempt"), w.removedSoFar("key")})
		_, err = w.stored.Get(t.Context(), access.Whole(env), e.UUID)
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
	})
}

// A waiting delivery ends with the payload and says why. One that is being sent is left to its worker, and keeps its
// event until then.
func TestOpenDeliveriesEndWithThePayload(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		env := w.environment(1, 1)
		e := w.add(t, event{env: env, received: w.clk.Now(), body: "x", states: []deliveries.Status{
			deliveries.Pending, deliveries.RetryWait, deliveries.Held, deliveries.Sending, deliveries.Succeeded,
			deliveries.Cancelled}})
		w.clk.Advance(day)
		w.run()
		require.Equal(t, []string{"cancelled", "dead held_expired", "dead payload_expired", "dead payload_expired", "sending",
			"succeeded"}, w.states(t, e))
		require.Equal(t, 3, w.removedSoFar("ended"))
		require.Equal(t, events.Forwarding, w.seen(env)[0].Status)
		require.Zero(t, w.overdueBy("event"))
		w.clk.Advance(time.Hour)
		w.run()
		require.Equal(t, time.Hour, w.overdueBy("event"), "the metric tells of an event that is held up")

		_, err := s.DB.Write().ExecContext(t.Context(),
			"UPDATE deliveries SET status = 'retry_wait' WHERE status = 'sending'")
		require.NoError(t, err)
		_, err = s.DB.Write().ExecContext(t.Context(), "UPDATE webhook_events SET n_sending = 0, n_retry_wait = 1")
		require.NoError(t, err)
		w.run()
		require.Empty(t, w.counts(t), "what the try left open ended, and with it the event")
		require.Zero(t, w.overdueBy("event"))
	})
}

// A setting that is made shorter takes what is stored along; one that is made longer keeps what is left, and brings
// nothing back.
func TestChangedSettings(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		env := w.environment(30, 90)
		longer := w.environment(60, 90) // so that PostgreSQL deletes the other's row by row
		w.add(t, event{env: longer, received: w.clk.Now(), body: "z"})
		first := w.add(t, event{env: env, received: w.clk.Now(), body: "x"})
		w.clk.Advance(10 * day)
		second := w.add(t, event{env: env, received: w.clk.Now(), body: "y"})
		w.keep(env, 5, 20)
		require.True(t, w.seen(env)[0].PayloadExpired)
		w.run()
		require.Equal(t, 2, w.counts(t)["webhook_event_payloads"])
		w.keep(env, 50, 80)
		w.run()
		shown := w.seen(env)
		require.Equal(t, []string{first.UUID, second.UUID}, []string{shown[0].UUID, shown[1].UUID})
		require.True(t, shown[0].PayloadExpired, "what has gone does not come back")
		require.Nil(t, shown[0].PayloadExpiresAt)
		require.False(t, shown[1].PayloadExpired)
		require.Equal(t, second.ReceivedAt.Add(50*day), *shown[1].PayloadExpiresAt)
		payloads, err := w.stored.Payloads(t.Context(), env, shown)
		require.NoError(t, err)
		require.Len(t, payloads, 1)

		w.keep(env, 1, 10)
		w.run()
		require.Equal(t, second.UUID, w.seen(env)[0].UUID)
		w.keep(env, 1, 9)
		w.clk.Advance(9 * day)
		w.run()
		require.Empty(t, w.seen(env))
	})
}

// An event with more rows than a transaction may delete goes in several, and a large payload does not take others along
// into one transaction.
func TestLargeEvents(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		env := w.environment(1, 2)
		many := make([]deliveries.Status, 2*mostLimit)
		for i := range many {
			many[i] = deliveries.Cancelled
		}
		w.add(t, event{env: env, received: w.clk.Now(), states: many, attempts: 2 * mostLimit})
		w.add(t, event{env: env, received: w.clk.Now(), body: strings.Repeat("a", 3<<20)})
		w.add(t, event{env: env, received: w.clk.Now(), body: strings.Repeat("b", 3<<20)})
		w.clk.Advance(2 * day)
		w.run()
		require.Empty(t, w.counts(t))
		require.Equal(t, []int{3, 2 * mostLimit, 2 * mostLimit}, []int{w.removedSoFar("event"), w.removedSoFar("delivery"),
			w.removedSoFar("attempt")})
	})
}

// A worker that ends in the middle, however often and wherever, leaves what the next one finishes.
func TestStopInTheMiddle(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		env := w.environment(1, 2)
		for range 150 {
			w.add(t, event{env: env, received: w.clk.Now(), body: "x", states: []deliveries.Status{deliveries.Held},
				attempts: 1})
		}
		w.clk.Advance(3 * day)
		for n := 0; len(w.counts(t)) > 0; n++ {
			require.Less(t, n, 50, "every run gets on")
			ctx, cancel := context.WithCancel(t.Context())
			next := w.process(s.DB)
			chunks := 0
			next.pace.rest = func(context.Context, time.Duration) {
				if chunks++; chunks == 2 {
					cancel()
				}
			}
			if err := next.removeExpired(ctx); err != nil {
				require.ErrorIs(t, err, context.Canceled)
			}
			cancel()
		}
	})
}

// While one node removes, another does not, and says that nothing is overdue with it.
func TestOneNodeAtATime(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() != db.Postgres {
			t.Skip("on SQLite there is one process")
		}
		w := newWorld(t, s)
		w.add(t, event{env: w.environment(1, 1), received: w.clk.Now()})
		w.clk.Advance(day)
		lock, ok, err := s.DB.TryLock(t.Context(), db.LockRetention)
		require.NoError(t, err)
		require.True(t, ok)
		w.run()
		require.NotEmpty(t, w.counts(t))
		require.NoError(t, lock.Unlock(t.Context()))
		w.run()
		require.NotContains(t, w.counts(t), "webhook_events")
	})
}

// However long a round takes, events go on to appear in the live stream: positions in their log are given meanwhile.
func TestStreamGoesOnMeanwhile(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		env := w.environment(1, 90)
		w.add(t, event{env: env, received: w.clk.Now()})
		sequenced := int64(0)
		w.Lifetimes = asked(func() {
			log := events.Log{At: w.clk.Now()}
			log.Received(env, id.NewUUID())
			require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				_, err := s.DB.ExecAll(t.Context(), tx, log.Statement())
				return err
			}))
			stream := events.NewLogStore(w.DB)
			before, err := stream.Head(t.Context())
			require.NoError(t, err)
			require.NoError(t, stream.Sequence(t.Context()))
			after, err := stream.Head(t.Context())
			require.NoError(t, err)
			if s.DB.Engine() == db.Postgres { // SQLite's records have theirs immediately
				require.Greater(t, after, before)
			}
			sequenced++
		})
		w.run()
		require.Positive(t, sequenced)
	})
}

// asked is called on every request for lifetimes, which are a day.
type asked func()

// Lifetimes implements events.Retention.
func (a asked) Lifetimes(context.Context, id.Environment) (events.Lifetimes, error) {
	a()
	return events.Lifetimes{Payload: day, Event: day}, nil
}

// Payloads of a day are dropped with its partition once they have expired in every environment. Those of environments
// with shorter times are deleted one by one, and those outside any day's partition too.
func TestPartitions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() != db.Postgres {
			t.Skip("SQLite has no partitions")
		}
		w := newWorld(t, s)
		short, long := w.environment(1, 90), w.environment(3, 90)
		before := w.clk.Now().Add(-time.Hour)
		w.add(t, event{env: long, received: before, body: "in the default partition"})
		next := w.clk.Now().Truncate(day).Add(day)
		require.NoError(t, w.partitions.Ensure(t.Context(), next))
		for _, env := range []id.Environment{short, long} {
			w.add(t, event{env: env, received: next, body: "x"})
			w.add(t, event{env: env, received: next.Add(day - time.Millisecond), body: "y"})
			w.add(t, event{env: env, received: next.Add(day), body: "z"})
		}
		at := func(now time.Time) (payloads, partitions int) {
			w.clk.Advance(now.Sub(w.clk.Now()))
			w.run()
			require.NoError(t, s.DB.Read().QueryRowContext(t.Context(),
				"SELECT COUNT(*) FROM pg_inherits WHERE inhparent = 'webhook_event_payloads'::regclass").
				Scan(&partitions))
			return w.counts(t)["webhook_event_payloads"], partitions
		}
		want := func(payloads, partitions int, now time.Time) {
			t.Helper()
			p, n := at(now)
			require.Equal(t, []int{payloads, partitions}, []int{p, n}, now)
		}
		want(7, 5, next.Add(day-time.Millisecond))
		want(6, 5, next.Add(day))
		want(4, 5, next.Add(2*day))
		want(3, 5, before.Add(3*day+day)) // the default partition's
		want(3, 5, next.Add(4*day-2*time.Millisecond))
		want(1, 4, next.Add(4*day-time.Millisecond))
		require.Zero(t, w.overdueBy("payload"))
		want(0, 2, next.Add(6*day))
		require.Equal(t, 3, w.removedSoFar("partition"))
		w.keep(long, 80, 90)
		for _, e := range w.seen(long) {
			require.True(t, e.PayloadExpired, "what has gone does not come back")
		}
	})
}

// A partition that is being read is left for later, and nothing waits for it.
func TestBusyPartition(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() != db.Postgres {
			t.Skip("SQLite has no partitions")
		}
		w := newWorld(t, s)
		env := w.environment(1, 9)
		require.NoError(t, w.partitions.Ensure(t.Context(), w.clk.Now()))
		w.add(t, event{env: env, received: w.clk.Now(), body: "x"})
		w.clk.Advance(3 * day)
		tx, err := s.DB.Read().BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "SELECT COUNT(*) FROM webhook_event_payloads")
		require.NoError(t, err)
		w.run()
		require.Equal(t, 1, w.counts(t)["webhook_event_payloads"])
		require.Positive(t, w.overdueBy("payload"))
		require.NoError(t, tx.Rollback())
		w.run()
		require.Zero(t, w.counts(t)["webhook_event_payloads"])
		require.Zero(t, w.overdueBy("payload"))
	})
}

// Keys go with their event alone: one that another event has taken over meanwhile stays.
func TestKeysGoWithTheirEvent(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		env := w.environment(1, 1)
		old := w.add(t, event{env: env, received: w.clk.Now(), key: "k"})
		holder := id.NewUUID()
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE webhook_event_keys SET event_uuid = $1", holder)
			return err
		}))
		w.clk.Advance(day)
		w.run()
		require.Equal(t, map[string]int{"webhook_event_keys": 1}, w.counts(t))
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			holders, err := events.NewKeys(w.DB).Claim(t.Context(), tx, []*events.Key{{ConnectionUUID: old.ConnectionUUID,
				Hash: events.HashID("k"), EventUUID: id.NewUUID(), ExpiresMillis: events.KeyForever}}, clock.Millis(w.clk.Now()))
			require.Equal(t, []string{holder}, holders)
			return err
		}))
	})
}

// Statistics by the minute become hours after a day, and hours go when events of their age would; once an hour
// suffices.
func TestStatistics(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		env := w.environment(1, 3)
		insert := func(width time.Duration, start time.Time) {
			_, err := s.DB.Write().ExecContext(t.Context(), `INSERT INTO delivery_stats (subscription_id, width_ms, start_ms,
					measure, class, environment_id, n)
				VALUES ('sub', $1, $2, 'failed', 0, $3, 1)`, width.Milliseconds(), clock.Millis(start), string(env))
			require.NoError(t, err)
		}
		rows := func() (minutes, hours int) {
			require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), `SELECT COUNT(*) FILTER (WHERE width_ms = 60000),
					COUNT(*) FILTER (WHERE width_ms = 3600000)
				FROM delivery_stats`).Scan(&minutes, &hours))
			return minutes, hours
		}
		hour := w.clk.Now().Truncate(time.Hour)
		for n := range 60 {
			insert(time.Minute, hour.Add(time.Duration(n)*time.Minute))
		}
		want := func(minutes, hours int) {
			t.Helper()
			w.run()
			m, h := rows()
			require.Equal(t, []int{minutes, hours}, []int{m, h})
		}
		want(60, 0)
		w.clk.Advance(25 * time.Hour)
		want(60, 0)
		w.clk.Advance(time.Hour)
		want(0, 1)
		insert(time.Minute, hour)
		want(1, 1)
		w.clk.Advance(time.Hour)
		want(0, 1)
		w.clk.Advance(hour.Add(3*day + time.Hour - time.Millisecond).Sub(w.clk.Now()))
		want(0, 1)
		w.clk.Advance(time.Millisecond)
		want(0, 0)
	})
}
