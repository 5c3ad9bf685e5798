package deliveries

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
)

// Reads whose cost depends on what is stored take turns among the lists of their environment: statistics, attempts, and
// the health of many subscriptions. The health of one does not wait.
func TestReadsTakeTurns(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub, env := w.subscription(), string(w.env)
		testkit.TakesTurn(t, w.db, env, "statistics", func() error {
			_, err := w.Stats(t.Context(), access.Whole(w.env), sub, StatsRequest{})
			return err
		})
		testkit.TakesTurn(t, w.db, env, "attempts", func() error {
			_, err := w.store.Attempts(t.Context(), access.Whole(w.env), id.NewUUID(), page.Request{Limit: 1})
			return err
		})
		testkit.TakesTurn(t, w.db, env, "health", func() error {
			_, err := w.store.Control().Health(t.Context(), w.env, []string{sub, w.subscription()}, w.clock.Now())
			return err
		})
		testkit.FillLists(t, w.db, env)
		_, err := w.store.Control().Health(t.Context(), w.env, []string{sub}, w.clock.Now())
		require.NoError(t, err)
	})
}

// The explanation of an event reads only the deliveries to the subscriptions of its page.
func TestStatuses(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		e, first := w.event(Delivery{Status: Held}, "sub_0")
		list, ids, want := []Delivery{first}, []string{"sub_0", "sub_none"}, map[string]Status{"sub_0": Held}
		for n := 1; n < chunk+10; n++ {
			d := first
			d.SubscriptionID, d.ID = "sub_"+strconv.Itoa(n), id.NewUUID()
			list = append(list, d)
			if n%2 == 0 {
				ids = append(ids, d.SubscriptionID)
				want[d.SubscriptionID] = Held
			}
		}
		w.insertAs(t, e, list)
		got, err := w.store.Statuses(t.Context(), w.env, e.UUID, ids)
		require.NoError(t, err)
		require.Equal(t, want, got)
		got, err = w.store.Statuses(t.Context(), id.Environment("env_other"), e.UUID, ids)
		require.NoError(t, err)
		require.Empty(t, got)
	})
}
