package ingest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// occupy takes all places of an environment.
func (s *screens) occupy(t *testing.T, env id.Environment) (free func()) {
	t.Helper()
	var ends []func()
	for range environmentScreens() {
		end, err := s.begin(t.Context(), env)
		require.NoError(t, err)
		ends = append(ends, end)
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// An environment whose events arrive faster than their filters can be evaluated neither waits nor queues without a
// limit, and it does not keep the events of others from their filters.
func TestScreensAreBounded(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.UnixMilli(0))
	s := newScreens(clk)
	free := s.occupy(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, maxScreenQueue)
	var all sync.WaitGroup
	waiting := maxScreenQueue - environmentScreens()
	for range waiting {
		all.Go(func() {
			_, err := s.begin(ctx, "a")
			results <- err
		})
	}
	await.Condition(t, "all wait", func() bool { return clk.Timers() == waiting })
	_, err := s.begin(t.Context(), "a")
	require.ErrorIs(t, err, errFiltersBusy, "too many wait already")
	end, err := s.begin(t.Context(), "b")
	require.NoError(t, err, "that is nothing to another environment")
	end()
	cancel()
	for range waiting {
		require.ErrorIs(t, await.Value(t, "one that waits sees that its sender has left", results), errFiltersBusy)
	}
	all.Wait()

	all.Go(func() {
		_, err := s.begin(t.Context(), "a")
		results <- err
	})
	await.Condition(t, "one waits", func() bool { return clk.Timers() == 1 })
	clk.Advance(maxScreenWait)
	require.ErrorIs(t, await.Value(t, "the wait ends", results), errFiltersBusy)

	all.Go(func() {
		end, err := s.begin(t.Context(), "a")
		if err == nil {
			end()
		}
		results <- err
	})
	await.Condition(t, "one waits", func() bool { return clk.Timers() == 1 })
	free()
	require.NoError(t, await.Value(t, "one gets a place that is freed", results))
	all.Wait()
	require.Empty(t, s.byEnv)
	require.Empty(t, s.all)
}

// The response to an event whose filters cannot be evaluated in time asks the provider to resend it, and the metric
// does not blame the database.
func TestEventsThatWaitTooLongForTheirFilters(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		w := newWorld(t, store)
		w.index.matched[w.a] = []subscriptions.Matched{{ID: id.New(id.PrefixSubscription), Enabled: true,
			Filter: filters.New("true")}}
		defer w.screens.occupy(t, w.a)()
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), requestKey{}, true))
		cancel()
		p := access.Principal{Kind: access.KindUser, ID: id.New(id.PrefixUser), Environment: w.a,
			Rights: access.Developer.Rights()}
		_, err := w.Publish(ctx, p, Publication{EventType: "a", Data: json.RawMessage("1")})
		require.True(t, apperr.Is(err, apperr.CodeUnavailable))
		require.ErrorIs(t, err, errFiltersBusy)
		require.Equal(t, 1, int(testkit.Metric(t, w.Module().Metrics, "sallyport_webhook_events_total", "outcome",
			outcomeOverloaded)))
		await.Value(t, "an event of another environment is stored", w.publish(w.b))
	})
}
