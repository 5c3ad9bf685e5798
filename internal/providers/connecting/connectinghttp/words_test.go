package connectinghttp_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connecting/connectinghttp"
)

// A sentence that quotes the provider has one full stop, also if the provider's words have theirs.
func TestQuotesEndOnce(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		link, b := w.link("c", "api_key"), w.browser()
		for says, words := range map[string]string{
			"This key does not exist.": "it says: &#34;This key does not exist.&#34;<",
			"No such key":              "it says: &#34;No such key&#34;.<",
		} {
			w.provider.set(func(p *provider) { p.says = says })
			require.Contains(t, b.submit(link, "mode", "api_key", "credential.api_key", "bad-key").text, words)
		}
	})
}

// A person whose network has made too many requests gets a page and not JSON, and browsers when to come back.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		link := w.link("c", "api_key")
		budgets, err := ratelimit.New(ratelimit.Options{Clock: w.clock})
		require.NoError(t, err)
		api := httpapi.New(httpapi.Config{Version: "0", Logger: slog.New(slog.DiscardHandler), Clock: w.clock,
			Limits: httpapi.Limits{Limiter: budgets, Address: ratelimit.Limit{PerSecond: 1, Burst: 1}}})
		connectinghttp.Module(w.svc, w.url, func(*http.Request) secretbox.Secret { return "" }).Mount(api)
		open := func() *httptest.ResponseRecorder {
			shown := httptest.NewRecorder()
			api.ServeHTTP(shown, httptest.NewRequestWithContext(t.Context(), http.MethodGet, link, nil))
			return shown
		}
		require.Equal(t, http.StatusOK, open().Code)
		refused := open()
		require.Equal(t, http.StatusTooManyRequests, refused.Code, refused.Body)
		require.Equal(t, "text/html; charset=utf-8", refused.Header().Get("Content-Type"))
		require.NotEmpty(t, refused.Header().Get("Retry-After"))
		require.Contains(t, refused.Body.String(), "There were too many requests from your network. Wait")
	})
}
