package e2e_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// oidcDefinition is an operator's definition of the provider of connect.mjs, whose server is where a connection says.
const oidcDefinition = `schema: 1
slug: openid
display_name: OpenID
categories: [identity]
docs_url: https://github.com/panva/node-oidc-provider
connection_config:
  base_url: {type: url, title: URL, example: "https://login.example.com"}
base_url: "${config.base_url}"
allowed_hosts: ["${config.base_url}"]
auth:
  - mode: oauth2
    authorize_url: "${config.base_url}/auth"
    token_url: "${config.base_url}/token"
    revoke_url: "${config.base_url}/token/revocation"
    issuer: "${config.base_url}"
    default_scopes: [openid, email, offline_access]
    authorize_params: {prompt: consent}
    refresh: {rotating: true}
health:
  probes: [{path: /me, account: {id: /sub, label: /email}}]
`

// connector is an installation whose commands and server know providers of a folder.
type connector struct {
	*installation
	key credentials
}

// newConnector makes one with definitions by their slugs, and a key of the environment production. The server does not
// run yet.
func newConnector(t *testing.T, databaseURL, dir string, definitions map[string]string) *connector {
	t.Helper()
	folder := t.TempDir()
	for slug, text := range definitions {
		require.NoError(t, os.WriteFile(filepath.Join(folder, slug+".yaml"), []byte(text), 0o600))
	}
	in := &installation{t: t, binary: testkit.Binary(t), environ: []string{"SALLYPORT_DATA=" + dir,
		"SALLYPORT_LISTEN=127.0.0.1:0", "SALLYPORT_EGRESS_ALLOW=127.0.0.0/8", "SALLYPORT_EGRESS_ALLOW_HTTP=true",
		"SALLYPORT_LOG_FORMAT=json", "SALLYPORT_PUBLIC_URL=" + publicURL, "SALLYPORT_PROVIDERS_DIR=" + folder}}
	if databaseURL != "" {
		in.environ = append(in.environ, "SALLYPORT_DATABASE_URL="+databaseURL)
	}
	in.command("", "keyset", "create")
	in.command("", "migrate")
	in.command(ownerPassword+"\n", "admin", "create", "--email", ownerEmail)
	key := strings.TrimSpace(in.command("", "keys", "create", "--name", "k", "--environment", "production", "--routes",
		"connections"))
	in.environ = append(in.environ, "SALLYPORT_API_KEY="+key)
	return &connector{in, byKey(key)}
}

// reach lets commands reach the server that has started.
func (c *connector) reach() { c.environ = append(c.environ, "SALLYPORT_SERVER="+c.base) }

// connectable is what commands and the API return about a connection.
type connectable struct {
	Status       string `json:"status"`
	StatusReason string `json:"status_reason"`
	ConnectURL   string `json:"connect_url"`
	Account      struct {
		ID    string `json:"id"`
		Label string `json:"label"`
	} `json:"account"`
	Credentials *struct {
		Fingerprint string `json:"fingerprint"`
	} `json:"credentials"`
	Scopes struct {
		Granted []string `json:"granted"`
	} `json:"scopes"`
}

// about runs a command of connections and reads what it prints.
func (c *connector) about(args ...string) (out connectable) {
	c.t.Helper()
	text := c.command("", append(append([]string{"connections"}, args...), "--json")...)
	require.NoError(c.t, json.Unmarshal([]byte(text), &out), text)
	return out
}

// withCredential is about a command that gets a credential from a file.
func (c *connector) withCredential(name, value string, args ...string) connectable {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "value")
	require.NoError(c.t, os.WriteFile(file, []byte(value), 0o600))
	return c.about(append(args, "--credentials", name+"="+file)...)
}

// pass lets the cool-down of the tokens of all connections end, and the worker renew those that are due.
func (c *connector) pass(databaseURL, dir string, due bool) {
	c.t.Helper()
	d, err := db.Open(c.t.Context(), databaseURL, dir)
	require.NoError(c.t, err)
	statement := "UPDATE token_refreshes SET attempted_ms = 1"
	if due {
		statement += ", due_ms = 1"
	}
	_, err = d.Write().ExecContext(c.t.Context(), statement)
	require.NoError(c.t, err)
	require.NoError(c.t, d.Close())
}

// An independent provider, the npm package oidc-provider, which replaces refresh tokens and ends the grant if a used
// one comes again, is connected by the hosted page, used, refreshed and revoked. However many requests and nodes want
// another token at the same time, no refresh token is sent twice: the provider detects none. One that a thief sends
// ends the connection with a reason, and the same account connects again.
func TestConnectionOfARealProvider(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	peerDir := nodePeer(t, "oidc-provider")
	testkit.EachServer(t, func(t *testing.T, databaseURL, dir string) {
		peer := startPeer(t, peerDir, "connect.mjs")
		var issuer, said string
		peer.hear(&issuer)
		c := newConnector(t, databaseURL, dir, map[string]string{"openid": oidcDefinition})
		const secret = "a secret of 32 and more characters: +%&"
		var config struct {
			OAuth struct {
				RedirectURI string `json:"redirect_uri"`
			} `json:"oauth"`
		}
		text := c.command(secret, "provider-configs", "create", "--environment", "production", "--provider", "openid",
			"--client-id", "gateway", "--client-secret-file", "-", "--oauth-host", issuer, "--json")
		require.NoError(t, json.Unmarshal([]byte(text), &config), text)
		peer.say(object{"client_id": "gateway", "client_secret": secret, "redirect_uris": []string{config.OAuth.RedirectURI},
			"grant_types": []string{"authorization_code", "refresh_token"}, "token_endpoint_auth_method": "client_secret_post"})
		peer.hear(&said)
		person := func(name any) {
			peer.say(object{"person": name})
			peer.hear(&said)
		}
		type happened struct {
			Codes, Refreshes, Revocations, Valid int
			Errors                               []string
		}
		state := func() (s happened) {
			peer.say(object{"state": true})
			peer.hear(&s)
			return s
		}
		defer c.serve()()
		c.reach()
		nodes := []*installation{c.installation}
		if databaseURL != "" {
			second := *c.installation
			defer second.serve()()
			nodes = append(nodes, &second)
		}

		// Connect: the person refuses first, and goes back to the page.
		link := c.about("create", "--provider", "openid", "--connection-id", "ada", "--connection-config", "base_url="+issuer,
			"--connect").ConnectURL
		browser := newSurfer(t, c.base)
		refused := browser.authorize(link, "oauth2")
		require.Contains(t, refused.text, "Not connected")
		require.Contains(t, refused.text, "The person said no")
		require.Equal(t, "access_denied", c.about("show", "openid", "ada").StatusReason)
		person("ada")
		connected := browser.authorize(link, "oauth2")
		require.Contains(t, connected.text, "OpenID is connected")
		require.Contains(t, newSurfer(t, c.base).do(http.MethodGet, link, nil).text, "has been used")
		first := c.about("show", "openid", "ada")
		require.Equal(t, "active", first.Status)
		require.Equal(t, "ada", first.Account.ID)
		require.Equal(t, "ada@example.test", first.Account.Label)
		require.ElementsMatch(t, []string{"openid", "email", "offline_access"}, first.Scopes.Granted)
		require.Equal(t, happened{Codes: 1, Valid: 1, Errors: []string{}}, state())

		// Use and refresh, by many at the same time on every node.
		c.command("", "connections", "test", "openid", "ada")
		refresh := func() (statuses map[int]int) {
			var all sync.WaitGroup
			var mu sync.Mutex
			statuses = map[int]int{}
			for n := range 20 {
				all.Go(func() {
					status, _ := nodes[n%len(nodes)].ask(c.key, http.MethodPost, "/connections/openid/ada",
						object{"operation": "refresh"})
					mu.Lock()
					statuses[status]++
					mu.Unlock()
				})
			}
			all.Wait()
			return statuses
		}
		for round := range 3 {
			c.pass(databaseURL, dir, false)
			statuses := refresh()
			require.Positive(t, statuses[http.StatusOK], statuses)
			require.Equal(t, 20, statuses[http.StatusOK]+statuses[http.StatusConflict], statuses)
			s := state()
			require.Equal(t, round+1, s.Refreshes)
			require.Empty(t, s.Errors)
		}
		c.pass(databaseURL, dir, true) // the workers of all nodes see it
		await.Condition(t, "the worker has renewed the tokens", func() bool { return state().Refreshes == 4 })
		require.NotEqual(t, first.Credentials.Fingerprint, c.about("show", "openid", "ada").Credentials.Fingerprint)
		c.command("", "connections", "test", "openid", "ada")

		// Revoke.
		c.command("", "connections", "revoke", "openid", "ada", "--yes")
		require.Equal(t, happened{Codes: 1, Refreshes: 4, Revocations: 1, Valid: 0, Errors: []string{}}, state())
		revoked := c.about("show", "openid", "ada")
		require.Equal(t, "revoked", revoked.Status)
		require.Nil(t, revoked.Credentials)

		// A thief: the provider ends the grant, and the connection says so at the next refresh.
		again := func() page {
			return newSurfer(t, c.base).authorize(c.about("reconnect", "openid", "ada").ConnectURL, "oauth2")
		}
		require.Contains(t, again().text, "OpenID is connected")
		c.pass(databaseURL, dir, false)
		c.command("", "connections", "refresh", "openid", "ada")
		peer.say(object{"replay": true})
		var status int
		peer.hear(&status)
		require.Equal(t, http.StatusBadRequest, status)
		c.pass(databaseURL, dir, true)
		await.Condition(t, "the connection says that its grant has ended", func() bool {
			return c.about("show", "openid", "ada").Status == "needs_reauth"
		})
		require.Equal(t, "grant_refused", c.about("show", "openid", "ada").StatusReason)

		// Another account is refused, and the same one connects again.
		person("eve")
		require.Contains(t, again().text, "another account")
		person("ada")
		require.Contains(t, again().text, "OpenID is connected")
		require.Equal(t, "active", c.about("show", "openid", "ada").Status)
		c.command("", "connections", "delete", "openid", "ada")
	})
}
