package connectinghttp_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
)

// Two teams may have a configuration of one key for different authorization servers. A code of the one that comes back
// with the state of a link of the other is sent to neither: a team could otherwise lead a victim to the provider of
// another team, and take the victim's account into a connection of its own.
func TestMixUpOfEnvironments(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		key, mode := "acme-work", "oauth2"
		_, err := w.configs.Create(t.Context(), w.actor, configs.NewConfig{Provider: "acme", Key: &key,
			Change: configs.Change{ClientID: patch.To("client"), ClientSecret: patch.To(secretbox.Secret("client-secret"))}})
		require.NoError(t, err)
		var asked atomic.Bool
		evil := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			asked.Store(true)
			rw.WriteHeader(http.StatusBadRequest)
		}))
		await.Close(t, evil)
		attacker := w.actor
		attacker.Team, attacker.Environment, attacker.ID = "team_y", id.Environment(id.New(id.PrefixEnvironment)), "key_b"
		_, err = s.DB.Write().ExecContext(t.Context(), `INSERT INTO teams (id, name, created_ms) VALUES ('team_y', 'y', 0)`)
		require.NoError(t, err)
		_, err = s.DB.Write().ExecContext(t.Context(), `INSERT INTO environments (id, team_id, name, created_ms)
			VALUES ($1, 'team_y', 'a', 0)`, string(attacker.Environment))
		require.NoError(t, err)
		_, err = w.configs.Create(t.Context(), attacker, configs.NewConfig{Provider: "http", Key: &key,
			Change: configs.Change{ClientID: patch.To("evil"), ClientSecret: patch.To(secretbox.Secret("evil-secret")),
				ClientHosts: patch.To([]string{evil.URL})}})
		require.NoError(t, err)

		authorize, token := evil.URL+"/authorize", evil.URL+"/token"
		id := "lure"
		lure, err := w.svc.Create(t.Context(), attacker, connections.NewConnection{Provider: &key, ConnectionID: &id,
			Change: connections.Change{AuthMode: &mode, ConnectionConfig: patch.To(map[string]*string{"base_url": &evil.URL,
				"authorize_url": &authorize, "token_url": &token})}}, connecting.Terms{})
		require.NoError(t, err)
		victim := w.browser()
		to, err := url.Parse(victim.submit(lure.URL.Reveal(), "mode", mode).to)
		require.NoError(t, err)
		require.NotEqual(t, configs.RedirectURI(w.url, w.actor.Environment, key), to.Query().Get("redirect_uri"))
		// The attacker's server sends the victim on to the honest provider, which returns to the URI of the honest client.
		page := victim.comeBack(key, granted(to.Query().Get("state")))
		require.Equal(t, http.StatusBadRequest, page.status, page.text)
		require.False(t, asked.Load(), "the code was sent to the server of the other environment")
	})
}
