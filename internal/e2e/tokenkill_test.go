package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit/await"
)

// issuer is a token endpoint that lets the first request with each refresh token wait until its client is gone.
type issuer struct {
	*httptest.Server

	// reached gets each of these refresh tokens.
	reached chan string
	mu      sync.Mutex
	seen    map[string]bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	p := &issuer{reached: make(chan string, 2), seen: map[string]bool{}}
	p.Server = httptest.NewServer(p)
	await.Close(t, p.Server)
	return p
}

// ServeHTTP has replaced the token "lost" when its client goes, and not the token "kept".
func (p *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := r.PostFormValue("refresh_token")
	p.mu.Lock()
	first := !p.seen[token]
	p.seen[token] = true
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case first:
		p.reached <- token
		<-r.Context().Done()
	case token == "kept":
		_, _ = w.Write([]byte(`{"access_token":"new","refresh_token":"next","token_type":"Bearer","expires_in":3600}`))
	default:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
	}
}

// A process that is killed while it waits for new tokens breaks no connection in silence. Where the provider has not
// replaced the tokens, the next process renews them. Where it has, the connection needs its credentials again, and
// says that tokens were lost.
func TestKilledDuringRefresh(t *testing.T) {
	t.Parallel()
	in, p := newInstallation(t), newIssuer(t)
	var k apiKey
	text := in.command("", "keys", "create", "--name", "k", "--environment", "production", "--routes", "connections",
		"--json")
	require.NoError(t, json.Unmarshal([]byte(text), &k), text)
	in.command("a secret\n", "provider-configs", "create", "--provider", "http", "--client-id", "me",
		"--client-secret-file", "-", "--oauth-host", p.URL, "--environment", "production")
	process, end := in.run()
	for _, name := range []string{"kept", "lost"} {
		status, body := in.ask(byKey(k.Key), http.MethodPost, "/connections", object{"provider": "http",
			"connection_id": name, "auth_mode": "oauth2",
			"credentials": object{"access_token": "old", "refresh_token": name,
				"expires_at": time.Now().Add(5 * time.Second).Format(time.RFC3339Nano)},
			"connection_config": object{"base_url": p.URL, "authorize_url": p.URL + "/authorize",
				"token_url": p.URL + "/token"}})
		require.Equal(t, http.StatusCreated, status, "%s", body)
	}
	for range 2 {
		await.Value(t, "a request for tokens", p.reached)
	}
	require.NoError(t, process.Kill())
	require.Error(t, end())

	// The end of the leases is a minute away.
	d, err := db.Open(t.Context(), "", strings.TrimPrefix(in.environ[0], "SALLYPORT_DATA="))
	require.NoError(t, err)
	_, err = d.Write().ExecContext(t.Context(), "UPDATE token_refreshes SET lease_until_ms = 1 WHERE lease <> ''")
	require.NoError(t, err)
	require.NoError(t, d.Close())
	defer in.serve()()
	type state struct {
		Status      string `json:"status"`
		Reason      string `json:"status_reason"`
		Credentials struct {
			Refreshed *time.Time `json:"last_refreshed_at"`
		} `json:"credentials"`
	}
	read := func(name string) (s state) {
		status, body := in.ask(byKey(k.Key), http.MethodGet, "/connections/http/"+name, nil)
		require.Equal(t, http.StatusOK, status, "%s", body)
		require.NoError(t, json.Unmarshal(body, &s))
		return s
	}
	await.Condition(t, "the connection works again", func() bool { return read("kept").Credentials.Refreshed != nil })
	require.Equal(t, "active", read("kept").Status)
	await.Condition(t, "the connection needs its credentials", func() bool {
		return read("lost").Status == "needs_reauth"
	})
	require.Equal(t, "refresh_interrupted", read("lost").Reason)
}
