package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit/await"
)

// Of the large responses of an environment, two are in memory at a time and of all environments four, from the turn
// that the operation takes until the response is written. An operation that takes its turn twice has one. Those that
// wait are served when another ends, and no turn is lost.
func TestLargeResponsesTakeTurns(t *testing.T) {
	t.Parallel()
	envs, inside := make([]string, 4), map[string]*atomic.Int64{}
	for i := range envs {
		envs[i] = id.New(id.PrefixEnvironment)
		inside[envs[i]] = new(atomic.Int64)
	}
	var all atomic.Int64
	next := make(chan struct{})
	api := httpapi.New(httpapi.Config{Version: "0", Logger: slog.New(slog.DiscardHandler), Auth: auth{},
		Clock: clock.System()})
	httpapi.Register(api, httpapi.Operation{ID: "large", Method: http.MethodGet, Path: "/large", Tag: "t", Summary: "s",
		Description: "d", Status: http.StatusOK, Permission: access.ConnectionsRead, Environment: true},
		func(ctx context.Context, _ *struct{}) (*struct{}, error) {
			for range 2 {
				if err := httpapi.TakeLarge(ctx); err != nil {
					return nil, err
				}
			}
			env := httpapi.RequestFrom(ctx).Header.Get("Environment-Id")
			inside[env].Add(1)
			all.Add(1)
			<-next
			all.Add(-1)
			inside[env].Add(-1)
			return nil, nil //nolint:nilnil // has no body
		})
	var running sync.WaitGroup
	var served, refused atomic.Int64
	ask := func(env string) {
		running.Go(func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, httpapi.Prefix+"/large", http.NoBody)
			r.Header.Set("Authorization", "Bearer token")
			r.Header.Set("Environment-Id", env)
			w := httptest.NewRecorder()
			api.ServeHTTP(w, r)
			if w.Code == http.StatusServiceUnavailable && w.Header().Get("Retry-After") != "" {
				refused.Add(1)
				return
			}
			require.Less(t, w.Code, http.StatusBadRequest, w.Body.String())
			served.Add(1)
		})
	}
	counts := func(of ...int64) func() bool {
		return func() bool {
			for i, n := range of {
				if inside[envs[i]].Load() != n {
					return false
				}
			}
			return true
		}
	}
	for range 3 {
		ask(envs[0])
	}
	await.Condition(t, "two of the first environment", counts(2))
	ask(envs[1])
	await.Condition(t, "one of the second", counts(2, 1))
	ask(envs[2])
	await.Condition(t, "one of the third", counts(2, 1, 1))
	ask(envs[3])
	require.Equal(t, int64(4), all.Load())
	for range 4 {
		next <- struct{}{}
	}
	// Those that have waited got the turns that ended, or were refused after their time on a machine that is busy.
	await.Condition(t, "the others", func() bool {
		require.LessOrEqual(t, inside[envs[0]].Load(), int64(2))
		return all.Load()+refused.Load() == 2
	})
	for range all.Load() {
		next <- struct{}{}
	}
	running.Wait()
	for range 4 { // every turn has come back
		ask(envs[1])
		next <- struct{}{}
	}
	running.Wait()
	require.Equal(t, 10-refused.Load(), served.Load())
}
