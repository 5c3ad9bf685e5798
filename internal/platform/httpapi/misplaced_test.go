package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/ratelimit"
)

// A credential that is refused for its place is not looked up, so it is no guess and does not use up the limit of its
// address: not a valid key on a route for people, and not a key in another header. A missing or wrong credential does.
func TestMisplacedCredentialsAreNotCounted(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.UnixMilli(1_750_000_000_000))
	limiter, err := ratelimit.New(ratelimit.Options{Clock: clk, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	const burst = 5
	api := httpapi.New(httpapi.Config{Version: "test", Logger: slog.New(slog.DiscardHandler), Clock: clk, Auth: auth{},
		Limits: httpapi.Limits{Limiter: limiter, Address: ratelimit.Limit{PerSecond: 1, Burst: burst}}})
	for path, route := range map[string]access.Route{"/people": "", "/keys": access.RouteConnections} {
		httpapi.Register(api, httpapi.Operation{ID: "get" + path[1:], Method: http.MethodGet, Path: path, Tag: "t",
			Summary: "s", Status: http.StatusOK, Permission: access.ConnectionsRead, Route: route},
			func(context.Context, *struct{}) (*struct{}, error) { return nil, nil })
	}
	ask := func(path, header, value string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, httpapi.Prefix+path, nil)
		r.RemoteAddr = "192.0.2.1:1"
		r.Header.Set(header, value)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w
	}
	for range 2 * burst {
		for _, c := range [][3]string{{"/people", "API-Key", "key"}, {"/keys", "X-API-Key", "key"},
			{"/keys", "Authorization", "Bearer " + access.APIKeyScheme + "x"}, {"/keys", "API-Key", "eyJ.x.y"}} {
			require.Equal(t, http.StatusUnauthorized, ask(c[0], c[1], c[2]).Code, c)
		}
	}
	for n := range burst {
		w := ask("/keys", "API-Key", "wrong")
		require.Equal(t, http.StatusUnauthorized, w.Code, n)
		require.NotEmpty(t, w.Header().Get("X-Ratelimit-Remaining"))
	}
	require.Equal(t, http.StatusTooManyRequests, ask("/keys", "API-Key", "wrong").Code)
	require.Equal(t, http.StatusTooManyRequests, ask("/people", "Accept", "*/*").Code, "no credential")
	require.Equal(t, http.StatusUnauthorized, ask("/people", "API-Key", "key").Code)
}
