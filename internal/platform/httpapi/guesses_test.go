package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/testkit/await"
)

// held is an authenticator that holds look-ups until they are let go. It knows the key "known".
type held struct {
	auth
	begun chan string
	gate  chan struct{}
}

func (held) KnowsAPIKey(key string) bool { return key == "known" }

func (h held) APIKey(ctx context.Context, key, ip string) (access.Principal, error) {
	h.begun <- key
	<-h.gate
	return h.auth.APIKey(ctx, key, ip)
}

// Guesses of API keys from an address over its limit are looked up two at a time, and refused after a second without
// a turn, so that they keep nothing else busy. A key of someone else behind the address still gets in, in its turn, and
// one that is known does not wait. Within the limit nothing is held back.
func TestGuessesTakeTurns(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.UnixMilli(1_750_000_000_000))
	limiter, err := ratelimit.New(ratelimit.Options{Clock: clk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	h := held{begun: make(chan string, 100), gate: make(chan struct{})}
	const burst, turns, patience = 5, 2, time.Second
	api := httpapi.New(httpapi.Config{Version: "test", Logger: slog.New(slog.DiscardHandler), Clock: clk, Auth: h,
		Limits: httpapi.Limits{Limiter: limiter, Address: ratelimit.Limit{PerSecond: 1, Burst: burst}}})
	httpapi.Register(api, httpapi.Operation{ID: "look", Method: http.MethodGet, Path: "/look", Tag: "t", Summary: "s",
		Status: http.StatusOK, Permission: access.EventsRead, Route: access.RouteEvents, Environment: true},
		func(context.Context, *struct{}) (*struct{}, error) { return nil, nil })
	var running sync.WaitGroup
	statuses := make(chan int, 100)
	ask := func(key string) {
		running.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, httpapi.Prefix+"/look", nil)
			r.Header.Set("API-Key", key)
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			statuses <- w.Code
		})
	}
	release := func(n int) {
		for range n {
			await.Value(t, "a look-up", h.begun)
			h.gate <- struct{}{}
		}
	}
	for range burst {
		ask("guess")
	}
	release(burst)
	for range burst {
		require.Equal(t, http.StatusUnauthorized, await.Value(t, "a response", statuses))
	}

	for range 2 * turns {
		ask("guess")
	}
	for range turns {
		await.Value(t, "a look-up", h.begun)
	}
	await.Condition(t, "the others to wait", func() bool { return clk.Timers() == turns })
	ask("known")
	require.Equal(t, "known", await.Value(t, "the look-up of a known key", h.begun))
	require.Empty(t, h.begun)
	clk.Advance(patience)
	for range turns {
		require.Equal(t, http.StatusTooManyRequests, await.Value(t, "a refusal", statuses))
	}
	for range turns + 1 {
		h.gate <- struct{}{}
	}
	running.Wait()

	ask("new")
	require.Equal(t, "new", await.Value(t, "the look-up of another's key", h.begun))
	h.gate <- struct{}{}
	running.Wait()
}
