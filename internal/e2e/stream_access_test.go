package e2e_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// A ticket opens one stream for a client that can send no header, with the filters that it was made with; it leaves no
// trace in the log, and is good for nothing else.
func TestStreamTickets(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		w.connectGitHub("acme")
		ticket := func(c credentials, query string) string {
			w.t.Helper()
			var made struct {
				Ticket    string    `json:"ticket"`
				ExpiresAt time.Time `json:"expires_at"`
			}
			a := w.call(c, http.MethodPost, "/webhook-events/stream-ticket"+query, nil).want(w, http.StatusCreated)
			a.into(w, &made)
			require.Equal(w.t, prefix+streamPath, a.header.Get("Location"))
			require.WithinDuration(w.t, w.clk.Now().Add(time.Minute), made.ExpiresAt, 0)
			return made.Ticket
		}
		refused := func(c credentials, query string) {
			w.t.Helper()
			w.call(c, http.MethodGet, streamPath+query, nil).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
		}
		for _, c := range []credentials{w.dev(), w.user(w.env)} {
			text := ticket(c, "?event_type=push")
			s := w.stream(anonymous, "?ticket="+text)
			w.fresh("acme", github(issueOpened))
			uuid := w.fresh("acme", githubAs(githubSecret, "push", id.NewUUID(), `{"ref":"x","id":"`+text+`"}`))
			require.Equal(w.t, []string{uuid}, s.waits(1))
			refused(anonymous, "?ticket="+text)
			s.quit()
			again := w.stream(anonymous, "?ticket="+ticket(c, "?event_type=push")+"&last_event_id="+s.lastID())
			missed := w.fresh("acme", githubAs(githubSecret, "push", id.NewUUID(), `{"ref":"y","id":"`+text+`"}`))
			require.Equal(w.t, []string{missed}, again.waits(1))
			require.NotContains(w.t, w.logs.String(), text)
		}
		late := ticket(w.dev(), "")
		w.clk.Advance(time.Minute)
		for _, bad := range []string{late, canary, "tkt_" + strings.Repeat("0", 26)} {
			refused(anonymous, "?ticket="+bad)
		}
		w.call(w.dev(), http.MethodGet, streamPath+"?ticket="+ticket(w.dev(), ""), nil).refused(w, http.StatusBadRequest,
			apperr.CodeAmbiguousCredentials)
		w.call(anonymous, http.MethodGet, streamPath+"?ticket="+ticket(w.dev(), "")+"&ticket=x", nil).refused(w,
			http.StatusBadRequest, apperr.CodeAmbiguousCredentials)
		elsewhere := func(h http.Header) { h.Set("Environment-Id", w.environment("production")) }
		w.call(elsewhere, http.MethodGet, streamPath+"?ticket="+ticket(w.dev(), ""), nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
		w.call(anonymous, http.MethodGet, "/webhook-events?ticket="+ticket(w.dev(), ""), nil).refused(w,
			http.StatusUnauthorized, apperr.CodeUnauthorized)
		require.Equal(w.t, []string{"query.provider ticket", "query.status ticket"},
			w.call(anonymous, http.MethodGet, streamPath+"?status=failed&provider=github&ticket="+ticket(w.dev(), ""),
				nil).violations(w))
		require.Equal(w.t, []string{"query.event_type[0] pattern"}, w.call(w.dev(), http.MethodPost,
			"/webhook-events/stream-ticket?event_type=a*", nil).violations(w))

		// A user who has lost the right in between gets nothing.
		k := w.newKey(w.env, allow("events"))
		lost := ticket(byKey(k.Key), "")
		w.call(w.user(""), http.MethodPost, "/api-keys/"+k.ID+"/revoke", nil).want(w, http.StatusOK)
		refused(anonymous, "?ticket="+lost)
	})
}

// A stream ends within five seconds of the end of what opened it: a revoked or deleted key, an expired one, a session
// that was signed out, a role that was taken away, a token that has expired; through a ticket too.
func TestStreamEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		ends := func(what string, s *stream, end func()) {
			w.t.Helper()
			end()
			at := w.clk.Now()
			event, reason := s.ends()
			require.Equal(w.t, "stream.closed", event, what)
			require.Equal(w.t, "credential_ended", reason, what)
			require.LessOrEqual(w.t, w.clk.Now().Sub(at), 5*time.Second, what)
		}
		ticket := func(c credentials) string {
			var made struct {
				Ticket string `json:"ticket"`
			}
			w.call(c, http.MethodPost, "/webhook-events/stream-ticket", nil).want(w, http.StatusCreated).into(w, &made)
			return "?ticket=" + made.Ticket
		}
		stays := w.stream(w.dev(), "")
		for _, through := range []string{"header", "ticket"} {
			open := func(c credentials) *stream {
				if through == "ticket" {
					return w.stream(anonymous, ticket(c))
				}
				return w.stream(c, "")
			}
			revoked, deleted := w.newKey(w.env, allow("events")), w.newKey(w.env, allow("webhooks"))
			ends("a revoked key", open(byKey(revoked.Key)), func() {
				w.call(w.user(""), http.MethodPost, "/api-keys/"+revoked.ID+"/revoke", nil).want(w, http.StatusOK)
			})
			ends("a deleted key", open(byKey(deleted.Key)), func() {
				w.call(w.user(""), http.MethodDelete, "/api-keys/"+deleted.ID, nil).want(w, http.StatusNoContent)
			})
			email := through + "-viewer@example.test"
			viewer := byToken(w.member(w.team(), email, "viewer"), w.env)
			ends("a member who was removed", open(viewer), func() { w.removeMember(email) })
			var k apiKey
			w.call(w.user(""), http.MethodPost, "/api-keys", object{"name": "short", "environment_id": w.env,
				"grants": []object{allow("events")}, "expires_at": w.clk.Now().Add(time.Minute)}).want(w, http.StatusCreated).into(
				w, &k)
			ends("an expired key", open(byKey(k.Key)), func() { w.clk.Advance(time.Minute) })
		}
		token := w.login(w.email, w.password)
		s := w.stream(byToken(token, w.env), "")
		ends("a session that was signed out", s, func() {
			w.call(byToken(token, ""), http.MethodPost, "/team/logout", nil).want(w, http.StatusNoContent)
		})
		s = w.stream(byToken(w.login(w.email, w.password), w.env), "")
		ends("an expired token", s, func() { w.clk.Advance(15 * time.Minute) })
		w.connectGitHub("acme")
		w.fresh("acme", github(issueOpened))
		stays.waits(1)
	})
}
