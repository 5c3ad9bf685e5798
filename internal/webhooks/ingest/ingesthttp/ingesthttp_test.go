package ingesthttp_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/ingest"
	"sallyport/internal/webhooks/ingest/ingesthttp"
)

// receiver responds to every delivery in the same way and keeps the last.
type receiver struct {
	receipt ingest.Receipt
	err     error
	last    ingest.Request
}

func (r *receiver) Receive(_ context.Context, request ingest.Request) (ingest.Receipt, error) {
	r.last = request
	return r.receipt, r.err
}

func newAPI(r *receiver) *httpapi.API {
	api := httpapi.New(httpapi.Config{Version: "test", Logger: slog.New(slog.DiscardHandler),
		Clock: clock.NewManual(time.UnixMilli(1_750_000_000_000))})
	ingesthttp.Mount(api, r, nil, nil)
	return api
}

// post posts a delivery from an address and returns the response's status.
func post(t *testing.T, api *httpapi.API, from string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/webhook/acme", http.NoBody)
	r.RemoteAddr = from
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w.Code
}

// The receiver gets the sender's address and a way to set the body's deadline, with which it bounds a body.
func TestRequestIsHandedOver(t *testing.T) {
	t.Parallel()
	r := &receiver{receipt: ingest.Receipt{EventUUID: "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"}}
	require.Equal(t, http.StatusOK, post(t, newAPI(r), "[2001:db8:1:2:3::4]:5"))
	require.Equal(t, "acme", r.last.Segment)
	require.Equal(t, netip.MustParseAddr("2001:db8:1:2::"), r.last.Source)
	post(t, newAPI(r), "[::ffff:192.0.2.1]:5")
	require.Equal(t, netip.MustParseAddr("192.0.2.1"), r.last.Source, "one host, regardless of how its address is written")
	require.Equal(t, http.MethodPost, r.last.HTTP.Method)
	require.NotNil(t, r.last.Deadlines)
}

// The response that a provider expects is that of its definition. Only Discord's has a content type and an empty body.
func TestResponsesOnTheWire(t *testing.T) {
	t.Parallel()
	r := &receiver{}
	server := httptest.NewServer(newAPI(r))
	await.Close(t, server)
	for _, c := range []struct {
		status            int
		contentType, body string
	}{
		{http.StatusNoContent, "application/json", ""}, {http.StatusNoContent, "", ""}, {http.StatusOK, "", ""},
		{http.StatusOK, "text/plain; charset=utf-8", "<a>"},
	} {
		answer := &verification.Response{Status: c.status, Header: http.Header{"X-Content-Type-Options": {"nosniff"}},
			Body: []byte(c.body)}
		if c.contentType != "" {
			answer.Header.Set("Content-Type", c.contentType)
		}
		r.receipt = ingest.Receipt{Response: answer}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/webhook/acme",
			http.NoBody)
		require.NoError(t, err)
		got, err := server.Client().Do(request)
		require.NoError(t, err)
		body, err := io.ReadAll(got.Body)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, c.status, got.StatusCode)
		require.Equal(t, c.contentType, got.Header.Get("Content-Type"), "%d %q", c.status, c.body)
		require.Equal(t, "nosniff", got.Header.Get("X-Content-Type-Options"))
		require.Equal(t, c.body, string(body))
	}
}
