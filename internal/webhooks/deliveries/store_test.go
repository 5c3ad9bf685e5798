package deliveries

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
)

// one stores an event with one delivery and returns that.
func (w *world) one(t *testing.T, d Delivery, subscription string) Delivery {
	t.Helper()
	e, d := w.event(d, subscription)
	w.insert(t, []events.NewEvent{e}, []Delivery{d})
	return d
}

// deadResult returns the result of a leased delivery's attempt that failed permanently.
func deadResult(d Delivery) *result {
	o := outcome{At: testTime(), Permanent: true, Failure: &Failure{Code: "x", Message: "y", At: testTime()}}
	return &result{delivery: d, next: d.attempted(o, nil, 0), attempted: true, attempt: Attempt{ID: id.NewUUID(),
		EventUUID: d.EventUUID, SubscriptionID: d.SubscriptionID, Generation: d.Generation, Number: 1, Outcome: AttemptFailed,
		StartedAt: testTime(), RequestHeaders: "{}", ResponseHeaders: "{}", ErrorCode: new("x"), ErrorMessage: new("y")}}
}

func (w *world) leased(t *testing.T) Delivery {
	t.Helper()
	claim, until := w.claimer.newLease(testTime())
	return w.one(t, Delivery{Status: Sending, ClaimID: claim, Due: until}, w.subscription())
}

// The primary key keeps a second delivery of an event to a subscription out.
func TestOneDeliveryPerEventAndSubscription(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		d := w.one(t, Delivery{Status: Pending, Due: testTime()}, w.subscription())
		d.ID = id.NewUUID()
		err := w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			_, err := w.db.ExecAll(t.Context(), tx, Insert([]Delivery{d}))
			return err
		})
		require.True(t, db.IsUniqueViolation(err), "%v", err)
	})
}

// A claim takes of each subscription what is due longest first, pending or waiting for a retry, no more than it asks
// for, and nothing of others, nothing that is not due yet and nothing twice.
func TestClaimOrder(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub, other, full := w.subscription(), w.subscription(), w.subscription()
		at := func(s time.Duration, status Status, subscription string) Key {
			return w.one(t, Delivery{Status: status, Due: testTime().Add(s)}, subscription).Key
		}
		second, first := at(-2*time.Second, Pending, sub), at(-3*time.Second, RetryWait, sub)
		fourth, third := at(0, Pending, sub), at(-time.Second, RetryWait, sub)
		others := at(-time.Hour, Pending, other)
		at(-4*time.Second, Pending, full)
		at(time.Millisecond, RetryWait, sub)
		at(time.Millisecond, Pending, sub)
		at(-time.Hour, Held, sub)
		var got [][]Key
		for range 3 {
			var round []Key
			for _, d := range w.claim(t, testTime(), 3, sub, other) {
				require.Equal(t, Sending, d.Status)
				require.Equal(t, d, w.read(t, d.Key))
				round = append(round, d.Key)
			}
			got = append(got, round)
		}
		require.Equal(t, [][]Key{{first, second, third, others}, {fourth}, nil}, got)
	})
}

// Several nodes that claim at the same time share the queue: each delivery goes to one of them.
func TestConcurrentClaims(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		const size = 120
		var found []events.NewEvent
		var list []Delivery
		sub := w.subscription()
		for range size {
			e, d := w.event(Delivery{Status: Pending, Due: testTime()}, sub)
			found, list = append(found, e), append(list, d)
		}
		w.insert(t, found, list)
		var group errgroup.Group
		claimed := make([][]Delivery, 4)
		for node := range claimed {
			group.Go(func() error {
				for range size {
					more := w.claim(t, testTime(), 7, sub)
					claimed[node] = append(claimed[node], more...)
					if len(more) == 0 {
						return nil
					}
				}
				return nil
			})
		}
		require.NoError(t, group.Wait())
		seen := map[Key]bool{}
		for _, some := range claimed {
			for _, d := range some {
				require.False(t, seen[d.Key], "claimed twice")
				seen[d.Key] = true
				require.Equal(t, d.ClaimID, w.read(t, d.Key).ClaimID)
			}
		}
		require.Len(t, seen, size-len(w.claim(t, testTime(), size, sub)))
	})
}

// A lease is renewed only by its holder.
func TestRenew(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		mine, lost := w.leased(t), w.leased(t)
		stale := lost
		stale.ClaimID = "another"
		until := testTime().Add(time.Hour)
		kept, err := w.store.renew(t.Context(), []Delivery{mine, stale}, until)
		require.NoError(t, err)
		require.Equal(t, map[Key]bool{mine.Key: true}, kept)
		require.Equal(t, until, w.read(t, mine.Key).Due)
		require.Equal(t, lost.Due, w.read(t, lost.Key).Due)
		// The outcome of a renewed lease counts: a lease is identified by its claim, not its end.
		require.NoError(t, w.recorder.storeResults(t.Context(), []*result{deadResult(mine)}))
		require.Equal(t, Dead, w.read(t, mine.Key).Status)
	})
}

// A batch that was stored although its response was lost is stored again without a second attempt, a second change or
// an error, and does not affect the outcomes of other deliveries.
func TestOutcomesStoredTwice(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		first, second := deadResult(w.leased(t)), deadResult(w.leased(t))
		require.NoError(t, w.recorder.storeResults(t.Context(), []*result{first}))
		again := *first
		require.NoError(t, w.recorder.storeResults(t.Context(), []*result{&again, second}))
		require.Empty(t, log.String())
		for _, r := range []*result{first, second} {
			require.Equal(t, Dead, w.read(t, r.delivery.Key).Status)
			attempts, err := w.store.Attempts(t.Context(), access.Whole(w.env), r.delivery.EventUUID, page.Request{Limit: 9})
			require.NoError(t, err)
			require.Len(t, attempts, 1)
			require.Equal(t, AttemptFailed, attempts[0].Outcome)
			e, err := w.events.Get(t.Context(), access.Whole(w.env), r.delivery.EventUUID)
			require.NoError(t, err)
			require.Equal(t, events.DeadLetter, e.Status)
			require.EqualValues(t, 1, e.AttemptCount)
			failure, sub, err := DecodeFailure(e.LastError)
			require.NoError(t, err)
			require.Equal(t, r.next.LastFailure, failure)
			require.Equal(t, r.delivery.SubscriptionID, sub)
		}
	})
}

// The outcome of a lease that was lost changes nothing; its try is kept as superseded, because it was made.
func TestOutcomeOfALostLease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		lost := w.leased(t)
		_, _, err := w.store.recover(t.Context(), lost.Due, "", func(Key) bool { return false })
		require.NoError(t, err)
		before := w.read(t, lost.Key)
		require.Equal(t, Pending, before.Status)
		require.EqualValues(t, 1, before.LeasesLost)
		require.NoError(t, w.recorder.storeResults(t.Context(), []*result{deadResult(lost)}))
		require.Equal(t, before, w.read(t, lost.Key))
		attempts, err := w.store.Attempts(t.Context(), access.Whole(w.env), lost.EventUUID, page.Request{Limit: 9})
		require.NoError(t, err)
		require.Len(t, attempts, 1)
		require.Equal(t, AttemptSuperseded, attempts[0].Outcome)
		// A lease that was released without an attempt leaves no trace.
		require.NoError(t, w.recorder.storeResults(t.Context(), []*result{{delivery: lost, next: lost.returned(testTime())}}))
		require.Equal(t, before, w.read(t, lost.Key))
	})
}

// A predecessor's leases are recovered at start whether they have ended or not; those of other nodes are left alone.
func TestRecoverOfAPredecessor(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		mine := w.leased(t)
		other := w.one(t, Delivery{Status: Sending, ClaimID: "node2:x:1", Due: mine.Due}, w.subscription())
		n, more, err := w.store.recover(t.Context(), testTime(), "node:", func(Key) bool { return false })
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.False(t, more)
		require.Equal(t, Pending, w.read(t, mine.Key).Status)
		require.Equal(t, Sending, w.read(t, other.Key).Status)
	})
}

// Releasing the deliveries of a subscription that is enabled again starts at fifty a second and doubles every ten
// seconds up to ten chunks; switching it off and on does not start faster.
func TestReleaseRamp(t *testing.T) {
	t.Parallel()
	var r releases
	now := testTime()
	var rates []int
	for range 80 {
		rates = append(rates, r.allowed("s", now))
		require.Zero(t, r.allowed("s", now.Add(followInterval-1)))
		now = now.Add(followInterval)
	}
	require.Equal(t, 50, rates[0])
	require.Equal(t, 50, rates[9])
	require.Equal(t, 100, rates[10])
	require.Equal(t, 200, rates[20])
	require.Equal(t, 400, rates[30])
	require.Equal(t, 1600, rates[59])
	require.Equal(t, 2000, rates[60])
	require.Equal(t, 2000, rates[79])
	r.forget("s")
	require.Zero(t, r.allowed("s", now.Add(-1)))
	require.Equal(t, 50, r.allowed("s", now))
	require.Equal(t, 50, r.allowed("other", now))
}

// Reads and replays of another environment's deliveries find nothing.
func TestForeignEnvironment(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		d := w.leased(t)
		require.NoError(t, w.recorder.storeResults(t.Context(), []*result{deadResult(d)}))
		foreign := id.Environment(id.New(id.PrefixEnvironment))
		byEvent, err := w.store.ByEvents(t.Context(), access.Whole(foreign), []string{d.EventUUID})
		require.NoError(t, err)
		require.Empty(t, byEvent)
		attempts, err := w.store.Attempts(t.Context(), access.Whole(foreign), d.EventUUID, page.Request{Limit: 9})
		require.NoError(t, err)
		require.Empty(t, attempts)
		p := access.System("test")
		p.Environment = foreign
		_, err = w.Replay(t.Context(), p, d.EventUUID, ReplayRequest{Force: true})
		require.True(t, apperr.Is(err, apperr.CodeNotFound), "%v", err)
		n, err := w.Redeliver(t.Context(), foreign, d.EventUUID)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, Dead, w.read(t, d.Key).Status)
		p.Environment = w.env
		list, err := w.Replay(t.Context(), p, d.EventUUID, ReplayRequest{})
		require.NoError(t, err)
		require.Equal(t, Pending, list[0].Status, "its own environment may")
	})
}

// More deliveries than one transaction changes follow their subscription all the same: the first in the change's own
// transaction, the rest by the worker.
func TestHoldAndCancelOfMany(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.subscription()
		const size = chunk + firstChunk + 50
		for range size / 100 {
			var found []events.NewEvent
			var list []Delivery
			for range 100 {
				e, d := w.event(Delivery{Status: Pending, Due: testTime()}, sub)
				found, list = append(found, e), append(list, d)
			}
			w.insert(t, found, list)
		}
		count := func(s Status) (n int) {
			require.NoError(t, w.db.Read().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM deliveries WHERE status = $1",
				string(s)).Scan(&n))
			return n
		}
		change := func(fn func(context.Context, *sql.Tx, id.Environment, string, time.Time) error) {
			require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
				return fn(t.Context(), tx, w.env, sub, testTime())
			}))
		}
		w.subs.byID[sub].Enabled = false
		change(w.store.Control().Hold)
		require.Equal(t, firstChunk, count(Held))
		w.follower.followSubscriptions(t.Context())
		require.Equal(t, size, count(Held))

		w.subs.byID[sub].Enabled = true
		w.follower.followSubscriptions(t.Context())
		require.Equal(t, releaseStart, count(Pending), "the release begins slowly")
		w.follower.followSubscriptions(t.Context())
		require.Equal(t, releaseStart, count(Pending), "and not twice in a second")

		w.subs.byID[sub].Deleted = true
		change(w.store.Control().Cancel)
		require.Equal(t, firstChunk, count(Cancelled))
		w.follower.followSubscriptions(t.Context())
		require.Equal(t, size, count(Cancelled))
	})
}

// The depth of the queue counts what is due and nothing else, and reports the oldest.
func TestDepth(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		depth, err := w.store.Depth(t.Context(), testTime())
		require.NoError(t, err)
		require.Equal(t, Depth{}, depth)
		sub, oldest := w.subscription(), testTime().Add(-time.Minute)
		for _, d := range []Delivery{{Status: Pending, Due: testTime()}, {Status: RetryWait, Due: oldest},
			{Status: RetryWait, Due: testTime().Add(1e6)}, {Status: Sending, ClaimID: "x", Due: oldest.Add(-time.Hour)},
			{Status: Held, Due: oldest.Add(-time.Hour)}, {Status: Dead, Due: oldest}} {
			w.one(t, d, sub)
		}
		depth, err = w.store.Depth(t.Context(), testTime())
		require.NoError(t, err)
		require.Equal(t, Depth{Due: 2, Oldest: oldest}, depth)
	})
}
