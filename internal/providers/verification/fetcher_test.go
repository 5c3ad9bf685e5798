package verification_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/verification"
)

// Keys come from an response of status 200 alone, of bounded size, within the caller's time, from a target that the
// address policy allows; a redirect is followed nowhere.
func TestFetchKeys(t *testing.T) {
	t.Parallel()
	hang, posted := make(chan struct{}), make(chan string, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"keys":[]}`) })
	mux.HandleFunc("POST /key", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		posted <- r.Header.Get("Content-Type") + " " + string(body)
		_, _ = io.WriteString(w, "key")
	})
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/keys", http.StatusFound)
	})
	mux.HandleFunc("/most", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", verification.MaxKeyBytes))
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", verification.MaxKeyBytes+1))
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, _ *http.Request) { <-hang })
	server := httptest.NewTLSServer(mux)
	await.Close(t, server)
	t.Cleanup(func() { close(hang) })
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	trusting := egress.Options{TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	f := verification.NewKeyFetcher(egress.New(egress.Policy{AllowLoopback: true}, trusting))

	got, err := f.FetchKeys(t.Context(), verification.KeyRequest{URL: server.URL + "/keys"})
	require.NoError(t, err)
	require.Equal(t, `{"keys":[]}`, string(got))
	got, err = f.FetchKeys(t.Context(), verification.KeyRequest{URL: server.URL + "/key", Body: []byte(`{}`)})
	require.NoError(t, err)
	require.Equal(t, "key", string(got))
	require.Equal(t, "application/json {}", <-posted)
	got, err = f.FetchKeys(t.Context(), verification.KeyRequest{URL: server.URL + "/most"})
	require.NoError(t, err)
	require.Len(t, got, verification.MaxKeyBytes)

	for path, want := range map[string]string{"/redirect": "status 302", "/large": "larger", "/nothing": "status 404"} {
		_, err := f.FetchKeys(t.Context(), verification.KeyRequest{URL: server.URL + path})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "127.0.0.1")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.FetchKeys(ended, verification.KeyRequest{URL: server.URL + "/hang"})
	require.Error(t, err)
	_, err = verification.NewKeyFetcher(egress.New(egress.Policy{}, trusting)).FetchKeys(t.Context(),
		verification.KeyRequest{URL: server.URL + "/keys"})
	require.Error(t, err, "a private address")
}
