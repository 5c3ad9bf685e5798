package ownevents_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/ownevents"
	"sallyport/internal/webhooks/subscriptions"
)

// everySubscription takes every event, each subscription with a filter of its own.
type everySubscription []subscriptions.Matched

func (everySubscription) Wanted() bool { return true }

func (e everySubscription) Match(string, string, string) []subscriptions.Matched { return e }

func (everySubscription) ConnectionOf(string) string { return "" }

// Expensive filters delay the transaction that emits an event by no more than the time of two, however many there are.
// The event goes to those that were evaluated before, and the next transaction starts fresh.
func TestCostOfFilters(t *testing.T) {
	t.Parallel()
	const costly = `[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(a, [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(b, ` +
		`[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(c, a + b + c > 0)))`
	require.Empty(t, filters.Check(costly))
	subs := everySubscription{{ID: id.New(id.PrefixSubscription), Enabled: true,
		Filter: filters.New(`event.body.reason == "no"`)}}
	for range 20 {
		subs = append(subs, subscriptions.Matched{ID: id.New(id.PrefixSubscription), Enabled: true,
			Filter: filters.New(costly)})
	}
	subs = append(subs, subscriptions.Matched{ID: id.New(id.PrefixSubscription), Enabled: true})
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		found := events.New(events.Config{DB: store.DB, Deliveries: deliveries.Filter{}})
		evaluations := filters.NewEvaluations()
		s := ownevents.New(ownevents.Config{DB: store.DB, Events: found, Evaluations: evaluations,
			Subscriptions: func(context.Context, db.Querier, id.Environment) (ownevents.Subscriptions, error) {
				return subs, nil
			},
			Clock: clock.NewManual(time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC))})
		env := id.Environment(id.New(id.PrefixEnvironment))
		for n := 1; n <= 2; n++ {
			require.NoError(t, store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
				return s.SubscriptionDisabled(t.Context(), tx, &subscriptions.Subscription{Environment: env, DisabledReason: "no"})
			}))
			list, _, err := found.List(t.Context(), access.Whole(env), events.Filter{}, page.Request{Limit: 1})
			require.NoError(t, err)
			made, err := deliveries.NewStore(deliveries.StoreConfig{DB: store.DB, Events: found}).
				ByEvents(t.Context(), access.Whole(env), []string{list[0].UUID})
			require.NoError(t, err)
			got := map[string]bool{}
			for _, d := range made[list[0].UUID] {
				got[d.SubscriptionID] = true
			}
			require.True(t, got[subs[0].ID], "a cheap filter that was asked first")
			require.True(t, got[subs[1].ID], "a costly one that was within the bound when it was asked")
			require.False(t, got[subs[len(subs)-2].ID], "one that would hold up everybody")
			require.True(t, got[subs[len(subs)-1].ID], "a subscription without a filter")
			require.LessOrEqual(t, len(got), 5)
		}
		counted := func(outcome string) int {
			return int(testkit.Metric(t, evaluations.Module().Metrics, "sallyport_filter_evaluations_total", "outcome", outcome))
		}
		require.Zero(t, counted("cost_exceeded"), "no filter has exceeded its own limit")
		require.Positive(t, counted("not_evaluated"))
		require.Equal(t, 2*(len(subs)-1), counted("matched")+counted("not_evaluated"))
	})
}
