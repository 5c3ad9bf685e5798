package connectinghttp_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// Where credentials can be used for several accounts, the person chooses one, and nothing is stored before. The choice
// belongs to the browser and to ten minutes. A reconnection keeps it, and refuses credentials that do not have it.
func TestChoice(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		w.provider.set(func(p *provider) { p.sites = []string{"east", "west", "east", "!"} })
		link, b := w.link("c", "oauth2"), w.browser()
		arrive := func() (shown, string) {
			page := b.comeBack("acme", granted(b.authorize(link, "oauth2").Get("state")))
			found := regexp.MustCompile(`name="choice" value="([^"]+)"`).FindStringSubmatch(page.text)
			if len(found) == 0 {
				return page, ""
			}
			return page, found[1]
		}
		asked, choice := arrive()
		require.Equal(t, http.StatusOK, asked.status)
		require.NotEmpty(t, choice, asked.text)
		require.Contains(t, asked.text, `action="`+strings.TrimPrefix(link, w.url)+`"`)
		require.Contains(t, asked.text, "Site &lt;b&gt;west&lt;/b&gt;")
		require.Equal(t, 2, strings.Count(asked.text, `type="radio"`), "each account once, and none that is no value")
		require.NotContains(t, asked.text, "access-1")
		require.Nil(t, w.get("c").Credentials)

		require.Contains(t, w.browser().submit(link, "choice", choice, "account", "west").text, "another browser")
		require.Contains(t, b.comeBack("acme", granted(choice)).text, "out of date", "a choice is no state")
		_, choice = arrive()
		w.clock.Advance(10 * time.Minute)
		require.Contains(t, b.submit(link, "choice", choice, "account", "west").text, "out of date")
		_, choice = arrive()
		none := b.submit(link, "choice", choice, "account", "north")
		require.Equal(t, http.StatusUnprocessableEntity, none.status)
		require.Contains(t, none.text, "Choose one of the accounts.")
		again := regexp.MustCompile(`name="choice" value="([^"]+)"`).FindStringSubmatch(none.text)
		require.Len(t, again, 2)
		require.Contains(t, b.submit(link, "choice", choice, "account", "west").text, "out of date", "a choice works once")
		done := b.submit(link, "choice", again[1], "account", "west")
		require.Equal(t, http.StatusOK, done.status, done.text)
		require.Contains(t, done.to, "status=connected")
		c := w.get("c")
		require.Equal(t, []string{"west", "7"}, []string{c.Config["site"], c.Account.ID})
		require.Equal(t, []string{"access_token", "refresh_token"}, c.Credentials.Fields)
		require.Equal(t, []string{"read", "write"}, c.Credentials.ScopesGranted)
		require.NotNil(t, c.Credentials.ExpiresAt)

		link = w.reconnect("c")
		page, choice := arrive()
		require.Empty(t, choice, "the account is known")
		require.Contains(t, page.text, "is connected</h1>")
		require.Equal(t, "west", w.get("c").Config["site"])
		kept := w.get("c")
		w.provider.set(func(p *provider) { p.sites = []string{"east"} })
		link = w.reconnect("c")
		page, _ = arrive()
		require.Contains(t, page.text, "another account")
		require.Equal(t, kept, w.get("c"))
		link = w.link("d", "oauth2")
		page, _ = arrive()
		require.Contains(t, page.text, "is connected</h1>", "one account is no question")
		require.Equal(t, "east", w.get("d").Config["site"])

		w.provider.set(func(p *provider) { p.sites = []string{"away"} })
		link = w.link("e", "oauth2")
		page, _ = arrive()
		require.Contains(t, page.text, "does not say at the moment which account this is", "the first one would be a guess")
		require.Nil(t, w.get("e").Credentials)
	})
}
