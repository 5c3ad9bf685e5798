package httpapi_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/httpapi"
)

// A 401 of an operation says which credential would do, and that a token was invalid where one was sent; the inbound
// endpoint, which looks at none, does not.
func TestChallenges(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(context.Context) error { return apperr.New(apperr.CodeUnauthorized, "no") })
	const plain, invalid = `Bearer realm="sallyport"`, `Bearer realm="sallyport", error="invalid_token"`
	none := []string{"Accept", "*/*"}
	for _, c := range []struct {
		name, method, path string
		headers            []string
		want               string
	}{
		{"nothing", http.MethodGet, things, none, plain},
		{"a wrong key", http.MethodGet, things, []string{"API-Key", "other"}, plain},
		{"a wrong token", http.MethodGet, things, []string{"Authorization", "Bearer other"}, invalid},
		{"another scheme", http.MethodGet, things, []string{"Authorization", "Basic YTpi"}, plain},
		{"no token", http.MethodGet, things, []string{"Authorization", "Bearer"}, plain},
		{"a token that ended meanwhile", http.MethodGet, prefix + "/fail", []string{"Authorization", "bearer token"},
			invalid},
		{"a wrong password", http.MethodPost, prefix + "/login", none, plain},
		{"no operation", http.MethodPost, prefix + "/plain", none, ""},
	} {
		w := s.do(c.method, c.path, "", c.headers...)
		require.Equal(t, http.StatusUnauthorized, w.Code, "%s: %s", c.name, w.Body)
		require.Equal(t, apperr.CodeUnauthorized, envelopeOf(t, w).Error.Code, c.name)
		require.Equal(t, c.want, w.Header().Get("WWW-Authenticate"), c.name)
	}
	require.Empty(t, s.do(http.MethodGet, things+"?x", "").Header().Get("WWW-Authenticate"), "a 422 has no challenge")
}

// A request that names no resource gets the response of an unknown route, for any routes.
func TestTargetsThatAreNoPath(t *testing.T) {
	t.Parallel()
	s := newServer(t, nil)
	s.api.Handle("/{any}", http.NotFoundHandler())
	for _, r := range []*http.Request{
		{Method: http.MethodOptions, URL: &url.URL{Path: "*"}, RequestURI: "*"},
		{Method: http.MethodGet, URL: &url.URL{Path: "*"}, RequestURI: "*"},
		{Method: http.MethodConnect, URL: &url.URL{Host: "example.test:443"}, RequestURI: "example.test:443"},
		{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "example.test"}, RequestURI: "http://example.test"},
	} {
		r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host, r.Header, r.Body = "HTTP/1.1", 1, 1, "example.test", http.Header{},
			http.NoBody
		w := s.serve(r.WithContext(t.Context()))
		require.Equal(t, http.StatusNotFound, w.Code, "%s %s: %s", r.Method, r.RequestURI, w.Body)
		require.Equal(t, apperr.CodeHTTP, envelopeOf(t, w).Error.Code)
		require.NotEmpty(t, w.Header().Get("X-Request-Id"))
		require.Empty(t, w.Header().Get("Location"))
		require.Equal(t, "INFO", s.log.line(t)["level"])
	}
}

// The client's address is the same in the context, for the principal and in the log; a client without one has none.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	for peer, want := range map[string]string{
		"10.0.0.1:1": "203.0.113.9", "198.51.100.7:1234": "198.51.100.7", "@": "",
	} {
		var inContext string
		s := newServer(t, func(ctx context.Context) error {
			inContext = httpapi.ClientIP(ctx)
			require.Equal(t, inContext, access.From(ctx).IP)
			require.Equal(t, want != "", httpapi.ClientAddr(ctx).IsValid())
			return nil
		}, "10.0.0.0/8")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, prefix+"/fail", http.NoBody)
		r.RemoteAddr = peer
		r.Header.Set("API-Key", "key")
		r.Header.Set("X-Forwarded-For", "203.0.113.9")
		require.Equal(t, http.StatusNoContent, s.serve(r).Code)
		require.Equal(t, want, inContext, peer)
		require.Equal(t, want, s.log.line(t)["ip"])
	}
}

// A failure is an error in the log. A request that was refused under load is a warning. A failure that the client or
// its settings caused is neither, and a client that leaves is no failure.
func TestLevels(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	busy := &apperr.Error{Code: apperr.CodeUnavailable, Message: "Too many at once"}
	for _, c := range []struct {
		name   string
		ctx    context.Context //nolint:containedctx // a table of requests
		err    error
		status int
		want   slog.Level
	}{
		{"success", t.Context(), nil, http.StatusNoContent, slog.LevelInfo},
		{"a refusal", t.Context(), apperr.NotFound("thing"), http.StatusNotFound, slog.LevelInfo},
		{"a refusal with its cause", t.Context(), apperr.Wrap(apperr.CodeUnauthorized, "no", errors.New("x")),
			http.StatusUnauthorized, slog.LevelInfo},
		{"load", t.Context(), busy, http.StatusServiceUnavailable, slog.LevelWarn},
		{"a state", t.Context(), apperr.New(apperr.CodeConnectionDisabled, "off"), http.StatusServiceUnavailable,
			slog.LevelInfo},
		{"the store", t.Context(), db.ErrCommitUnknown, http.StatusServiceUnavailable, slog.LevelError},
		{"a dependency", t.Context(), apperr.Unavailable(errors.New("down")), http.StatusServiceUnavailable, slog.LevelError},
		{"anything else", t.Context(), errors.New("boom"), http.StatusInternalServerError, slog.LevelError},
		{"a client that left", gone, context.Canceled, http.StatusInternalServerError, slog.LevelInfo},
		{"work that was called off by itself", t.Context(), context.Canceled, http.StatusInternalServerError,
			slog.LevelError},
	} {
		s := newServer(t, func(context.Context) error { return c.err })
		r := httptest.NewRequestWithContext(c.ctx, http.MethodGet, prefix+"/fail", http.NoBody)
		r.Header.Set("API-Key", "key")
		require.Equal(t, c.status, s.serve(r).Code, c.name)
		line := s.log.line(t)
		require.Equal(t, c.want.String(), line["level"], c.name)
		require.Equal(t, c.err != nil, line["error"] != nil, c.name)
		outage := c.name == "the store" || c.name == "a dependency"
		require.Equal(t, outage, line["outage"] != nil, "%s: an outage is logged once a second", c.name)
	}
}
