package connections_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/tokens"
)

// tokenAPI is a definition whose tokens expire: some are refreshed, some minted.
const tokenAPI = `schema: 1
slug: acme
display_name: Rotor
categories: [crm]
docs_url: https://rotor.example/docs
connection_config:
  base_url: {type: url, title: URL, example: "https://api.rotor.example"}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: oauth2
    authorize_url: "${config.base_url}/authorize"
    token_url: "${config.base_url}/token"
    revoke_url: "${config.base_url}/revoke"
    client_auth: none
    refresh: {rotating: true}
  - {mode: oauth2_client_credentials, token_url: "${config.base_url}/token"}
health:
  probes: [{path: /me, account: {id: /id, label: /login}}]
`

// rotor is a provider that replaces the refresh token with each use, and ends a grant whose old token is used again.
type rotor struct {
	*httptest.Server

	mu sync.Mutex
	// refresh is the valid refresh token, access the valid access token; empty once the grant is dead.
	refresh, access string
	// n counts the exchanges.
	n int
	// down makes the endpoints for tokens respond with the status, or with 503.
	down   bool
	status int
	// retryAfter is a header of these responses; empty for none.
	retryAfter string
	// lose makes it serve the next exchange without a response.
	lose    bool
	revoked []string
	// more is added to the responses of the token endpoint, over the usual members.
	more map[string]any
	// before is called before the token endpoint reads a request; nil for nothing.
	before func()
	// denied makes the API refuse all tokens.
	denied bool
}

func newRotor(t testing.TB) *rotor {
	t.Helper()
	p := &rotor{refresh: "refresh-0", access: "access-0"}
	p.Server = httptest.NewServer(p)
	await.Close(t, p.Server)
	return p
}

func (p *rotor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	before := p.before
	p.mu.Unlock()
	if before != nil && r.URL.Path == "/token" {
		before()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/me":
		if p.denied || p.access == "" || r.Header.Get("Authorization") != "Bearer "+p.access {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{"id":"7","login":"seven"}`))
	case "/revoke":
		if p.down {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = r.ParseForm()
		p.revoked = append(p.revoked, r.Form.Get("token"))
	case "/token":
		p.token(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (p *rotor) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	p.n++
	refused := r.Form.Get("grant_type") == "client_credentials" && r.Form.Get("client_secret") != "good"
	switch {
	case p.down:
		if p.retryAfter != "" {
			w.Header().Set("Retry-After", p.retryAfter)
		}
		w.WriteHeader(cmp.Or(p.status, http.StatusServiceUnavailable))
		return
	case r.Form.Get("grant_type") == "refresh_token" && r.Form.Get("refresh_token") != p.refresh, refused:
		p.refresh, p.access = "", "" // a token that was used before was stolen
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		return
	}
	p.access, p.refresh = fmt.Sprintf("access-%d", p.n), fmt.Sprintf("refresh-%d", p.n)
	if p.lose {
		p.lose = false
		panic(http.ErrAbortHandler)
	}
	out := map[string]any{"access_token": p.access, "refresh_token": p.refresh, "expires_in": 3600}
	maps.Copy(out, p.more)
	_ = json.NewEncoder(w).Encode(out)
}

// set changes the provider.
func (p *rotor) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *rotor) exchanges() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// newTokenWorld returns a world with the definition of the rotor, and a second node.
func newTokenWorld(t testing.TB, s testkit.Store) (w *world, other *connections.Service) {
	t.Helper()
	return newWorld(t, s).withTokens(t)
}

// record adds a hook to the services that are made from now on. It returns what reports the connections that had a kind
// of change, each once, in the order of their UUIDs.
func (w *world) record() func(connections.ChangeKind) []string {
	var mu sync.Mutex
	all := map[connections.ChangeKind][]string{}
	w.hooks = append(w.hooks, func(_ context.Context, _ *sql.Tx, c *connections.Connection,
		kind connections.ChangeKind) error {
		mu.Lock()
		defer mu.Unlock()
		all[kind] = append(all[kind], c.UUID)
		// The events have their scopes.
		if (kind == connections.LostCredentials || kind == connections.Reconnected) && c.Credentials == nil {
			return errors.New("the credentials that a change is about are not described")
		}
		return nil
	})
	return func(kind connections.ChangeKind) []string {
		mu.Lock()
		defer mu.Unlock()
		list := slices.Sorted(slices.Values(all[kind]))
		return slices.Compact(list)
	}
}

func (w *world) withTokens(t testing.TB) (same *world, other *connections.Service) {
	t.Helper()
	f := w.newFolder(t, tokenAPI)
	w.svc, other = f.svc, w.newFolder(t, tokenAPI).svc
	w.configs = f.configs
	_, err := w.configs.Create(t.Context(), w.a, configs.NewConfig{Provider: "acme", Key: ptr("acme"),
		Change: configs.Change{ClientID: patch.To("the-client")}})
	require.NoError(t, err)
	return w, other
}

// everyProvider uses an OAuth client.
type everyProvider struct{}

func (everyProvider) UsesClient(id.Environment, string) bool { return true }

// rotating is a connection with an access token that expires in a minute.
func (w *world) rotating(t *testing.T, p *rotor) connections.Connection {
	t.Helper()
	at := w.clock.Now().Add(time.Minute)
	return w.create(t, w.a, tokenConnection("oauth2", p, connections.Credentials{ExpiresAt: &at,
		Values: map[string]secretbox.Secret{"access_token": "access-0", "refresh_token": "refresh-0"}}))
}

func tokenConnection(mode string, p *rotor, c connections.Credentials) connections.NewConnection {
	provider, name := "acme", mode
	return connections.NewConnection{Provider: &provider, ConnectionID: &name, Change: connections.Change{AuthMode: &mode,
		Credentials:      patch.To(c),
		ConnectionConfig: patch.To(map[string]*string{"base_url": &p.URL})}}
}

func (w *world) read(t testing.TB, id string) connections.Connection {
	t.Helper()
	c, err := w.svc.Get(t.Context(), w.a.View(), "acme", id)
	require.NoError(t, err)
	return c
}

// Fifty requests on each of two nodes need a token that has expired at the same time, from a provider that ends a grant
// whose refresh token is used twice: one exchange is made, and every request gets the new token.
func TestOneRefreshOnTwoNodes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, other := newTokenWorld(t, s)
		p := newRotor(t)
		c := w.rotating(t, p)
		w.clock.Advance(2 * time.Minute)
		nodes := []*connections.Service{w.svc, other}
		var all sync.WaitGroup
		got, failures := make(chan string, 100), make(chan error, 100)
		for i := range 100 {
			all.Go(func() {
				token, err := connections.AccessToken(t.Context(), nodes[i%2], &c)
				got <- token
				failures <- err
			})
		}
		await.Condition(t, "the exchange", func() bool {
			return count(t, w, "SELECT count(*) FROM token_refreshes WHERE attempted_ms IS NOT NULL") == 1
		})
		await.Condition(t, "the requests", func() bool {
			if w.clock.Timers() > 0 { // the other node looks again
				w.clock.Advance(100 * time.Millisecond)
			}
			return len(failures) == 100
		})
		all.Wait()
		for range 100 {
			require.NoError(t, <-failures)
			require.Equal(t, "access-1", <-got)
		}
		require.Equal(t, 1, p.exchanges())
		after := w.read(t, "oauth2")
		require.Equal(t, connections.Active, after.Status)
		require.NotNil(t, after.Credentials.RefreshedAt)
	})
}

// A provider that is away condemns no connection: it has the status error from the end of its token, and repairs
// itself. One that ends a grant does, with the reason; and a response that was lost is named, because its tokens are.
func TestFailedRefreshes(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		c := w.rotating(t, p)
		w.clock.Advance(2 * time.Minute)
		p.set(func() { p.down = true })
		_, err := connections.AccessToken(t.Context(), w.svc, &c)
		requireCode(t, apperr.CodeConnectionNotReady, err)
		failing := w.read(t, "oauth2")
		require.Equal(t, connections.Error, failing.Status)
		require.Equal(t, tokens.ReasonEndpointFailing, failing.StatusReason)
		require.EqualValues(t, 1, failing.Credentials.RefreshFailures)
		p.set(func() { p.down = false })
		_, err = connections.AccessToken(t.Context(), w.svc, &c)
		requireCode(t, apperr.CodeConnectionNotReady, err)
		require.Equal(t, 1, p.exchanges(), "the cool-down keeps requests from asking again")
		w.clock.Advance(37 * time.Second) // the back-off is up to a fifth longer
		token, err := connections.AccessToken(t.Context(), w.svc, &c)
		require.NoError(t, err)
		require.Equal(t, "access-2", token)
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)

		w.clock.Advance(2 * time.Hour)
		p.set(func() { p.lose = true })
		_, err = connections.AccessToken(t.Context(), w.svc, &c)
		requireCode(t, apperr.CodeConnectionNotReady, err)
		w.clock.Advance(time.Minute)
		_, err = connections.AccessToken(t.Context(), w.svc, &c)
		requireCode(t, apperr.CodeConnectionNotReady, err)
		lost := w.read(t, "oauth2")
		require.Equal(t, connections.NeedsReauth, lost.Status)
		require.Equal(t, tokens.ReasonRefreshInterrupted, lost.StatusReason)
	})
}

// A mode that mints gets its token with the test of a new connection. Refused credentials are an error that stores
// nothing; a provider that is away is none, and the token comes later.
func TestMintedTokens(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		own := func(secret string) connections.NewConnection {
			return tokenConnection("oauth2_client_credentials", p, connections.Credentials{
				Values: map[string]secretbox.Secret{"client_id": "me", "client_secret": secretbox.Secret(secret)}})
		}
		_, _, err := w.svc.Create(t.Context(), w.a, own("bad"))
		requireCode(t, apperr.CodeInvalidCredentials, err)
		p.set(func() { p.down = true })
		c := w.create(t, w.a, own("good"))
		require.Equal(t, []string{"client_id", "client_secret"}, c.Credentials.Fields)
		require.Nil(t, c.Health)
		p.set(func() { p.down = false })
		w.clock.Advance(time.Minute)
		_, err = connections.AccessToken(t.Context(), w.svc, &c)
		require.NoError(t, err)
		require.NoError(t, w.svc.Delete(t.Context(), w.a, "acme", "oauth2_client_credentials"))
		c = w.create(t, w.a, own("good"))
		require.True(t, slices.Contains(c.Credentials.Fields, tokens.AccessToken))
		require.Equal(t, "seven", c.Account.Label)
	})
}

// Revoking asks the provider first, and removes the credentials in any case. Deleting does so, too.
func TestRevocation(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		r := connections.NewRenewer(w.svc)
		refreshed, err := r.Refresh(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.NotNil(t, refreshed.Credentials.RefreshedAt)
		require.True(t, refreshed.NextRefreshAt.Before(*refreshed.Credentials.ExpiresAt))
		out, err := r.Revoke(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.Equal(t, connections.Revocation{Upstream: true}, out)
		after := w.read(t, "oauth2")
		require.Equal(t, connections.Revoked, after.Status)
		require.Nil(t, after.Credentials)
		require.Equal(t, []string{"refresh-1"}, p.revoked)
		require.Zero(t, count(t, w, "SELECT count(*) FROM token_refreshes"))
		out, err = r.Delete(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.False(t, out.Upstream)
		require.NotEmpty(t, out.Reason)
	})
}

// A provider that does not revoke credentials keeps no one from removing them here, and the reason is returned.
func TestRevocationThatFails(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w, _ := newTokenWorld(t, s)
		p := newRotor(t)
		w.rotating(t, p)
		p.set(func() { p.down = true })
		out, err := connections.NewRenewer(w.svc).Revoke(t.Context(), w.a, "acme", "oauth2")
		require.NoError(t, err)
		require.False(t, out.Upstream)
		require.Contains(t, out.Reason, "503")
		after := w.read(t, "oauth2")
		require.Equal(t, connections.Revoked, after.Status)
		require.Equal(t, connections.ReasonRevoked, after.StatusReason)
		require.Nil(t, after.Credentials)
		require.Zero(t, count(t, w, "SELECT count(*) FROM connection_credential_values"))
	})
}

// A token that nothing renews makes its connection expire at its end, with an event. Other credentials end that.
func TestExpiry(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		seen := w.record()
		w, _ = w.withTokens(t)
		p := newRotor(t)
		at := w.clock.Now().Add(time.Minute)
		given := connections.Credentials{ExpiresAt: &at, Values: map[string]secretbox.Secret{"access_token": "access-0"}}
		c := w.create(t, w.a, tokenConnection("oauth2", p, given))
		w.clock.Advance(2 * time.Minute)
		service := connections.TokensModule(w.svc).Services[1]
		require.NoError(t, service.Start(t.Context()))
		await.Condition(t, "the end of the token", func() bool { return w.read(t, "oauth2").Status == connections.Expired })
		require.NoError(t, service.Stop(t.Context()))
		require.Equal(t, tokens.ReasonTokenExpired, w.read(t, "oauth2").StatusReason)
		require.Equal(t, []string{c.UUID}, seen(connections.HasExpired))
		require.Zero(t, p.exchanges())
		given.ExpiresAt = nil
		_, err := w.svc.Update(t.Context(), w.a, "acme", "oauth2", connections.Change{Credentials: patch.To(given)})
		require.NoError(t, err)
		require.Equal(t, connections.Active, w.read(t, "oauth2").Status)
	})
}
