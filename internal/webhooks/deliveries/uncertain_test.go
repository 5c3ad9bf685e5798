package deliveries

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
)

// While the clock may be behind the database's, no lease begins: not of a new delivery, nor by a claim or a probe.
func TestUncertainClockBeginsNoLease(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := idle(t, store, 1000)
		uncertain := true
		w.claimer.isUncertain = func() bool { return uncertain }
		sub, failing := w.subscription(), w.subscription()
		plan := func() Delivery {
			e, _ := w.event(Delivery{Status: Pending}, sub)
			p := &Plan{event: &e.Event, matched: []subscriptions.Matched{{ID: sub, Enabled: true}}}
			require.NoError(t, w.NewBatch(w.clock.Now()).planDeliveries(p, "claim", testTime().Add(time.Hour)))
			return p.list[0]
		}
		require.Equal(t, Pending, plan().Status)
		due := w.one(t, Delivery{Status: Pending, Due: testTime()}, sub)
		held := w.one(t, Delivery{Status: Held, Due: testTime()}, failing)
		w.ended(w.env, failing, 20, 20)
		w.breakers.run(t.Context())
		require.NoError(t, w.db.Tx(t.Context(), func(tx *sql.Tx) error {
			return w.store.Control().Renewed(t.Context(), tx, w.env, failing, w.clock.Now())
		}))
		require.NoError(t, w.breakers.refresh(t.Context()))
		round := func() {
			w.follower.followSubscriptions(t.Context())
			w.claimer.claimDue(t.Context())
		}
		round()
		require.Equal(t, Pending, w.read(t, due.Key).Status)
		require.Equal(t, Held, w.read(t, held.Key).Status)
		uncertain = false
		round()
		require.Equal(t, Sending, w.read(t, due.Key).Status)
		require.Equal(t, Sending, w.read(t, held.Key).Status)
		require.Equal(t, Sending, plan().Status)
	})
}
