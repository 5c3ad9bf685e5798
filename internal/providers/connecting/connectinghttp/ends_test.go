package connectinghttp_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/outbound"
)

// Two clicks on the first button are two requests of one browser: both lead to the provider, and each way back works. A
// browser without cookies gets words, and binds nothing. The page of an error does not lock anyone out.
func TestFirstClicks(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		link := w.link("c", "oauth2")
		none := w.browser()
		none.client.Jar = nil
		refused := none.do(http.MethodPost, link, "mode=oauth2")
		require.Equal(t, http.StatusBadRequest, refused.status)
		require.Contains(t, refused.text, "needs a cookie")

		b := w.browser()
		b.open(link)
		first, second := b.authorize(link, "oauth2"), b.authorize(link, "oauth2")
		require.NotEqual(t, first.Get("state"), second.Get("state"))
		require.Contains(t, w.browser().submit(link, "mode", "oauth2").text, "opened in another browser")
		require.Equal(t, http.StatusOK, b.comeBack("acme", granted(second.Get("state"))).status)
		done := b.comeBack("acme", granted(first.Get("state")))
		require.Contains(t, done.text, "is connected</h1>", "the other window sees the end, too")
		require.EqualValues(t, 1, w.get("c").Credentials.Revision, "without a second exchange")

		// The first submission fails at the provider; the same browser can submit again.
		w.provider.set(func(p *provider) { p.status = http.StatusBadGateway })
		late, other := w.link("d", "oauth1"), w.browser()
		require.Contains(t, other.submit(late, "mode", "oauth1").text, "cannot be reached")
		w.provider.set(func(p *provider) { p.status = 0 })
		require.Equal(t, http.StatusOK, other.submit(late, "mode", "oauth1").status)
	})
}

// A form of a key that is sent twice at the same time connects once, and both responses show it: a browser shows the
// last one.
func TestFormIsSentTwice(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		link, b := w.link("c", "api_key"), w.browser()
		b.open(link)
		probed, both := make(chan struct{}, 2), make(chan struct{})
		w.provider.gate = func(*http.Request) {
			probed <- struct{}{}
			<-both
		}
		pages := make(chan shown, 2)
		for range 2 {
			go func() { pages <- b.submit(link, "mode", "api_key", "credential.api_key", "good-key") }()
		}
		for range 2 {
			await.Value(t, "a test of the credentials", probed)
		}
		close(both)
		for range 2 {
			page := await.Value(t, "a page", pages)
			require.Equal(t, http.StatusOK, page.status, page.text)
			require.Contains(t, page.text, "is connected</h1>")
		}
		require.EqualValues(t, 1, w.get("c").Credentials.Revision)
	})
}

// However a form that is sent several times meets the one that connects, each response shows that the account is
// connected: also where it reads the link before that and the connection after it.
func TestFormsMeet(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		for round := range 40 {
			link, b := w.link(fmt.Sprint("c", round), "api_key"), w.browser()
			b.open(link)
			pages := make(chan shown, 5)
			for range 5 {
				go func() { pages <- b.submit(link, "mode", "api_key", "credential.api_key", "good-key") }()
			}
			for range 5 {
				page := await.Value(t, "a page", pages)
				require.Contains(t, page.text, "is connected</h1>")
			}
			w.clock.Advance(time.Minute) // for the limits of tests
		}
	})
}

// A link never replaces credentials that were given after it was made, and brings back none that were removed: the one
// who sends links would not notice that a stranger's account is there.
func TestLinkReplacesNoNewerCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		give := func(id string) {
			_, err := w.conns.Update(t.Context(), w.actor, "acme", id, connections.Change{Untested: true,
				Credentials: patch.To(connections.Credentials{Values: map[string]secretbox.Secret{"api_key": "of the operator"}})})
			require.NoError(t, err)
		}
		const words = "has got or lost its credentials in another way"
		link, b := w.link("c", "api_key"), w.browser()
		require.Equal(t, http.StatusOK, b.open(link).status)
		give("c")
		before := w.get("c")
		require.Contains(t, b.open(link).text, words)
		require.Contains(t, b.submit(link, "mode", "api_key", "credential.api_key", "good-key").text, words)
		require.Equal(t, before, w.get("c"))

		// The change is made while the browser is at the provider.
		w.client("client")
		away := w.link("d", "oauth2")
		q := b.authorize(away, "oauth2")
		give("d")
		require.Contains(t, b.comeBack("acme", granted(q.Get("state"))).text, words)
		require.Equal(t, []string{"api_key"}, w.get("d").Credentials.Fields)

		made, err := w.svc.Reconnect(t.Context(), w.actor, "acme", "c", connecting.Terms{})
		require.NoError(t, err)
		_, err = w.conns.Update(t.Context(), w.actor, "acme", "c", connections.Change{
			Credentials: patch.Field[connections.Credentials]{Set: true, Null: true}})
		require.NoError(t, err)
		require.Contains(t, b.submit(made.URL.Reveal(), "mode", "api_key", "credential.api_key", "good-key").text, words)
		require.Nil(t, w.get("c").Credentials)
	})
}

// A reconnection is for the version that the request names, and the audit trail has who made which link with which end,
// and by which link a connection was connected. Links that are made at the same time leave one, and none fails.
func TestReconnectIsRecorded(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		link := w.link("c", "api_key")
		require.Equal(t, http.StatusOK, w.browser().submit(link, "mode", "api_key", "credential.api_key", "good-key").status)
		stale, err := etag.Parse([]string{`"stale"`})
		require.NoError(t, err)
		_, err = w.svc.Reconnect(etag.WithIfMatch(t.Context(), stale), w.actor, "acme", "c", connecting.Terms{})
		require.True(t, apperr.Is(err, apperr.CodePreconditionFailed), err)
		require.NotContains(t, w.browser().open(link).text, "not valid", "the link is still the last one")

		urls := make([]string, 8)
		var group sync.WaitGroup
		for i := range urls {
			group.Go(func() {
				made, err := w.svc.Reconnect(t.Context(), w.actor, "acme", "c", connecting.Terms{RedirectURL: back})
				if err == nil {
					urls[i] = made.URL.Reveal()
				}
			})
		}
		group.Wait()
		valid := 0
		for _, text := range urls {
			require.NotEmpty(t, text, "every request has got a link")
			if w.browser().open(text).status == http.StatusOK {
				valid++
			}
		}
		require.Equal(t, 1, valid)

		var actions []string
		rows, err := s.DB.Read().QueryContext(t.Context(), `SELECT action, actor_type, details FROM audit_events
			WHERE environment_id = $1 ORDER BY id`, string(w.actor.Environment))
		require.NoError(t, err)
		defer func() { require.NoError(t, rows.Close()) }()
		for rows.Next() {
			var action, actor, details string
			require.NoError(t, rows.Scan(&action, &actor, &details))
			require.Contains(t, details, `"link_id"`, action)
			if action == "connection.reconnect" {
				require.Contains(t, details, `"redirect_url":"https://app.example.com/done?tab=1"`)
			}
			actions = append(actions, action+" "+actor)
		}
		require.NoError(t, rows.Err())
		require.Equal(t, append([]string{"connection.create api_key", "connection.update system"},
			strings.Split(strings.TrimSuffix(strings.Repeat("connection.reconnect api_key,", 8), ","), ",")...), actions)
		_, err = w.svc.Reconnect(t.Context(), access.Principal{Kind: w.actor.Kind, Team: w.actor.Team,
			Environment: w.actor.Environment}, "acme", "c", connecting.Terms{})
		require.True(t, apperr.Is(err, apperr.CodeNotFound), "without the right to see it")
	})
}

// Parameters that the browser brings back fill gaps, and replace nothing that the operator has set.
func TestRedirectFillsGaps(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		in := w.fresh("c", "oauth2")
		tenant := "t-2"
		in.ConnectionConfig.Value["tenant"] = &tenant
		made, err := w.svc.Create(t.Context(), w.actor, in, connecting.Terms{})
		require.NoError(t, err)
		link, b := made.URL.Reveal(), w.browser()
		page := b.comeBack("acme", granted(b.authorize(link, "oauth2").Get("state"))) // of the tenant t-1
		require.Contains(t, page.text, "another account")
		require.Nil(t, w.get("c").Credentials)
		q := granted(b.authorize(link, "oauth2").Get("state"))
		q.Set("realm", "t-2")
		require.Equal(t, http.StatusOK, b.comeBack("acme", q).status)
		require.Equal(t, "t-2", w.get("c").Config["tenant"])
	})
}

// Providers write the scopes that they have granted in other words than they were asked for; none of these is missing.
func TestScopesInOtherWords(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		for i, c := range []struct {
			requested, granted string
			missing            []string
		}{
			{"offline_access User.Read", "https://graph.microsoft.com/User.Read profile openid", nil},
			{"openid https://api.example.com/calendar", "https://api.example.com/calendar", nil},
			{"user:email public_repo read:org", "user repo write:org", nil},
			{"read write", "", nil},
			{"read write", "READ", []string{"write"}},
			{"admin:org user", "write:org user:email", []string{"admin:org", "user"}},
			{"https://api.example.com/a.read https://api.example.com/a", "https://api.example.com/a.read",
				[]string{"https://api.example.com/a"}},
		} {
			id := fmt.Sprint("c", i)
			w.provider.set(func(p *provider) { p.scope = c.granted })
			made, err := w.svc.Create(t.Context(), w.actor, w.fresh(id, "oauth2"),
				connecting.Terms{RedirectURL: back, Scopes: strings.Fields(c.requested)})
			require.NoError(t, err)
			b := w.browser()
			page := b.comeBack("acme", granted(b.authorize(made.URL.Reveal(), "oauth2").Get("state")))
			require.Equal(t, http.StatusOK, page.status, page.text)
			require.NotEmpty(t, page.to, "the browser always goes back")
			require.Equal(t, len(c.missing) > 0, strings.Contains(page.text, "not granted"), c.granted)
			for _, scope := range c.missing {
				require.Contains(t, page.text, ">"+scope+"</code>")
			}
			if c.granted != "" { // else they are those that were asked for, as without the member (RFC 6749, section 5.1)
				require.ElementsMatch(t, strings.Fields(c.granted), w.get(id).Credentials.ScopesGranted)
			}
		}
	})
}

// An error of one connection, and more links than are read at the same time, keep no other from being removed.
func TestCleanGoesOn(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		const count = 230
		for i := range count {
			w.link(fmt.Sprint("c", i), "api_key")
			w.clock.Advance(time.Millisecond)
		}
		w.refuseDeletion = w.get("c0").UUID
		w.clock.Advance(8 * 24 * time.Hour)
		require.ErrorContains(t, w.clean(), w.refuseDeletion)
		var left int
		require.NoError(t, s.DB.Read().QueryRowContext(t.Context(), `SELECT count(*) FROM connections`).Scan(&left))
		require.Equal(t, 1, left, "all but the one that cannot be removed")
		w.refuseDeletion = ""
		require.NoError(t, w.clean())
		_, err := w.conns.Get(t.Context(), w.actor.View(), "acme", "c0")
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
	})
}

// An environment has at most 10,000 connections that wait for a person.
func TestPendingConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.link("c", "api_key")
		w.pending(9_999)
		_, err := w.svc.Create(t.Context(), w.actor, w.fresh("one-more", "api_key"), connecting.Terms{})
		require.True(t, apperr.Is(err, apperr.CodePendingConnectionsLimit), err)
		require.Equal(t, http.StatusOK, w.browser().open(w.reconnect("c")).status, "links of those that exist are made")
	})
}

// The query of the redirect URL comes back as it was written, also where a parser would drop a part.
func TestRedirectURLIsKept(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		odd := "https://app.example.com/done?z=%2f;a&state=old&b=1&a=%7E"
		w.teams.urls = []string{odd}
		made, err := w.svc.Create(t.Context(), w.actor, w.fresh("c", "api_key"), connecting.Terms{RedirectURL: odd,
			State: "s"})
		require.NoError(t, err)
		done := w.browser().submit(made.URL.Reveal(), "mode", "api_key", "credential.api_key", "good-key")
		require.Equal(t, "https://app.example.com/done?z=%2f;a&b=1&a=%7E&connection_id=c&provider=acme&state=s"+
			"&status=connected", done.to)
	})
}

// A secret of connection_config is entered on the page: given with the link it is refused, and not dropped. A secret is
// stored as it was entered, as the API stores it. A failed attempt does not change the connection's version.
func TestSecretsOfPendingConnections(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		in := w.fresh("c", "api_key")
		salt := "s"
		in.ConnectionConfig.Value["salt"] = &salt
		_, err := w.svc.Create(t.Context(), w.actor, in, connecting.Terms{})
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, []string{"connection_config.salt"}, []string{e.Details[0].Location})

		link, b := w.link("c", "api_key"), w.browser()
		before := w.get("c")
		require.Contains(t, b.submit(link, "mode", "api_key", "credential.api_key", "bad-key").text, "refuses")
		failed := w.get("c")
		require.Equal(t, "invalid_credentials", failed.StatusReason)
		require.Equal(t, before.Version(), failed.Version())
		require.Equal(t, http.StatusOK, b.submit(link, "mode", "api_key", "credential.api_key", "good-key", "config.salt",
			" s ").status)
		sealed, err := w.vault.Sealed(t.Context(), before.Environment, before.UUID)
		require.NoError(t, err)
		values, err := w.vault.OpenAll(sealed)
		require.NoError(t, err)
		require.Equal(t, secretbox.Secret(" s "), values["config.salt"])
	})
}

// Every shipped definition can be connected under a link in each of its modes with OAuth: its settings lead to a page
// at the provider, also where the base URL comes with the token.
func TestShippedDefinitions(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		tried := 0
		for _, p := range w.registry.List() {
			if p.Outbound == nil || p.Definition.Slug == "acme" {
				continue
			}
			for _, m := range p.Outbound.Modes() {
				if m.Kind != "oauth2" {
					continue
				}
				slug, key := p.Definition.Slug, p.Definition.Slug+"-"+strings.ReplaceAll(m.Name, "_", "-")
				config := w.clientOf(slug, key, m)
				name := m.Name
				made, err := w.svc.Create(t.Context(), w.actor, connections.NewConnection{Provider: &key,
					Change: connections.Change{AuthMode: &name}}, connecting.Terms{})
				require.NoError(t, err, config)
				pairs := []string{"mode", m.Name}
				for _, f := range m.Config {
					if f.Source == "user" && f.Default == "" {
						value := f.Example
						if len(f.Enum) > 0 {
							value = f.Enum[0]
						}
						pairs = append(pairs, "config."+f.Name, value)
					}
				}
				page := w.browser().submit(made.URL.Reveal(), pairs...)
				require.Equal(t, http.StatusOK, page.status, "%s %s: %s", slug, m.Name, page.text)
				u, err := url.Parse(page.to)
				require.NoError(t, err)
				require.Equal(t, "https", u.Scheme, page.to)
				require.NotEmpty(t, u.Query().Get("state"), page.to)
				tried++
			}
		}
		require.GreaterOrEqual(t, tried, 10)
	})
}

// The secret of an OAuth client goes to no host that a person enters, and the page says why instead of failing.
func TestEnteredHosts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		key, mode := w.clientOf("gitlab", "gitlab-work", &outbound.Mode{}), "oauth2"
		made, err := w.svc.Create(t.Context(), w.actor, connections.NewConnection{Provider: &key,
			Change: connections.Change{AuthMode: &mode}}, connecting.Terms{})
		require.NoError(t, err)
		page := w.browser().submit(made.URL.Reveal(), "mode", mode, "config.instance_url", "https://evil.example")
		require.Equal(t, http.StatusUnprocessableEntity, page.status)
		require.Contains(t, page.text, "leads to evil.example, to which the OAuth client")
		require.Contains(t, page.text, `value="https://evil.example"`)
	})
}

// Another link for a connection that no one has connected is for the mode of the first one.
func TestPendingKeepsItsMode(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		_ = w.link("one", "api_key")
		page := w.browser().open(w.reconnect("one"))
		require.Equal(t, http.StatusOK, page.status, page.text)
		require.Contains(t, page.text, `name="credential.api_key"`)
		_ = w.link("any", "")
		require.NotContains(t, w.browser().open(w.reconnect("any")).text, `name="credential.api_key"`, "it asks for a mode")
	})
}

// A setting that an operator gives while a person is at the provider is not overwritten by the one that the person has
// entered before: nothing is connected, and the person is asked again.
func TestSettingsChangeMeanwhile(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		w.provider.set(func(p *provider) { p.scope = "read write" })
		link, b := w.link("c", "oauth2"), w.browser()
		leave := func(plan string) url.Values {
			page := b.submit(link, "mode", "oauth2", "config.plan", plan)
			u, err := url.Parse(page.to)
			require.NoError(t, err, page.text)
			w.provider.set(func(p *provider) { p.challenge = u.Query().Get("code_challenge") })
			return granted(u.Query().Get("state"))
		}
		back := leave("free")
		paid := "paid"
		_, err := w.conns.Update(t.Context(), w.actor, "acme", "c", connections.Change{
			ConnectionConfig: patch.To(map[string]*string{"plan": &paid})})
		require.NoError(t, err)
		require.Contains(t, b.comeBack("acme", back).text, "The connection was changed meanwhile")
		require.Equal(t, "paid", w.get("c").Config["plan"])
		require.Nil(t, w.get("c").Credentials)
		done := b.comeBack("acme", leave("free"))
		require.Equal(t, http.StatusOK, done.status, done.text)
		require.Equal(t, "paid", w.get("c").Config["plan"], "the page does not ask for it any more")
	})
}
