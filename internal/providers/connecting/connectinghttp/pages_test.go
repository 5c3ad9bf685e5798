package connectinghttp_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
)

// backQuery returns the parameters with which a browser comes back to the operator.
func backQuery(t *testing.T, to string) url.Values {
	t.Helper()
	u, err := url.Parse(to)
	require.NoError(t, err)
	require.Equal(t, "app.example.com/done", u.Host+u.Path)
	require.Equal(t, "1", u.Query().Get("tab"), "a query of the redirect URL is kept")
	return u.Query()
}

// A person enters a key that no software of the operator sees: a refused one is reported at the page and nothing is
// stored, an accepted one connects, and the browser comes back. The link works once. Pages open without side effects,
// and every text of others is escaped.
func TestKeyForm(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		link := w.link("c", "api_key")
		require.Regexp(t, `^`+w.url+`/connect/[A-Za-z0-9_-]{43}$`, link)
		b := w.browser()
		for range 2 { // programs that scan mail open it, too
			page := w.browser().open(link)
			require.Equal(t, http.StatusOK, page.status, page.text)
			require.Contains(t, page.header.Get("Set-Cookie"), "HttpOnly; SameSite=Lax")
			require.Contains(t, page.text, "Team &lt;b&gt;X&lt;/b&gt;")
			require.Contains(t, page.text, "Key &amp; &lt;b&gt;more&lt;/b&gt;")
			require.Contains(t, page.text, "app.example.com")
			require.Contains(t, page.text, `aria-describedby="h`)
			require.NotContains(t, page.text, "<script")
			policy := page.header.Get("Content-Security-Policy")
			_, css, _ := strings.Cut(page.text, "<style>")
			css, _, _ = strings.Cut(css, "</style>")
			sum := sha256.Sum256([]byte(css))
			require.Contains(t, policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", "the style is permitted")
			for _, part := range []string{"default-src 'none'", "form-action 'self'", "frame-ancestors 'none'"} {
				require.Contains(t, policy, part)
			}
			require.Equal(t, []string{"no-store", "no-referrer", "same-origin", "nosniff"},
				[]string{page.header.Get("Cache-Control"), page.header.Get("Referrer-Policy"),
					page.header.Get("Cross-Origin-Opener-Policy"), page.header.Get("X-Content-Type-Options")})
			require.Contains(t, page.text, "What you enter is sent to "+w.provider.URL)
		}
		missing := b.submit(link, "mode", "api_key", "config.plan", "free")
		require.Equal(t, http.StatusUnprocessableEntity, missing.status)
		require.Contains(t, missing.text, `aria-invalid="true"`)
		require.Contains(t, missing.text, "is missing.")
		require.Equal(t, 1, strings.Count(missing.text, " autofocus"), "the first wrong field has the focus")
		require.Regexp(t, `<a href="#f\d+">Key &amp; `, missing.text, "the errors lead to their fields")
		require.NotContains(t, missing.text, `aria-describedby=""`)
		require.Contains(t, missing.text, "<option selected>free</option>", "what was entered stays")
		cookie := missing.header.Get("Set-Cookie")
		require.Contains(t, cookie, "HttpOnly; SameSite=Lax")

		refused := b.submit(link, "mode", "api_key", "credential.api_key", "bad-key")
		require.Contains(t, refused.text, "The provider refuses the credentials")
		require.Contains(t, refused.text, "bad &lt;script&gt;key&lt;/script&gt;")
		require.NotContains(t, refused.text, "bad-key", "a secret is not shown again")
		require.Nil(t, w.get("c").Credentials)
		require.Equal(t, []string{"pending", "invalid_credentials"}, []string{string(w.get("c").Status),
			w.get("c").StatusReason})

		done := b.submit(link, "mode", "api_key", "credential.api_key", "good-key", "config.plan", "paid")
		require.Equal(t, http.StatusOK, done.status, done.text)
		q := backQuery(t, done.to)
		require.Equal(t, []string{"st&te", "acme", "c", "connected", ""}, []string{q.Get("state"), q.Get("provider"),
			q.Get("connection_id"), q.Get("status"), q.Get("error")})
		c := w.get("c")
		require.Equal(t, connections.Active, c.Status)
		require.Empty(t, c.StatusReason)
		require.Equal(t, "7", c.Account.ID)
		require.Equal(t, "paid", c.Config["plan"])
		require.Equal(t, []string{"api_key"}, c.Credentials.Fields)
		require.Contains(t, w.kinds, connections.Connected)
		again := b.submit(link, "mode", "api_key", "credential.api_key", "good-key")
		require.Contains(t, again.text, "is connected</h1>", "a second click sees the end")
		require.Equal(t, done.to, again.to)
		reopened := b.open(link)
		require.Contains(t, reopened.text, "is connected</h1>")
		require.Empty(t, reopened.to, "a page that is only opened leads nowhere by itself")
		require.Contains(t, w.browser().open(link).text, "This link has been used")
		require.Equal(t, c.Credentials.Revision, w.get("c").Credentials.Revision, "nothing was stored again")
		require.NotContains(t, w.log.String(), strings.TrimPrefix(link, w.url+"/connect/"), "no log has the link")
		require.NotContains(t, w.log.String(), "good-key")
	})
}

// A link belongs to the browser that began with it, and only our own pages can send its form.
func TestLinkBelongsToABrowser(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		link := w.link("c", "api_key")
		form := "mode=api_key&credential.api_key=good-key"
		for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
			{"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
			{"Sec-Fetch-Site", "", "Origin", "null"}} {
			foreign := w.browser().do(http.MethodPost, link, form, headers...)
			require.Equal(t, http.StatusBadRequest, foreign.status)
			require.Contains(t, foreign.text, "sent from another site")
			require.Empty(t, foreign.header["Set-Cookie"])
		}
		b := w.browser()
		require.Equal(t, http.StatusUnprocessableEntity, b.submit(link, "mode", "api_key").status)
		for _, page := range []shown{w.browser().open(link), w.browser().submit(link, "mode", "api_key",
			"credential.api_key", "good-key")} {
			require.Contains(t, page.text, "opened in another browser")
		}
		require.Equal(t, connections.Pending, w.get("c").Status)
		require.Equal(t, http.StatusOK, b.open(link).status)
		require.Equal(t, http.StatusOK, b.do(http.MethodPost, link, form, "Sec-Fetch-Site", "", "Origin", w.url).status)
		require.Equal(t, connections.Active, w.get("c").Status)
	})
}

// Links end: by time, by a newer one, by too many attempts, with their connection, and by another OAuth client. Texts
// that are no tokens reach no query.
func TestLinksEnd(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		old := w.link("c", "api_key")
		made, err := w.svc.Reconnect(t.Context(), w.actor, "acme", "c", connecting.Terms{Lifetime: time.Hour})
		require.NoError(t, err)
		require.Contains(t, w.browser().open(old).text, "a newer link has replaced it")
		b := w.browser()
		link := made.URL.Reveal()
		for range 20 {
			require.Equal(t, http.StatusUnprocessableEntity, b.submit(link, "mode", "api_key").status)
		}
		require.Contains(t, b.submit(link, "mode", "api_key", "credential.api_key", "good-key").text, "too many attempts")
		late := w.link("d", "api_key")
		w.clock.Advance(connecting.DefaultLifetime)
		require.Contains(t, b.open(late).text, "This link has expired")
		for _, text := range []string{"x", strings.Repeat("A", 43), "..%2f"} {
			require.Contains(t, b.open(w.url+"/connect/"+text).text, "This link is not valid")
		}
		// Someone who took over a page that was removed from the environment gets no one sent there.
		removed := w.link("r", "api_key")
		require.Contains(t, w.browser().open(removed).text, "app.example.com")
		urls := w.teams.urls
		w.teams.urls = nil
		require.NotContains(t, w.browser().open(removed).text, "app.example.com")
		w.teams.urls = urls
		disabled := w.link("x", "api_key")
		_, err = w.conns.SetStatus(t.Context(), w.actor, "acme", "x", connections.Disabled)
		require.NoError(t, err)
		require.Contains(t, b.open(disabled).text, "has been disabled")
		require.Contains(t, b.submit(disabled, "mode", "api_key", "credential.api_key", "good-key").text, "has been disabled")
		gone := w.link("e", "api_key")
		require.NoError(t, w.conns.Delete(t.Context(), w.actor, "acme", "e"))
		require.Contains(t, b.open(gone).text, "This link is not valid")
		large := b.do(http.MethodPost, w.link("f", "api_key"), "credential.api_key="+strings.Repeat("x", 300<<10))
		require.Contains(t, large.text, "too large")
	})
}

// Connections that no one connects are removed a week after their last link; others stay, without their links.
func TestClean(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.link("never", "api_key")
		link := w.link("done", "api_key")
		require.Equal(t, http.StatusOK, w.browser().submit(link, "mode", "api_key", "credential.api_key",
			"good-key").status)
		w.clock.Advance(6 * 24 * time.Hour)
		w.link("young", "api_key")
		require.NoError(t, w.clean())
		require.Equal(t, connections.Pending, w.get("never").Status)
		w.clock.Advance(25 * time.Hour)
		require.NoError(t, w.clean())
		_, err := w.conns.Get(t.Context(), w.actor.View(), "acme", "never")
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		require.Equal(t, connections.Active, w.get("done").Status)
		require.Equal(t, connections.Pending, w.get("young").Status)
		require.Contains(t, w.browser().open(link).text, "This link is not valid")
	})
}

// Terms are checked with the connection: where browsers may go is decided by the environment alone, as a whole.
func TestTerms(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		for _, target := range []string{"https://app.example.com/done", "https://app.example.com/done?tab=2",
			"https://app.example.com.evil.example/done?tab=1", "https://app.example.com/done?tab=1#", "//evil.example",
			"https://app.example.com/done?tab=1&x=1", "javascript:alert(1)"} {
			_, err := w.svc.Create(t.Context(), w.actor, w.fresh("c", ""), connecting.Terms{RedirectURL: target,
				State: "\n", Lifetime: time.Second, Scopes: []string{"a b"}})
			var e *apperr.Error
			require.ErrorAs(t, err, &e)
			require.Len(t, e.Details, 4, target)
		}
		_, err := w.svc.Create(t.Context(), w.actor, w.fresh("c", "oauth2"), connecting.Terms{})
		require.True(t, apperr.Is(err, apperr.CodeProviderNotConfigured), err)
		_, err = w.conns.Get(t.Context(), w.actor.View(), "acme", "c")
		require.True(t, apperr.Is(err, apperr.CodeNotFound), "nothing is left of a refused one")
		page := w.browser().open(w.link("d", ""))
		require.NotContains(t, page.text, "How do you want", "modes without a client are not offered")
		w.client("client")
		page = w.browser().open(w.link("e", ""))
		require.Contains(t, page.text, "How do you want to connect?")
		require.Contains(t, page.text, "?mode=oauth2")
		_, err = w.svc.Reconnect(t.Context(), w.actor, "acme", "missing", connecting.Terms{})
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
	})
}

// A connection keeps its credentials until others are proven, and never gets those of another account.
func TestReconnect(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		require.Equal(t, http.StatusOK, w.browser().submit(w.link("c", "api_key"), "mode", "api_key", "credential.api_key",
			"good-key").status)
		before := w.get("c")
		reconnect := func() string {
			made, err := w.svc.Reconnect(t.Context(), w.actor, "acme", "c", connecting.Terms{RedirectURL: back})
			require.NoError(t, err)
			return made.URL.Reveal()
		}
		link, b := reconnect(), w.browser()
		require.Contains(t, b.open(link).text, "again</h1>")
		w.provider.set(func(p *provider) { p.account = "8" })
		other := b.submit(link, "mode", "api_key", "credential.api_key", "good-key")
		require.Contains(t, other.text, "another account than the one that this connection is for")
		w.provider.set(func(p *provider) { p.status = http.StatusBadGateway })
		require.Contains(t, b.submit(link, "mode", "api_key", "credential.api_key", "good-key").text,
			"does not say at the moment which account")
		require.Equal(t, before, w.get("c"))
		w.provider.set(func(p *provider) { p.status, p.account = 0, "7" })
		require.Equal(t, http.StatusOK, b.submit(link, "mode", "api_key", "credential.api_key", "good-key").status)
		after := w.get("c")
		require.Equal(t, before.UUID, after.UUID)
		require.Greater(t, after.Credentials.Revision, before.Credentials.Revision)
		sealed, err := w.vault.Sealed(t.Context(), after.Environment, after.UUID)
		require.NoError(t, err)
		values, err := w.vault.OpenAll(sealed)
		require.NoError(t, err)
		require.Equal(t, secretbox.Secret("good-key"), values["api_key"])
	})
}
