package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// requireNode says that the peers on Node are installed, so that a test without one fails instead of being skipped.
const requireNode = "SALLYPORT_REQUIRE_NODE"

// nodePeer returns the folder of a peer on Node below testdata. Its packages are installed by its lock file; where they
// are not, the test is skipped and says how.
func nodePeer(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join("testdata", name)
	_, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json"))
	}
	if err != nil {
		require.Empty(t, os.Getenv(requireNode), "%v: the peers on Node are required here", err)
		t.Skipf("%v: install Node 20 or later, and run npm ci in internal/e2e/%s", err, dir)
	}
	return dir
}

// talker is a process that reads lines of JSON and writes some that begin with "> ".
type talker struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func (p talker) say(v any) {
	p.t.Helper()
	require.NoError(p.t, json.NewEncoder(p.in).Encode(v))
}

func (p talker) hear(v any) {
	p.t.Helper()
	for {
		line, err := p.out.ReadString('\n')
		require.NoError(p.t, err)
		if text, ok := strings.CutPrefix(line, "> "); ok {
			require.NoError(p.t, json.Unmarshal([]byte(text), v))
			return
		}
	}
}

// startPeer runs a script in a folder until the test ends.
func startPeer(t *testing.T, dir, script string, args ...string) talker {
	t.Helper()
	c := exec.CommandContext(t.Context(), "node", append([]string{script}, args...)...)
	c.Dir, c.WaitDelay = dir, time.Second
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close()
		await.Return(t, "the end of the peer", func() { _ = c.Wait() }) // it ends with its input, or is ended with the test
	})
	return talker{t, in, bufio.NewReader(out)}
}

// An independent identity provider, the npm package oidc-provider, signs people in, for each way of identifying the
// client, signing tokens and describing people. A person who leaves a group loses its role. The provider's refusals are
// reported.
func TestRealIdentityProvider(t *testing.T) {
	t.Parallel()
	testkit.NeedProcesses(t)
	dir := nodePeer(t, "oidc-provider")
	each(t, func(w *world) {
		// The provider's clock is the real one.
		signIn := func(b *browser, provider string) int {
			w.clk.Advance(time.Since(w.clk.Now()))
			return b.signIn(provider).status
		}
		w.clk.Advance(time.Since(w.clk.Now()))
		peer := startPeer(w.t, dir, "peer.mjs")
		var issuers []string
		peer.hear(&issuers)
		type setup struct{ id, clientID, email string }
		var setups []setup
		clients := make([][]object, len(issuers))
		for place, issuer := range issuers {
			for clientID, of := range map[string]object{
				"basic": {"token_endpoint_auth_method": "client_secret_basic", "id_token_signed_response_alg": "RS256"},
				"post":  {"token_endpoint_auth_method": "client_secret_post", "id_token_signed_response_alg": "ES256"},
				"none":  {"token_endpoint_auth_method": "none", "id_token_signed_response_alg": "EdDSA"},
				"hmac":  {"token_endpoint_auth_method": "client_secret_basic", "id_token_signed_response_alg": "HS256"},
			} {
				body := object{"name": clientID, "issuer": issuer, "client_id": clientID, "scopes": []string{"openid", "email",
					"groups"}, "just_in_time": true, "allowed_domains": []string{"example.test"},
					"role_mappings": []object{{"group": "engineering", "role": "developer"}, {"group": "*", "role": "viewer"}}}
				if clientID != "none" {
					body["client_secret"] = "a secret of 32 and more characters: +%&"
					of["client_secret"] = body["client_secret"]
				}
				var made struct {
					ID          string `json:"id"`
					RedirectURI string `json:"redirect_uri"`
				}
				w.call(w.user(""), http.MethodPost, "/team/sso", body).want(w, http.StatusCreated).into(w, &made)
				of["client_id"], of["redirect_uris"] = clientID, []string{made.RedirectURI}
				clients[place] = append(clients[place], of)
				// another issuer knows another person
				setups = append(setups, setup{made.ID, clientID, fmt.Sprintf("person-%d@example.test", place)})
			}
		}
		peer.say(clients)
		var said string
		peer.hear(&said)
		person := func(v any) {
			peer.say(v)
			peer.hear(&said)
		}
		roles := func(b *browser) []string {
			token, status := b.refresh()
			require.Equal(w.t, http.StatusOK, status)
			var me struct {
				RoleBindings []struct {
					Role string `json:"role"`
				} `json:"role_bindings"`
			}
			w.call(byToken(token, ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK).into(w, &me)
			list := []string{}
			for _, r := range me.RoleBindings {
				list = append(list, r.Role)
			}
			return list
		}
		for _, s := range setups {
			var tested struct {
				OK bool `json:"ok"`
			}
			w.call(w.user(""), http.MethodPost, "/team/sso/"+s.id+"/test", nil).want(w, http.StatusOK).into(w, &tested)
			require.True(w.t, tested.OK, s.clientID)
			member := object{"sub": "person-1", "email": s.email, "email_verified": true, "groups": []string{"engineering"}}
			person(member)
			if s.clientID == "hmac" {
				require.Equal(w.t, http.StatusForbidden, signIn(w.browser(), s.id),
					"a token that the client's secret signs is none")
				continue
			}
			b := w.browser()
			require.Equal(w.t, http.StatusSeeOther, signIn(b, s.id), s.clientID)
			require.ElementsMatch(w.t, []string{"developer", "viewer"}, roles(b))
			member["groups"] = []string{}
			person(member)
			b = w.browser()
			require.Equal(w.t, http.StatusSeeOther, signIn(b, s.id), s.clientID)
			require.Equal(w.t, []string{"viewer"}, roles(b))
			member["email_verified"] = false
			person(member)
			require.Equal(w.t, http.StatusForbidden, signIn(w.browser(), s.id), s.clientID)
			person(nil)
			require.Equal(w.t, http.StatusForbidden, signIn(w.browser(), s.id), s.clientID)
		}
	})
}

// signIn goes to an identity provider and on until the browser comes back, and returns the response to that.
func (b *browser) signIn(provider string) visited {
	b.w.t.Helper()
	theirs, err := cookiejar.New(nil)
	require.NoError(b.w.t, err)
	at, err := url.Parse(b.follow(publicURL + prefix + "/team/sso/" + provider + "/start"))
	require.NoError(b.w.t, err)
	for range 10 {
		if strings.HasPrefix(at.String(), publicURL) {
			return b.visit(http.MethodGet, at.String())
		}
		r, err := http.NewRequestWithContext(b.w.t.Context(), http.MethodGet, at.String(), http.NoBody)
		require.NoError(b.w.t, err)
		for _, c := range theirs.Cookies(at) {
			r.AddCookie(c)
		}
		resp, err := b.w.http.Do(r)
		require.NoError(b.w.t, err)
		text, err := io.ReadAll(resp.Body)
		require.NoError(b.w.t, err)
		require.NoError(b.w.t, resp.Body.Close())
		theirs.SetCookies(at, resp.Cookies())
		at, err = at.Parse(resp.Header.Get("Location"))
		require.NoError(b.w.t, err)
		require.NotEmpty(b.w.t, resp.Header.Get("Location"), "%d: %s", resp.StatusCode, text)
	}
	require.Fail(b.w.t, "the identity provider sends the browser in circles")
	return visited{}
}
