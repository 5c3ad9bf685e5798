package subscriptions_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
)

// Enabling a subscription and another URL let its receiver be probed without delay; other changes do not.
func TestChangesThatProbe(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		sub := w.create(t, "*")
		for _, c := range []struct {
			change  subscriptions.Change
			renewed int
		}{
			{subscriptions.Change{ForwardURL: patch.Some(sub.ForwardURL)}, 0},
			{subscriptions.Change{Settings: subscriptions.Settings{Description: patch.To("a")}}, 0},
			{subscriptions.Change{ForwardURL: patch.Some("https://198.51.99.7/other")}, 1},
			{subscriptions.Change{Settings: subscriptions.Settings{Enabled: patch.Some(false)}}, 1},
			{subscriptions.Change{Settings: subscriptions.Settings{Enabled: patch.Some(true)}}, 2},
		} {
			_, err := w.Update(t.Context(), w.p, sub.ID, c.change)
			require.NoError(t, err)
			require.Len(t, w.control.renewed, c.renewed)
		}
	})
}

// Reading a subscription, alone, in a list or after a change, shows the health that deliveries report.
func TestHealthIsShown(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		failing, fine := w.create(t, "*"), w.create(t, "*")
		since := time.UnixMilli(1_750_000_000_000)
		health := subscriptions.Health{FailingSince: &since, NextProbe: since.Add(30 * time.Second)}
		w.control.health = map[string]subscriptions.Health{failing.ID: health}
		got, err := w.Get(t.Context(), w.p.View(), failing.ID)
		require.NoError(t, err)
		require.Equal(t, health, got.Health)
		require.Equal(t, subscriptions.Failing, got.Health.State())
		got, err = w.Update(t.Context(), w.p, failing.ID,
			subscriptions.Change{Settings: subscriptions.Settings{Description: patch.To("a")}})
		require.NoError(t, err)
		require.Equal(t, health, got.Health)
		list, err := w.List(t.Context(), w.p.View(), subscriptions.Filter{}, page.Request{Limit: 10})
		require.NoError(t, err)
		states := map[string]subscriptions.HealthState{}
		for _, sub := range list {
			states[sub.ID] = sub.Health.State()
		}
		require.Equal(t, map[string]subscriptions.HealthState{failing.ID: subscriptions.Failing,
			fine.ID: subscriptions.Healthy}, states)
	})
}
