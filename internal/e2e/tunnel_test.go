package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/config"
)

// atHost makes a request to a host name, as a tunnel passes it on.
func (w *world) atHost(host, method, path string, c credentials) response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.base+path, http.NoBody)
	require.NoError(w.t, err)
	c(r.Header)
	r.Host = host
	return w.send(r)
}

// In development mode the host of public-url reaches the server through a tunnel, and no other name does: the page of
// another site could use any other name for this machine. Commands on the machine do not need the tunnel.
func TestDevelopmentModeBehindATunnel(t *testing.T) {
	t.Parallel()
	const host = "abc.trycloudflare.com"
	each(t, func(w *world) {
		for _, name := range []string{host, "ABC.trycloudflare.com", host + ":443", "localhost", "127.0.0.1:1",
			"[::1]:8080"} {
			w.atHost(name, http.MethodGet, "/readyz", anonymous).want(w, http.StatusOK)
			w.atHost(name, http.MethodGet, prefix+"/connections", w.dev()).want(w, http.StatusOK)
		}
		for _, name := range []string{"evil.example", host + ".evil.example", "x" + host, "trycloudflare.com", "10.0.0.1",
			"localhost.evil.example"} {
			e := w.atHost(name, http.MethodGet, prefix+"/connections", w.dev()).refused(w, http.StatusMisdirectedRequest,
				apperr.CodeHTTP)
			require.Contains(w.t, e.Error.Message, "public-url")
			require.NotContains(w.t, e.Error.Message, name)
		}
		c := w.connect(w.dev(), object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
		require.Contains(w.t, c.WebhookURL, "https://"+host+prefix+"/webhook/whk_")
		w.atHost(host, http.MethodPost, prefix+"/webhook/"+c.pathToken(), anonymous).refused(w, http.StatusUnauthorized,
			apperr.CodeSignatureMissing)

		text, err := os.ReadFile(filepath.Join(w.dir, "dev-credentials.json"))
		require.NoError(w.t, err)
		var left map[string]any
		require.NoError(w.t, json.Unmarshal(text, &left))
		require.Contains(w.t, left, "base_url")
		require.Equal(w.t, w.base+prefix, left["base_url"])
	}, func(c *config.Config) { c.PublicURL = "https://" + host })
}
