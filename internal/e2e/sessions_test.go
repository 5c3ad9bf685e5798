package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit/await"
)

// byCookie asks with the refresh cookie, as a page of ours does.
func byCookie(cookie string) credentials {
	return func(h http.Header) {
		h.Set("Cookie", cookie)
		h.Set("Sec-Fetch-Site", "same-origin")
	}
}

func accessToken(w *world, a response) string {
	w.t.Helper()
	var s struct {
		AccessToken string `json:"access_token"`
	}
	a.into(w, &s)
	return s.AccessToken
}

// A day at work: one sign-in, a refresh every quarter of an hour, and a sign-out that ends it everywhere.
func TestSessionLife(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		a := w.signIn(w.email, w.password)
		for range 8 * 4 {
			cookie := a.cookie(w)
			w.clk.Advance(15 * time.Minute)
			w.call(byToken(accessToken(w, a), ""), http.MethodGet, "/team/me", nil).refused(w, http.StatusUnauthorized,
				apperr.CodeUnauthorized)
			a = w.call(byCookie(cookie), http.MethodPost, "/team/token/refresh", nil).want(w, http.StatusOK)
			w.call(byToken(accessToken(w, a), ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK)
		}
		var sessions []object
		w.call(byToken(accessToken(w, a), ""), http.MethodGet, "/team/sessions", nil).want(w, http.StatusOK).into(w,
			&sessions)
		require.Len(w.t, sessions, 1)
		cookie := a.cookie(w)
		w.call(byCookie(cookie), http.MethodPost, "/team/logout", nil).want(w, http.StatusNoContent)
		w.call(byToken(accessToken(w, a), ""), http.MethodGet, "/team/me", nil).refused(w, http.StatusUnauthorized,
			apperr.CodeUnauthorized)
		w.call(byCookie(cookie), http.MethodPost, "/team/token/refresh", nil).refused(w, http.StatusUnauthorized,
			apperr.CodeUnauthorized)
		require.NotContains(w.t, w.logs.String(), cookie)
	})
}

// A thief who copies a cookie, and the user it belongs to, are found out by the second use, by either of them. Nothing
// that either got works after that.
func TestStolenCookie(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		stolen := w.signIn(w.email, w.password).cookie(w)
		first := w.call(byCookie(stolen), http.MethodPost, "/team/token/refresh", nil).want(w, http.StatusOK)
		w.clk.Advance(time.Minute)
		w.call(byToken(accessToken(w, first), ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK)
		w.call(byCookie(stolen), http.MethodPost, "/team/token/refresh", nil).refused(w, http.StatusUnauthorized,
			apperr.CodeUnauthorized)
		w.call(byToken(accessToken(w, first), ""), http.MethodGet, "/team/me", nil).refused(w, http.StatusUnauthorized,
			apperr.CodeUnauthorized)
		w.call(byCookie(first.cookie(w)), http.MethodPost, "/team/token/refresh", nil).refused(w, http.StatusUnauthorized,
			apperr.CodeUnauthorized)
		var outcome string
		require.NoError(w.t, w.database().Read().QueryRowContext(w.t.Context(),
			"SELECT outcome FROM audit_events WHERE action = 'session.replay'").Scan(&outcome))
		require.Equal(w.t, "denied", outcome)
	})
}

// A request that a foreign page makes a browser send changes nothing, although the browser may add the cookie.
func TestForeignPage(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		cookie := w.signIn(w.email, w.password).cookie(w)
		w.unchanged(func() {
			for _, path := range []string{"/team/token/refresh", "/team/logout"} {
				w.call(func(h http.Header) {
					h.Set("Cookie", cookie)
					h.Set("Origin", "https://attacker.example.test")
				}, http.MethodPost, path, nil).refused(w, http.StatusForbidden, apperr.CodeCrossOrigin)
			}
		})
		w.call(byCookie(cookie), http.MethodPost, "/team/token/refresh", nil).want(w, http.StatusOK)
	})
}

// Every user manages their own account, with the weakest role too, and no one else's.
func TestOwnAccount(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		viewer := byToken(w.member(w.team(), "viewer@example.test", "viewer"), "")
		other := w.signIn("viewer@example.test", w.password)
		var owners, own []struct {
			ID      string `json:"id"`
			Current bool   `json:"current"`
		}
		w.call(w.user(""), http.MethodGet, "/team/sessions", nil).want(w, http.StatusOK).into(w, &owners)
		w.call(viewer, http.MethodDelete, "/team/sessions/"+owners[0].ID, nil).refused(w, http.StatusNotFound,
			apperr.CodeNotFound)
		w.call(viewer, http.MethodGet, "/team/sessions", nil).want(w, http.StatusOK).into(w, &own)
		require.Len(w.t, own, 2)
		w.call(viewer, http.MethodPost, "/team/me/password", object{"current_password": w.password,
			"new_password": "staple battery horse"}).
			want(w, http.StatusNoContent)
		w.call(byToken(accessToken(w, other), ""), http.MethodGet, "/team/me", nil).refused(w, http.StatusUnauthorized,
			apperr.CodeUnauthorized)
		w.call(viewer, http.MethodDelete, "/team/sessions/"+own[1].ID, nil).want(w, http.StatusNoContent)
		w.call(viewer, http.MethodGet, "/team/me", nil).refused(w, http.StatusUnauthorized, apperr.CodeUnauthorized)
		w.call(w.user(""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK)
	})
}

// While strangers guess at passwords, providers' events arrive and are forwarded, people with an API key continue to
// work, and the number of sign-in attempts is bounded.
func TestEventsDuringGuessing(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		sink := newReceiver(w.t, status(http.StatusOK))
		w.subscribe(sink.url)
		conn := w.connectGitHub("acme")
		done := make(chan struct{})
		for range 8 {
			go func() {
				defer func() { done <- struct{}{} }()
				for range 10 {
					r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.base+prefix+"/team/login",
						strings.NewReader(`{"email":"someone@example.test","password":"guess"}`))
					if err != nil {
						return
					}
					r.Header.Set("Content-Type", "application/json")
					resp, err := w.http.Do(r)
					if err != nil {
						return
					}
					_ = resp.Body.Close()
				}
			}()
		}
		for n := range 20 {
			w.awaitEvent(w.fresh(conn.pathToken(), github(fmt.Sprintf(`{"action":"opened","number":%d}`, n))), "forwarded")
		}
		for range 8 {
			await.Value(w.t, "the end of a guesser", done)
		}
		require.Equal(w.t, 20, sink.count())
		var failures int
		require.NoError(w.t, w.database().Read().QueryRowContext(w.t.Context(),
			"SELECT MAX(failures) FROM sign_in_failures").Scan(&failures))
		require.Equal(w.t, 6, failures, "80 guesses at one account, on a clock that stands still")
	})
}

// An environment can be deleted when it is empty, and until then says what it holds. Its received events do not block
// that.
func TestDeleteEnvironment(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		var e struct {
			ID string `json:"id"`
		}
		w.call(w.user(""), http.MethodPost, "/team/environments", object{"name": "brief"}).want(w, http.StatusCreated).into(w,
			&e)
		inside := w.user(e.ID)
		path := "/team/environments/" + e.ID
		holds := func(what string) {
			w.t.Helper()
			got := w.call(w.user(""), http.MethodDelete, path, nil).refused(w, http.StatusConflict,
				apperr.CodeEnvironmentNotEmpty)
			require.Equal(w.t, "The environment still has "+what, got.Error.Message)
		}
		key := w.newKey(e.ID)
		holds("API keys")
		conn := w.connect(inside, object{"provider": "github", "connection_id": "acme", "webhook_secret": githubSecret})
		sub := w.subscribeAs(inside, "http://127.0.0.1:9/", object{"enabled": false})
		holds("connections, subscriptions and API keys")
		w.call(w.user(""), http.MethodDelete, "/api-keys/"+key.ID, nil).want(w, http.StatusNoContent)
		w.call(inside, http.MethodDelete, "/webhook-subscriptions/"+sub.ID, nil).want(w, http.StatusNoContent)
		holds("connections")
		w.fresh(conn.pathToken(), github(issueOpened))
		w.call(inside, http.MethodDelete, "/connections/github/acme", nil).want(w, http.StatusNoContent)
		w.call(w.user(""), http.MethodDelete, path, nil).want(w, http.StatusNoContent)
		w.call(inside, http.MethodGet, "/webhook-events", nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		w.call(inside, http.MethodGet, "/connections", nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)
		w.call(w.user(""), http.MethodGet, path, nil).refused(w, http.StatusNotFound, apperr.CodeNotFound)
	})
}
