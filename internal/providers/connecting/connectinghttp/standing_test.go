package connectinghttp_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connecting"
)

// connectedThenDead connects a connection with a key and makes its credentials useless. The connection has a standing
// link then.
func (w *world) connectedThenDead(connectionID string) {
	w.t.Helper()
	require.Equal(w.t, http.StatusOK, w.browser().submit(w.link(connectionID, "api_key"), "mode", "api_key",
		"credential.api_key", "good-key").status)
	w.kill(connectionID)
}

// kill makes the credentials of a connection useless.
func (w *world) kill(connectionID string) {
	w.t.Helper()
	_, err := w.store.DB.Write().ExecContext(w.t.Context(), `UPDATE connections SET status = 'needs_reauth',
		status_reason = 'grant_refused', enabled_status = 'needs_reauth', enabled_reason = 'grant_refused'
		WHERE environment_id = $1 AND connection_id = $2`, string(w.actor.Environment), connectionID)
	require.NoError(w.t, err)
}

// standing returns the URL of a connection's standing link; empty for none.
func (w *world) standing(connectionID string) string {
	w.t.Helper()
	c := w.get(connectionID)
	link, until, err := connecting.NewStandingLinks(w.svc).URL(w.t.Context(), &c)
	require.NoError(w.t, err)
	require.Equal(w.t, link == "", until.IsZero())
	if link != "" {
		require.GreaterOrEqual(w.t, until.Sub(w.clock.Now()), 12*time.Hour)
		require.LessOrEqual(w.t, until.Sub(w.clock.Now()), 24*time.Hour)
	}
	return link.Reveal()
}

// A connection that a person has to connect again has a link by itself. It connects the same account only, works once,
// and stores nothing before its form is submitted.
func TestStandingLink(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		require.Equal(t, http.StatusOK, w.browser().submit(w.link("c", "api_key"), "mode", "api_key", "credential.api_key",
			"good-key").status)
		require.Empty(t, w.standing("c"), "an active connection needs none")
		w.kill("c")
		link := w.standing("c")
		require.NotEmpty(t, link)
		require.Equal(t, link, w.standing("c"), "every node and request returns the same")

		rows := w.links()
		b := w.browser()
		require.Contains(t, b.open(link).text, "again</h1>")
		require.Equal(t, rows, w.links(), "programs that open links change nothing")
		w.provider.set(func(p *provider) { p.account = "8" })
		require.Contains(t, b.submit(link, "mode", "api_key", "credential.api_key", "good-key").text,
			"another account than the one that this connection is for")
		w.provider.set(func(p *provider) { p.account = "7" })
		w.clock.Advance(time.Second)
		require.Equal(t, http.StatusOK, b.submit(link, "mode", "api_key", "credential.api_key", "good-key").status)
		require.EqualValues(t, "active", w.get("c").Status)
		require.Empty(t, w.standing("c"))
		require.Equal(t, http.StatusOK, b.open(link).status, "the browser sees the end again")
		require.Contains(t, w.browser().open(link).text, "has been used")

		// It does not come back with the next problem of the connection, whose credentials are others.
		w.kill("c")
		require.NotEqual(t, link, w.standing("c"))
		require.Contains(t, w.browser().open(link).text, "has been used")
	})
}

// links is how many links are stored.
func (w *world) links() (n int) {
	w.t.Helper()
	require.NoError(w.t, w.store.DB.Read().QueryRowContext(w.t.Context(), "SELECT count(*) FROM connect_links").Scan(&n))
	return n
}

// A standing link ends by itself, at the latest after a day, with the problem, and with other credentials.
func TestStandingLinkEnds(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.connectedThenDead("c")
		link := w.standing("c")
		w.clock.Advance(12 * time.Hour)
		require.Equal(t, http.StatusOK, w.browser().open(link).status)
		require.NotEqual(t, link, w.standing("c"))
		w.clock.Advance(12 * time.Hour)
		require.Contains(t, w.browser().open(link).text, "This link has expired")
		require.Contains(t, w.browser().submit(link, "mode", "api_key", "credential.api_key", "good-key").text,
			"This link has expired")

		link = w.standing("c")
		_, err := s.DB.Write().ExecContext(t.Context(), `UPDATE connections SET status = 'active', status_reason = '',
			enabled_status = 'active', enabled_reason = '' WHERE environment_id = $1`, string(w.actor.Environment))
		require.NoError(t, err)
		require.Contains(t, w.browser().open(link).text, "does not have to be connected again")

		// A link of the period before, which a browser has begun, does not stand in the way of the next.
		w.kill("c")
		require.Equal(t, http.StatusUnprocessableEntity, w.browser().submit(link, "mode", "api_key").status)
		w.clock.Advance(12 * time.Hour)
		require.Equal(t, http.StatusOK, w.browser().submit(w.standing("c"), "mode", "api_key", "credential.api_key",
			"good-key").status)
	})
}

// The standing link stays valid next to a link that someone has made, because the connection goes on to show it. The
// one that is submitted last is the connection's.
func TestStandingNextToMadeLink(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.connectedThenDead("c")
		reconnect := func() string {
			made, err := w.svc.Reconnect(t.Context(), w.actor, "acme", "c", connecting.Terms{})
			require.NoError(t, err)
			return made.URL.Reveal()
		}
		link := w.standing("c")
		made := reconnect()
		require.Equal(t, link, w.standing("c"))
		require.Equal(t, http.StatusOK, w.browser().open(link).status)
		require.Equal(t, http.StatusOK, w.browser().open(made).status)
		b := w.browser()
		b.open(link)
		require.Contains(t, b.submit(link, "mode", "api_key").text, "again</h1>")
		require.Contains(t, w.browser().open(made).text, "a newer link has replaced it")

		made = reconnect()
		require.Equal(t, http.StatusOK, w.browser().open(link).status, "it belongs to no browser any more")
		w.clock.Advance(time.Second)
		require.Equal(t, http.StatusOK, w.browser().submit(made, "mode", "api_key", "credential.api_key", "good-key").status)
		require.Contains(t, w.browser().open(link).text, "the account has been connected since")
	})
}

// A standing link is of one connection in one environment: no part of it can be exchanged, and one that was guessed
// learns nothing.
func TestForgedStandingLink(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.connectedThenDead("c")
		w.connectedThenDead("d")
		parts := strings.Split(strings.TrimPrefix(w.standing("c"), w.url+connecting.PagePath), ".")
		other := strings.Split(strings.TrimPrefix(w.standing("d"), w.url+connecting.PagePath), ".")
		require.Len(t, parts, 3)
		require.Equal(t, string(w.actor.Environment), parts[2])
		require.NotEqual(t, parts[0], other[0])
		foreign := id.New(id.PrefixEnvironment)
		texts := map[string]string{}
		nowhere := []string{parts[0], id.NewUUID(), parts[2]}
		for _, token := range [][]string{
			{other[0], parts[1], parts[2]},
			{parts[0], other[1], parts[2]},
			{parts[0], parts[1], foreign},
			{parts[0][:42] + "!", parts[1], parts[2]},
			{strings.Repeat("A", 43), parts[1], parts[2]},
			nowhere,
			{parts[0], parts[1], parts[2], "x"},
			{parts[0], parts[1]},
			{parts[0], strings.ToUpper(parts[1]), parts[2]},
		} {
			at := w.url + connecting.PagePath + url.PathEscape(strings.Join(token, "."))
			for _, text := range []string{w.browser().open(at).text, w.browser().submit(at, "mode", "api_key",
				"credential.api_key", "good-key").text} {
				require.Regexp(t, "This link is not valid|This link has expired", text, token)
				require.NotContains(t, text, "Acme")
				texts[strings.Join(token, ".")] = text
			}
		}
		require.Equal(t, texts[other[0]+"."+parts[1]+"."+parts[2]], texts[strings.Join(nowhere, ".")],
			"a guess does not show which connections exist")
		require.EqualValues(t, "needs_reauth", w.get("c").Status)
	})
}

// A person can go on with a standing link in another browser. The first one cannot end what it has begun then, and what
// it has proven is not the other's.
func TestStandingLinkOnAnotherDevice(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		made := w.link("c", "oauth2")
		first := w.browser()
		require.Equal(t, http.StatusOK, first.comeBack("acme", granted(first.authorize(made, "oauth2").Get("state"))).status)
		w.kill("c")
		w.clock.Advance(time.Second)
		link, second := w.standing("c"), w.browser()
		away := first.authorize(link, "oauth2")
		require.Equal(t, http.StatusOK, second.open(link).status)
		q := second.authorize(link, "oauth2")
		require.Contains(t, first.comeBack("acme", granted(away.Get("state"))).text, "This page is out of date")
		require.Equal(t, http.StatusOK, second.comeBack("acme", granted(q.Get("state"))).status)
		require.EqualValues(t, "active", w.get("c").Status)
		require.Contains(t, first.open(link).text, "has been used")
	})
}

// However many browsers begin, a standing link has as many attempts as any other.
func TestStandingLinkHasItsAttempts(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.connectedThenDead("c")
		link := w.standing("c")
		texts := make([]string, 22)
		var group sync.WaitGroup
		for i := range texts {
			b := w.browser()
			b.open(link) // which gives it its cookie
			group.Go(func() { texts[i] = b.submit(link, "mode", "api_key").text })
		}
		group.Wait()
		refused := 0
		for _, text := range texts {
			if strings.Contains(text, "too many attempts") {
				refused++
				continue
			}
			require.Contains(t, text, "again</h1>")
		}
		require.Equal(t, 2, refused)
	})
}
