package connectinghttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/outbound"
)

// OAuth connects: with PKCE, the scopes, the redirect's settings and the account; what was not granted is shown.
func TestOAuth(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		w.provider.set(func(p *provider) { p.scope = "read" })
		link, b := w.link("c", "oauth2"), w.browser()
		page := b.open(link)
		require.Contains(t, page.text, "<li><code>read</code></li>", "a scope that the definition does not explain")
		const words = `<li>Change &lt;b&gt;all&lt;/b&gt; contacts <code class="help">write</code></li>`
		require.Contains(t, page.text, words)
		require.Contains(t, page.text, w.provider.URL, "settings that are fixed are shown")
		require.NotContains(t, page.text, `name="config.base_url"`)
		q := b.authorize(link, "oauth2")
		require.Equal(t, []string{"client", "read write", "S256", configs.RedirectURI(w.url, w.actor.Environment, "acme")},
			[]string{q.Get("client_id"), q.Get("scope"), q.Get("code_challenge_method"), q.Get("redirect_uri")})
		require.Len(t, q.Get("state"), 43)
		done := b.comeBack("acme", granted(q.Get("state")))
		require.Equal(t, http.StatusOK, done.status, done.text)
		require.Contains(t, done.text, "not granted")
		require.Contains(t, done.text, words)
		require.Contains(t, done.text, "https://app.example.com/done?tab=1&amp;connection_id=c&amp;provider=acme&amp;state="+
			"st%26te&amp;status=connected")
		require.Contains(t, done.to, "status=connected", "the scopes can be read with the connection, too")
		c := w.get("c")
		require.Equal(t, connections.Active, c.Status)
		require.Equal(t, "7", c.Account.ID)
		require.Equal(t, "t-1", c.Config["tenant"])
		require.Equal(t, []string{"access_token", "refresh_token"}, c.Credentials.Fields)
		require.Equal(t, []string{"read", "write"}, c.Credentials.ScopesRequested)
		require.Equal(t, []string{"read"}, c.Credentials.ScopesGranted)
		require.WithinDuration(t, w.clock.Now().Add(time.Hour), *c.Credentials.ExpiresAt, 0)
		require.Contains(t, w.kinds, connections.Connected)
		replayed := b.comeBack("acme", granted(q.Get("state")))
		require.Equal(t, http.StatusOK, replayed.status, "a page that is loaded again shows the end again")
		require.Contains(t, replayed.text, "is connected</h1>")
		require.Equal(t, c, w.get("c"), "and changes nothing")
		stranger := w.browser().comeBack("acme", granted(q.Get("state")))
		require.Equal(t, http.StatusBadRequest, stranger.status)
		require.Contains(t, stranger.text, "This page is out of date")
		require.NotContains(t, w.log.String(), q.Get("state"))
		require.NotContains(t, w.log.String(), "good-code")
	})
}

// An environment in which persons have entered too many credentials still connects by OAuth: the tokens of an exchange
// come once. A person who enters a key has to wait. That takes none of the attempts that the link has, and the tests of
// the environment's own requests are counted apart.
func TestTooManyTests(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		var err error
		for i := 0; err == nil; i++ {
			err = w.limits.AcquireGiven(t.Context(), limiter.Given{Environment: w.actor.Environment, ConfigKey: "acme",
				Entered: fmt.Sprint(i)}, outbound.Limits{})
		}
		require.True(t, apperr.Is(err, apperr.CodeRateLimited), err)
		b := w.browser()
		q := b.authorize(w.link("c", "oauth2"), "oauth2")
		done := b.comeBack("acme", granted(q.Get("state")))
		require.Equal(t, http.StatusOK, done.status, done.text)
		require.Equal(t, connections.Active, w.get("c").Status)

		link, person := w.link("d", "api_key"), w.browser()
		enter := func() shown { return person.submit(link, "mode", "api_key", "credential.api_key", "good-key") }
		for range 30 { // more than a link's attempts
			refused := enter()
			require.Equal(t, http.StatusUnprocessableEntity, refused.status, refused.text)
			require.Contains(t, refused.text, "There were too many attempts with this provider")
		}
		require.Equal(t, connections.Pending, w.get("d").Status)
		require.Empty(t, w.failures, "nothing was sent to the provider")
		require.NoError(t, w.limits.AcquireGiven(t.Context(), limiter.Given{Environment: w.actor.Environment,
			ConfigKey: "acme"}, outbound.Limits{}))
		w.clock.Advance(time.Minute)
		require.Contains(t, enter().text, "is connected</h1>")
	})
}

// A state works once, for ten minutes, in its browser, for its configuration and its issuer.
func TestCallbackIsBound(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		link, b := w.link("c", "oauth2"), w.browser()
		begin := func() string { return b.authorize(link, "oauth2").Get("state") }
		const outOfDate = "This page is out of date"
		for name, try := range map[string]func(state string) shown{
			"foreign state": func(string) shown { return b.comeBack("acme", granted(link[len(link)-43:])) },
			"no state":      func(string) shown { return b.comeBack("acme", url.Values{"code": {"good-code"}}) },
			"two states": func(state string) shown {
				return b.comeBack("acme", url.Values{"code": {"good-code"}, "state": {state, state}})
			},
			"second browser": func(state string) shown { return w.browser().comeBack("acme", granted(state)) },
			"other provider": func(state string) shown { return b.comeBack("acme-eu", granted(state)) },
			"expired": func(state string) shown {
				w.clock.Advance(10 * time.Minute)
				return b.comeBack("acme", granted(state))
			},
		} {
			page := try(begin())
			require.Equal(t, http.StatusBadRequest, page.status, name)
			require.Contains(t, page.text, outOfDate, name)
		}
		for _, iss := range []string{"", "https://evil.example"} {
			q := granted(begin())
			q.Set("iss", iss)
			page := b.comeBack("acme", q)
			require.Contains(t, page.text, "another server than the one that was asked")
			require.Contains(t, page.text, "status=failed")
		}
		head := begin()
		require.Equal(t, http.StatusBadRequest, b.do(http.MethodHead, configs.RedirectURI(w.url, w.actor.Environment,
			"acme")+"?"+granted(head).Encode(), "").status)
		require.Equal(t, connections.Pending, w.get("c").Status)
		require.Nil(t, w.get("c").Credentials)
		require.Equal(t, http.StatusOK, b.comeBack("acme", granted(head)).status, "a prefetch uses no state")
		require.Equal(t, connections.Active, w.get("c").Status)
	})
}

// Errors of the provider are words on a page, with the way back; the link can be used again.
func TestErrorsOfTheProvider(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		link, b := w.link("c", "oauth2"), w.browser()
		for _, c := range []struct {
			change func(p *provider)
			query  url.Values
			words  []string
			code   string
		}{
			{nil, url.Values{"error": {"access_denied"}, "error_description": {"The <b>user</b> said no"}},
				[]string{"Access was declined", "The &lt;b&gt;user&lt;/b&gt; said no"}, "access_denied"},
			{nil, url.Values{"error": {"server_error"}}, []string{"The provider has a problem"}, "provider_error"},
			{nil, url.Values{}, []string{"incomplete or malformed"}, "provider_error"},
			{nil, url.Values{"code": {"bad-code"}}, []string{"does not accept the sign-in", "No &lt;i&gt;such&lt;/i&gt; code"},
				"provider_error"},
			{func(p *provider) { p.status = http.StatusBadGateway }, url.Values{"code": {"good-code"}},
				[]string{"cannot be reached"}, "provider_unavailable"},
		} {
			w.provider.set(func(p *provider) { p.status = 0 })
			q := b.authorize(link, "oauth2")
			if c.change != nil {
				w.provider.set(c.change)
			}
			c.query.Set("state", q.Get("state"))
			c.query.Set("iss", "https://acme.example")
			page := b.comeBack("acme", c.query)
			require.Equal(t, http.StatusBadRequest, page.status)
			for _, words := range c.words {
				require.Contains(t, page.text, words)
			}
			require.Contains(t, page.text, "error="+c.code+"&amp;provider=acme")
			require.Empty(t, page.to, "there is something to read first")
			require.Contains(t, page.text, `href="`+strings.TrimPrefix(link, w.url)+`">Try again</a>`)
			require.Equal(t, c.code, w.get("c").StatusReason)
		}
		w.provider.set(func(p *provider) { p.status = 0 })
		require.Equal(t, http.StatusOK, b.comeBack("acme", granted(b.authorize(link, "oauth2").Get("state"))).status)
	})
}

// A link serves the OAuth client for which it was made, and a browser that comes back for another gets words.
func TestClientChanges(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		link, b := w.link("c", "oauth2"), w.browser()
		q := b.authorize(link, "oauth2")
		_, err := w.configs.Update(t.Context(), w.actor, "acme", configs.Change{ClientID: patch.To("another"),
			ClientSecret: patch.To(secretbox.Secret("s"))})
		require.NoError(t, err)
		for _, page := range []shown{b.comeBack("acme", granted(q.Get("state"))), b.open(link),
			b.submit(link, "mode", "oauth2")} {
			require.Equal(t, http.StatusBadRequest, page.status)
			require.Contains(t, page.text, "have changed since the link was made")
		}
		require.Nil(t, w.get("c").Credentials)
	})
}

// Another OAuth client that is set while the provider responds gets none of the former one's tokens: nothing is stored,
// and the page says why.
func TestClientChangesMeanwhile(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		var at, next atomic.Value
		at.Store("")
		w.provider.gate = func(r *http.Request) {
			if at.CompareAndSwap(r.URL.Path, "") {
				id, _ := next.Load().(string)
				if _, err := w.configs.Update(context.WithoutCancel(t.Context()), w.actor, "acme",
					configs.Change{ClientID: patch.To(id)}); err != nil {
					t.Error(err)
				}
			}
		}
		for i, path := range []string{"/token", "/me"} {
			id := strings.TrimPrefix(path, "/")
			_, err := w.configs.Update(t.Context(), w.actor, "acme", configs.Change{ClientID: patch.To("client")})
			require.NoError(t, err)
			link, b := w.link(id, "oauth2"), w.browser()
			q := b.authorize(link, "oauth2")
			next.Store(fmt.Sprint("client-", i))
			at.Store(path)
			page := b.comeBack("acme", granted(q.Get("state")))
			require.Empty(t, at.Load(), "the client has changed")
			require.Contains(t, page.text, "have changed since the link was made", path)
			require.Nil(t, w.get(id).Credentials)
			require.Equal(t, connections.Pending, w.get(id).Status)
		}
	})
}

// OAuth 1.0a takes the same way.
func TestOAuth1(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		link, b := w.link("c", "oauth1"), w.browser()
		page := b.submit(link, "mode", "oauth1")
		require.Equal(t, w.provider.URL+"/authorize1?oauth_token=temporary", page.to, page.text)
		state := stateOf(t, w)
		require.Contains(t, b.comeBack("acme", url.Values{"state": {"x"}, "oauth_token": {"temporary"},
			"oauth_verifier": {"good-verifier"}}).text, "out of date")
		done := b.comeBack("acme", url.Values{"state": {state}, "oauth_token": {"temporary"},
			"oauth_verifier": {"good-verifier"}})
		require.Equal(t, http.StatusOK, done.status, done.text)
		require.Equal(t, []string{"token", "token_secret"}, w.get("c").Credentials.Fields)
		page = b.submit(w.link("d", "oauth1"), "mode", "oauth1")
		require.Equal(t, http.StatusOK, page.status)
		require.Contains(t, b.comeBack("acme", url.Values{"state": {stateOf(t, w)}, "denied": {"temporary"}}).text,
			"Access was declined")
	})
}

// The shipped definitions with OAuth 1.0a connect by a link: Trello's, with what it asks of its authorization page, its
// probe and its account, and http with the endpoints that the connection names.
func TestShippedOAuth1(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		for slug, c := range map[string]struct {
			settings map[string]string
			page     url.Values
			account  string
		}{
			"trello-here": {map[string]string{"server": w.provider.URL}, url.Values{"oauth_token": {"temporary"},
				"scope": {"read,write"}, "expiration": {"never"}}, "7"},
			"http": {map[string]string{"base_url": w.provider.URL, "request_token_url": w.provider.URL + "/request",
				"authorize_url": w.provider.URL + "/authorize1", "token_url": w.provider.URL + "/access"},
				url.Values{"oauth_token": {"temporary"}}, ""},
		} {
			p, known := w.registry.Get(slug)
			require.True(t, known)
			mode, known := p.Outbound.Mode("oauth1")
			require.True(t, known)
			key, name, config := w.clientOf(slug, slug+"-client", mode), "oauth1", map[string]*string{}
			_, err := w.configs.Update(t.Context(), w.actor, key, configs.Change{ClientHosts: patch.To([]string{w.provider.URL}),
				ClientSecret: patch.To(secretbox.Secret("client-secret"))})
			require.NoError(t, err)
			for field, value := range c.settings {
				config[field] = &value
			}
			made, err := w.svc.Create(t.Context(), w.actor, connections.NewConnection{Provider: &key, ConnectionID: &name,
				Change: connections.Change{AuthMode: &name, ConnectionConfig: patch.To(config)}}, connecting.Terms{})
			require.NoError(t, err, slug)
			b := w.browser()
			page := b.submit(made.URL.Reveal(), "mode", name)
			require.Equal(t, http.StatusOK, page.status, page.text)
			to, err := url.Parse(page.to)
			require.NoError(t, err)
			require.Equal(t, c.page, to.Query(), slug)
			done := b.comeBack(key, url.Values{"state": {stateOf(t, w)}, "oauth_token": {"temporary"},
				"oauth_verifier": {"good-verifier"}})
			require.Equal(t, http.StatusOK, done.status, done.text)
			connected, err := w.conns.Get(t.Context(), w.actor.View(), key, name)
			require.NoError(t, err)
			require.Equal(t, connections.Active, connected.Status)
			require.Equal(t, []string{"token", "token_secret"}, connected.Credentials.Fields)
			require.Equal(t, c.account, connected.Account.ID)
		}
	})
}

// stateOf returns the state of the callback that the provider was last given.
func stateOf(t *testing.T, w *world) string {
	t.Helper()
	w.provider.mu.Lock()
	defer w.provider.mu.Unlock()
	u, err := url.Parse(w.provider.callback)
	require.NoError(t, err)
	return u.Query().Get("state")
}
