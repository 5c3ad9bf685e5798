package deliveries

import (
	"database/sql"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// A flood of events that wait uses no more memory than the limit, and keeps the contents that are claimed first.
// Nothing stays longer than it can be sent.
func TestKeptContentsAreLimited(t *testing.T) {
	t.Parallel()
	k, now := newKept(), testTime()
	put := func(name string, size, waiting int, since time.Time) {
		k.put(content{event: &events.Event{UUID: name}, payload: &events.Payload{Body: make([]byte, size)}, since: since},
			waiting, since)
	}
	has := func(name string) bool {
		_, ok := k.take(name)
		return ok
	}
	put("large", maxHandedBody+1, 1, now)
	require.False(t, has("large"), "a worker reads large bodies, which count while they are sent")
	n := maxKept / (maxHandedBody + keptEvent)
	for i := range n + 10 {
		put(strconv.Itoa(i), maxHandedBody, 2, now)
	}
	require.LessOrEqual(t, k.size, maxKept)
	require.True(t, has("0"))
	require.True(t, has("0"), "both of its deliveries are claimed")
	require.False(t, has("0"), "no delivery waits for it any more")
	require.True(t, has(strconv.Itoa(n-1)))
	require.False(t, has(strconv.Itoa(n)))
	put("new", maxHandedBody, 1, now)
	require.True(t, has("new"), "a claim has made room")
	put("next", maxHandedBody, 1, now.Add(maxFresh))
	put("late", maxHandedBody, 1, now.Add(maxFresh+1))
	require.True(t, has("late"), "the old ones made room")
	require.True(t, has("next"))
	require.False(t, has("1"))
	put("last", 1, 1, now.Add(maxFresh))
	k.drop(now.Add(3 * maxFresh))
	require.Zero(t, k.size)
	require.Empty(t, k.byEvent)
	require.Zero(t, k.oldest.Len())
}

// A claim of new events reads nothing that this process has just stored, unless a payload was expunged since: that may
// be one of them.
func TestClaimsUseKeptContents(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 0)
		sub := w.subscription()
		stored := func() claimed {
			e, _ := w.event(Delivery{Status: Pending}, sub)
			e.Payload = &events.Payload{Headers: "{}", Body: []byte(`{"a":1}`), Encoding: events.JSON}
			batch := w.NewBatch(w.clock.Now())
			plan := batch.Add(&e.Event, e.Payload, []subscriptions.Matched{{ID: sub, Enabled: true}})
			require.NoError(t, batch.Commit(t.Context(), func(tx *sql.Tx) error {
				e.Counters = plan.Counters()
				_, err := w.db.ExecAll(t.Context(), tx,
					append(events.Insert([]events.NewEvent{e}), batch.Insert([]*Plan{plan})...)...)
				return err
			}))
			require.Equal(t, Pending, plan.list[0].Status)
			return claimed{Delivery: plan.list[0]}
		}
		first, second := stored(), stored()
		kept := w.kept.byEvent[first.EventUUID].Value.(*keptContent).content //nolint:errcheck,forcetypeassert // as kept does
		got, err := w.contents(t.Context(), []claimed{first})
		require.NoError(t, err)
		require.Same(t, kept.event, got[first.EventUUID].event)
		require.Same(t, kept.payload, got[first.EventUUID].payload)

		w.clock.Advance(2 * freshFor)
		require.NoError(t, w.Expunge(t.Context(), w.anybody(), second.EventUUID))
		require.NoError(t, w.refreshExpunged(t.Context()))
		got, err = w.contents(t.Context(), []claimed{first, second})
		require.NoError(t, err)
		require.NotSame(t, kept.event, got[first.EventUUID].event)
		require.JSONEq(t, `{"a":1}`, string(got[first.EventUUID].payload.Body))
		require.True(t, got[second.EventUUID].event.PayloadExpired)
		require.Nil(t, got[second.EventUUID].payload)
	})
}

// Contents of events that were not stored are not kept.
func TestNothingIsKeptOfAFailedCommit(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 0)
		e, _ := w.event(Delivery{Status: Pending}, w.subscription())
		batch := w.NewBatch(w.clock.Now())
		plan := batch.Add(&e.Event, &events.Payload{Body: []byte("{}")},
			[]subscriptions.Matched{{ID: w.subscription(), Enabled: true}})
		require.ErrorIs(t, batch.Commit(t.Context(), func(*sql.Tx) error {
			batch.Insert([]*Plan{plan})
			return errStale
		}), errStale)
		require.NoError(t, batch.Commit(t.Context(), func(*sql.Tx) error { return nil }))
		require.Empty(t, w.kept.byEvent, "neither rolled back nor a duplicate")
	})
}
