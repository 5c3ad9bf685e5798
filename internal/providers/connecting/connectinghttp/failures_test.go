package connectinghttp_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
	"sallyport/internal/providers/connections"
)

// failureLines returns the log's lines about attempts that failed, as level and reason.
func (w *world) failureLines() (out []string) {
	w.t.Helper()
	for line := range strings.Lines(w.log.String()) {
		var entry map[string]string
		if !strings.Contains(line, "an attempt to connect an account has failed") {
			continue
		}
		require.NoError(w.t, json.Unmarshal([]byte(line), &entry), line)
		require.Equal(w.t, []string{w.get("c").UUID, string(w.actor.Environment), "acme"},
			[]string{entry["connection_uuid"], entry["environment_id"], entry["provider_config_key"]})
		out = append(out, entry["level"]+" "+entry["reason"])
	}
	return out
}

// A person fails at the provider: the operator sees why, with a code, as the status reason, in one line of the log and
// as one event, and the application gets the same code. Nothing of it has the provider's words. A client that the
// provider refuses is a warning.
func TestFailuresAreShown(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		link, b := w.link("c", "oauth2"), w.browser()
		var lines, failures []string
		for _, c := range []struct {
			change      func(p *provider)
			query       url.Values
			level, want string
		}{
			{nil, url.Values{"error": {"access_denied"}, "error_description": {"Words of the provider"}}, "INFO",
				"access_denied"},
			{nil, url.Values{"error": {"unauthorized_client"}}, "WARN", "client_refused"},
			{nil, url.Values{"error": {"invalid_scope"}}, "INFO", "misconfigured"},
			{func(p *provider) { p.code = "invalid_client" }, url.Values{"code": {"good-code"}}, "WARN", "client_refused"},
			{func(p *provider) { p.code = "invalid_scope" }, url.Values{"code": {"good-code"}}, "INFO", "misconfigured"},
			{func(p *provider) { p.status = http.StatusBadGateway }, url.Values{"code": {"good-code"}}, "INFO",
				"provider_unavailable"},
		} {
			q := b.authorize(link, "oauth2")
			if c.change != nil {
				w.provider.set(c.change)
			}
			c.query.Set("state", q.Get("state"))
			c.query.Set("iss", "https://acme.example")
			page := b.comeBack("acme", c.query)
			require.Contains(t, page.text, "error="+c.want+"&amp;")
			require.Equal(t, c.want, w.get("c").StatusReason)
			lines, failures = append(lines, c.level+" "+c.want), append(failures, "pending "+c.want)
			require.Equal(t, lines, w.failureLines())
			require.Equal(t, failures, w.failures)
			b.comeBack("acme", c.query) // again, which is no attempt
			w.provider.set(func(p *provider) { p.status, p.code = 0, "" })
		}
		require.Equal(t, lines, w.failureLines())
		require.NotContains(t, w.log.String(), "Words of the provider")

		require.Equal(t, http.StatusOK, b.comeBack("acme", granted(b.authorize(link, "oauth2").Get("state"))).status)
		require.Equal(t, failures, w.failures, "a success is none")
		again, b := w.reconnect("c"), w.browser()
		b.comeBack("acme", url.Values{"error": {"access_denied"}, "iss": {"https://acme.example"},
			"state": {b.authorize(again, "oauth2").Get("state")}})
		require.Equal(t, append(failures, "active access_denied"), w.failures, "a reconnection that fails leaves it as it is")
		require.Equal(t, connections.Active, w.get("c").Status)
	})
}

// However often a person fails under a link, ten attempts emit events.
func TestFailuresUnderALinkAreLimited(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		link, b := w.link("c", "api_key"), w.browser()
		for range 12 {
			w.clock.Advance(10 * time.Second) // for the limit of tests for one connection
			require.Equal(t, http.StatusUnprocessableEntity, b.submit(link, "mode", "api_key", "credential.api_key",
				"bad-key").status)
		}
		require.Len(t, w.failures, 10)
		require.Len(t, w.failureLines(), 12)
		require.Equal(t, http.StatusOK, b.submit(link, "mode", "api_key", "credential.api_key", "good-key").status)
		b.submit(w.reconnect("c"), "mode", "api_key", "credential.api_key", "bad-key")
		require.Len(t, w.failures, 11, "another link counts for itself")
	})
}

// A request to the redirect URI without the browser's cookie, such as that of a program that looks at links, and one of
// another browser are refused, and leave the state to the browser that began. That one can use it, once.
func TestForeignRequestsUseNoState(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		w := newWorld(t, s)
		w.client("client")
		other := w.browser()
		other.authorize(w.link("d", "oauth2"), "oauth2") // which has a cookie and a link of its own
		b := w.browser()
		state := b.authorize(w.link("c", "oauth2"), "oauth2").Get("state")
		for _, foreign := range []*browser{w.browser(), other} {
			page := foreign.comeBack("acme", granted(state))
			require.Equal(t, http.StatusBadRequest, page.status)
			require.Contains(t, page.text, "This page is out of date")
			require.Nil(t, w.get("c").Credentials)
		}
		done := b.comeBack("acme", granted(state))
		require.Equal(t, http.StatusOK, done.status, done.text)
		revision := w.get("c").Credentials.Revision
		require.Equal(t, http.StatusBadRequest, other.comeBack("acme", granted(state)).status)
		require.Contains(t, b.comeBack("acme", granted(state)).text, "is connected</h1>", "the end is shown again")
		require.Equal(t, revision, w.get("c").Credentials.Revision)
		require.Nil(t, w.get("d").Credentials)
	})
}
