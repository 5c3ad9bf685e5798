package deliveries

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// A delivery that waits in memory is read again before it is sent if a payload was expunged since it was read, by any
// node, if that is not known, and after a minute in any case.
func TestFreshContent(t *testing.T) {
	t.Parallel()
	var e epochs
	read := testTime()
	c := content{since: read, epoch: e.now()}
	require.True(t, e.isFresh(&c, read.Add(freshFor)), "it was just read")
	require.False(t, e.isFresh(&c, read.Add(freshFor+1)), "nothing is known of the other nodes")
	e.compare(0, read.Add(10*time.Second))
	require.True(t, e.isFresh(&c, read.Add(11*time.Second)))
	require.True(t, e.isFresh(&c, read.Add(12*time.Second)), "the next comparison takes a moment")
	require.False(t, e.isFresh(&c, read.Add(12*time.Second+1)), "nothing is known of the last seconds")
	e.compare(0, read.Add(maxFresh))
	require.True(t, e.isFresh(&c, read.Add(maxFresh)))
	require.False(t, e.isFresh(&c, read.Add(maxFresh+1)), "it may have expired")

	e.compare(0, read.Add(20*time.Second))
	e.advance()
	require.False(t, e.isFresh(&c, read.Add(20*time.Second)), "this node has expunged a payload")
	c.epoch = e.now()
	require.True(t, e.isFresh(&c, read.Add(20*time.Second)), "it was read after that")
	e.compare(0, read.Add(20*time.Second))
	require.True(t, e.isFresh(&c, read.Add(20*time.Second)), "a comparison that began before does not undo it")
	e.compare(1, read.Add(20*time.Second))
	require.False(t, e.isFresh(&c, read.Add(20*time.Second)), "another node has expunged a payload")
}

// A node that expunges payloads, also in vain, still notices each that another node expunges.
func TestExpungedByBothNodes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		other := newService(store.DB, w.subs, w.clock, nil, 1, 1, 1)
		mine, theirs := w.due(t, w.subscription()), w.due(t, w.subscription())
		for range 3 {
			require.NoError(t, w.Expunge(t.Context(), w.anybody(), mine.EventUUID), "only the first changes anything")
		}
		require.NoError(t, w.refreshExpunged(t.Context()))
		c := content{since: w.clock.Now(), epoch: w.epochs.now()}
		w.clock.Advance(2 * freshFor)
		require.NoError(t, w.refreshExpunged(t.Context()))
		require.True(t, w.epochs.isFresh(&c, w.clock.Now()))
		require.NoError(t, other.Expunge(t.Context(), w.anybody(), theirs.EventUUID))
		require.NoError(t, w.refreshExpunged(t.Context()))
		require.False(t, w.epochs.isFresh(&c, w.clock.Now()))
	})
}

// The content of a new event is read again if a payload was expunged since before the event was committed: it can be
// its own, because the commit shows the event before its deliveries are handed over.
func TestContentOfANewEventIsKnownBeforeItsCommit(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 100)
		e, _ := w.event(Delivery{Status: Pending}, w.subscription())
		e.Payload = &events.Payload{Headers: "{}", Body: []byte("{}"), Encoding: events.JSON}
		sub := w.subscription()
		batch := w.NewBatch(w.clock.Now())
		plan := batch.Add(&e.Event, e.Payload, []subscriptions.Matched{{ID: sub, Enabled: true}})
		require.NoError(t, batch.Commit(t.Context(), func(tx *sql.Tx) error {
			e.Counters = plan.Counters()
			_, err := w.db.ExecAll(t.Context(), tx,
				append(events.Insert([]events.NewEvent{e}), batch.Insert([]*Plan{plan})...)...)
			w.epochs.advance()
			return err
		}))
		w.clock.Advance(2 * freshFor)
		require.NoError(t, w.refreshExpunged(t.Context()))
		handed := w.dispatcher.queues[sub].waiting[0]
		require.NotNil(t, handed.event)
		require.False(t, w.epochs.isFresh(&handed.content, w.clock.Now()))
	})
}

// Every node learns of a payload that another has expunged.
func TestExpungedByAnotherNode(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		other := newService(store.DB, w.subs, w.clock, nil, 1, 1, 1)
		d := w.due(t, w.subscription())
		require.NoError(t, w.refreshExpunged(t.Context()))
		before := w.epochs.now()
		require.NoError(t, other.Expunge(t.Context(), w.anybody(), d.EventUUID))
		require.NoError(t, w.refreshExpunged(t.Context()))
		require.NotEqual(t, before, w.epochs.now())
	})
}

// The events of a claim are read together, except large payloads and those that are gone.
func TestContentsOfAClaim(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.subscription()
		of := func(body []byte) claimed {
			e, d := w.event(Delivery{Status: Pending, Due: testTime()}, sub)
			e.Payload, e.BodySize = &events.Payload{Headers: "{}", Body: body, Encoding: events.JSON}, int64(len(body))
			w.insert(t, []events.NewEvent{e}, []Delivery{d})
			return claimed{Delivery: d}
		}
		small, large, gone := of([]byte(`{"a":1}`)), of(make([]byte, maxHandedBody+1)), of([]byte("{}"))
		require.NoError(t, w.Expunge(t.Context(), w.anybody(), gone.EventUUID))
		unknown := small
		unknown.EventUUID = "00000000-0000-7000-8000-000000000000"
		got, err := w.readContents(t.Context(), []claimed{small, large, gone, unknown})
		require.NoError(t, err)
		require.Equal(t, small.EventUUID, got[small.EventUUID].event.UUID)
		require.JSONEq(t, `{"a":1}`, string(got[small.EventUUID].payload.Body))
		require.NotNil(t, got[large.EventUUID].event)
		require.Nil(t, got[large.EventUUID].payload)
		require.True(t, got[gone.EventUUID].event.PayloadExpired)
		require.Nil(t, got[gone.EventUUID].payload)
		require.Nil(t, got[unknown.EventUUID].event)
	})
}
