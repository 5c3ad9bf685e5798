package e2e_test

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/testkit"
)

// ownedConnection is what the tests read of a connection that belongs to a member.
type ownedConnection struct {
	ConnectionID string  `json:"connection_id"`
	OwnerUserID  *string `json:"owner_user_id"`
	Status       string  `json:"status"`
	StatusReason *string `json:"status_reason"`
	ConnectURL   string  `json:"connect_url"`
	Credentials  *struct {
		Fields []string `json:"fields"`
	} `json:"credentials"`
}

// ownLink creates a connection of a member, with a link to its page.
func (w *world) ownLink(connectionID, user string) string {
	w.t.Helper()
	var made ownedConnection
	w.call(w.dev(), http.MethodPost, "/connections", w.ownBody(connectionID, user)).want(w, http.StatusCreated).into(w,
		&made)
	require.Equal(w.t, "pending", made.Status)
	require.Equal(w.t, user, *made.OwnerUserID)
	return made.ConnectURL
}

// ownBody asks for a connection of a member. No request to its provider leaves the machine: there is no probe.
func (w *world) ownBody(connectionID, user string) object {
	return object{"provider": "http", "connection_id": connectionID, "auth_mode": "bearer",
		"connection_config": object{"base_url": "https://api.example.com"}, "connect": object{"user_id": user}}
}

func (w *world) owned(connectionID string) (c ownedConnection) {
	w.t.Helper()
	w.call(w.dev(), http.MethodGet, "/connections/http/"+connectionID, nil).want(w, http.StatusOK).into(w, &c)
	return c
}

// post sends a form of our own page as a browser does, names and values; without any it opens the page.
func (b *browser) post(target string, pairs ...string) page {
	b.w.t.Helper()
	form, method := url.Values{}, http.MethodGet
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(b.w.t.Context(), method, strings.Replace(target, publicURL, b.w.base, 1),
		strings.NewReader(form.Encode()))
	require.NoError(b.w.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for _, c := range b.jar.Cookies(b.public) {
		r.AddCookie(c)
	}
	resp, err := b.w.http.Do(r)
	require.NoError(b.w.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(b.w.t, err)
	require.NoError(b.w.t, resp.Body.Close())
	b.jar.SetCookies(b.public, resp.Cookies())
	require.Contains(b.w.t, resp.Header.Get("Content-Security-Policy"), "default-src 'none'")
	_, to, _ := strings.Cut(resp.Header.Get("Refresh"), "url=")
	return page{resp.StatusCode, html.UnescapeString(string(text)), to}
}

// signIn sends the form of a page that asks who is there.
func (b *browser) enter(link, email, password string, more ...string) page {
	b.w.t.Helper()
	return b.post(link, append([]string{"sign_in", "password", "email", email, "password", password}, more...)...)
}

const (
	asksWho    = "Sign in first"
	asksForKey = `name="credential.token"`
)

// A link to a connection of a member opens to that member only: after a sign-in, and in the browser in which they
// signed in. Before, the page shows no field and stores nothing, also if a form is sent. Then only requests with the
// member's own token use the credentials, and others can read, disable, revoke and delete the connection.
func TestOwnedConnection(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		grace := w.addMember(w.team(), "grace@example.test", "developer")
		w.addMember(w.team(), "eve@example.test", "owner")
		_, other := w.otherTeam()
		var stranger struct {
			User struct{ ID string } `json:"user"`
		}
		w.call(byToken(other, ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK).into(w, &stranger)
		for user, rule := range map[string]string{"usr_00000000000000000000000000": "exists", "grace": "pattern",
			"": "pattern", stranger.User.ID: "exists"} {
			a := w.call(w.dev(), http.MethodPost, "/connections", w.ownBody("never", user))
			require.Equal(w.t, []string{"body.connect.user_id " + rule}, a.violations(w), user)
		}

		link, b := w.ownLink("of-grace", grace), w.browser()
		shown := b.post(link)
		require.Equal(w.t, http.StatusOK, shown.status, shown.text)
		require.Contains(w.t, shown.text, asksWho)
		require.NotContains(w.t, shown.text, asksForKey)
		shown = b.post(link, "mode", "bearer", "credential.token", "secret-of-a-stranger")
		require.Contains(w.t, shown.text, asksWho)
		require.Nil(w.t, w.owned("of-grace").Credentials)
		shown = b.enter(link, "grace@example.test", "wrong")
		require.Equal(w.t, http.StatusUnprocessableEntity, shown.status)
		require.Contains(w.t, shown.text, "The e-mail address or the password is wrong.")
		shown = b.enter(link, "eve@example.test", w.password)
		require.Equal(w.t, http.StatusBadRequest, shown.status)
		require.Contains(w.t, shown.text, "You have signed in as eve@example.test, and this link is for another person.")
		require.Contains(w.t, b.post(link, "sign_in", "session").text, "No one is signed in to this service in this browser.")
		require.Contains(w.t, b.post(link, "mode", "bearer", "credential.token", "secret-of-eve").text, asksWho)
		shown = b.enter(link, "grace@example.test", w.password)
		require.Equal(w.t, http.StatusOK, shown.status, shown.text)
		require.Contains(w.t, shown.text, asksForKey)
		require.Contains(w.t, shown.text, "You are signed in as <strong>grace@example.test</strong>. Only you")
		require.Contains(w.t, w.browser().post(link).text, "opened in another browser", "the sign-in is this browser's")
		w.clk.Advance(30 * time.Minute)
		shown = b.post(link)
		require.NotContains(w.t, shown.text, asksForKey, "neither the link nor the sign-in lasts")

		link, b = w.reconnectOwned("of-grace", http.StatusOK), w.browser()
		b.post(link)
		b.enter(link, "grace@example.test", w.password)
		shown = b.post(link, "mode", "bearer", "credential.token", "of-grace-1")
		require.Equal(w.t, http.StatusOK, shown.status, shown.text)
		require.Contains(w.t, shown.text, "is connected</h1>")
		require.Contains(w.t, shown.text, "Only you can use this connection")
		require.Equal(w.t, "active", w.owned("of-grace").Status)
		events := w.trail("environment_id="+w.env+"&target_id="+w.uuidOf("of-grace"), 3)
		require.Equal(w.t, []string{"connection.update", "user", grace}, []string{events[2].Action, events[2].Actor.Type,
			events[2].Actor.ID}, "the trail says who has connected the account")

		for _, c := range []struct {
			query string
			want  int
		}{{"owner_user_id=" + grace, 1}, {"owner_user_id=usr_00000000000000000000000000", 0},
			{"owner_user_id=usr_00000000000000000000000000&owner_user_id=" + grace + "&limit=1", 1}} {
			var list []ownedConnection
			w.call(w.dev(), http.MethodGet, "/connections?"+c.query, nil).want(w, http.StatusOK).into(w, &list)
			require.Len(w.t, list, c.want, c.query)
		}
		require.Equal(w.t, []string{"query.owner_user_id[0] pattern"}, w.call(w.dev(), http.MethodGet,
			"/connections?owner_user_id=grace", nil).violations(w))

		her := byToken(w.login("grace@example.test", w.password), w.env)
		const path = "/connections/http/of-grace"
		for _, c := range []credentials{w.dev(), w.user(w.env), byToken(w.login("eve@example.test", w.password), w.env)} {
			for _, body := range []object{{"credentials": object{"token": "mine"}}, {"credentials": nil}, {"auth_mode": "none"},
				{"connection_config": object{"base_url": "https://evil.example.com"}}} {
				w.call(c, http.MethodPatch, path, body).refused(w, http.StatusForbidden, apperr.CodeConnectionOwned)
				w.call(c, http.MethodPost, path, body).refused(w, http.StatusForbidden, apperr.CodeConnectionOwned)
			}
			w.call(c, http.MethodPost, "/connections", object{"provider": "http", "connection_id": "of-grace",
				"on_conflict": "update", "credentials": object{"token": "mine"}}).refused(w, http.StatusForbidden,
				apperr.CodeConnectionOwned)
			w.call(c, http.MethodPost, path, object{"operation": "refresh"}).refused(w, http.StatusForbidden,
				apperr.CodeConnectionOwned)
			w.call(c, http.MethodPost, path+"/test", nil).refused(w, http.StatusForbidden, apperr.CodeConnectionOwned)
			w.call(c, http.MethodPatch, path, object{"tags": object{"seen": "yes"}}).want(w, http.StatusOK)
			w.call(c, http.MethodPost, path, object{"operation": "disable"}).want(w, http.StatusOK)
			w.call(c, http.MethodPost, path, object{"operation": "enable"}).want(w, http.StatusOK)
		}
		w.call(her, http.MethodPost, path+"/test", nil).want(w, http.StatusOK)
		w.call(her, http.MethodPatch, path, object{"credentials": object{"token": "of-grace-2"}}).want(w, http.StatusOK)
		w.call(w.dev(), http.MethodPost, path, object{"operation": "reconnect",
			"connect": object{"user_id": stranger.User.ID}}).want(w, http.StatusUnprocessableEntity)
		w.call(w.dev(), http.MethodPost, path, object{"operation": "revoke"}).want(w, http.StatusOK)
		w.call(w.dev(), http.MethodDelete, path, nil).want(w, http.StatusNoContent)
		for _, secret := range []string{"of-grace-1", "secret-of-a-stranger", "secret-of-eve", w.password} {
			require.NotContains(w.t, w.logs.String(), secret)
		}
	})
}

// reconnectOwned makes another link for a connection of a member, if that is permitted.
func (w *world) reconnectOwned(connectionID string, status int) string {
	w.t.Helper()
	var made ownedConnection
	a := w.call(w.dev(), http.MethodPost, "/connections/http/"+connectionID, object{"operation": "reconnect"}).want(w,
		status)
	if status == http.StatusOK {
		a.into(w, &made)
	}
	return made.ConnectURL
}

func (w *world) uuidOf(connectionID string) string {
	w.t.Helper()
	var c struct {
		UUID string `json:"uuid"`
	}
	w.call(w.dev(), http.MethodGet, "/connections/http/"+connectionID, nil).want(w, http.StatusOK).into(w, &c)
	return c.UUID
}

// The page has the limits of sign-ins, asks for the second factor, and accepts a session that the browser has.
func TestSignInOnConnectPage(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		var me struct {
			User struct{ ID string } `json:"user"`
		}
		w.call(w.user(""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK).into(w, &me)
		link, b := w.ownLink("of-the-owner", me.User.ID), w.browser()
		b.post(link)
		cookies := (&http.Response{Header: w.signIn(w.email, w.password).header}).Cookies()
		b.jar.SetCookies(b.public, cookies)
		require.Contains(w.t, b.post(link, "sign_in", "session").text, asksForKey)
		_, status := b.refresh()
		require.Equal(w.t, http.StatusOK, status, "the page has not used the cookie up")

		secret := w.enrolTOTP()
		w.call(w.user(""), http.MethodPost, "/team/me/totp/confirm", object{"code": w.totp(secret, 0)}).want(w, http.StatusOK)
		link, b = w.reconnectOwned("of-the-owner", http.StatusOK), w.browser()
		b.post(link)
		shown := b.enter(link, w.email, w.password)
		require.Equal(w.t, http.StatusUnprocessableEntity, shown.status)
		require.Contains(w.t, shown.text, "is needed for this account")
		require.Contains(w.t, b.enter(link, w.email, w.password, "totp", "000000").text, "is wrong or was used before")
		require.Contains(w.t, b.enter(link, w.email, w.password, "totp", w.totp(secret, 1)).text, asksForKey)

		link, b = w.reconnectOwned("of-the-owner", http.StatusOK), w.browser()
		b.post(link)
		for i := range 10 {
			if shown = b.enter(link, w.email, "a wrong password"); strings.Contains(shown.text, "too many failed sign-ins") {
				break
			}
			require.Less(w.t, i, 9, "the sign-ins on the page are limited")
		}
		w.call(anonymous, http.MethodPost, "/team/login", object{"email": w.email, "password": "another one"}).refused(w,
			http.StatusTooManyRequests, apperr.CodeRateLimited)
	})
}

// A sign-in on the page ends when the member changes the password or ends a session: someone else may have signed in.
func TestSignInOnConnectPageEnds(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		grace := w.addMember(w.team(), "grace@example.test", "developer")
		link, b, password := w.ownLink("of-grace", grace), w.browser(), w.password
		b.post(link)
		const changed = "another long password of hers"
		for _, end := range []func(her credentials){
			func(her credentials) {
				w.call(her, http.MethodPost, "/team/me/password", object{"current_password": password,
					"new_password": changed}).want(w, http.StatusNoContent)
				password = changed
			},
			func(her credentials) {
				var list []struct{ ID string }
				w.call(her, http.MethodGet, "/team/sessions", nil).want(w, http.StatusOK).into(w, &list)
				w.call(her, http.MethodDelete, "/team/sessions/"+list[len(list)-1].ID, nil).want(w, http.StatusNoContent)
			},
		} {
			w.login("grace@example.test", password)
			her := byToken(w.login("grace@example.test", password), "")
			require.Contains(w.t, b.enter(link, "grace@example.test", password).text, asksForKey)
			w.clk.Advance(time.Second)
			end(her)
			require.Contains(w.t, b.post(link, "mode", "bearer", "credential.token", "of-a-thief").text, asksWho)
			require.Nil(w.t, w.owned("of-grace").Credentials)
		}
	})
}

// A member who signs in through an identity provider only gets to the page and back, and continues there with one
// click: the browser sends the session's cookie only then.
func TestSignInOnConnectPageBySSO(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		idp := testkit.NewIdP(w.t, w.clk.Now)
		provider := w.identityProvider(idp, object{})
		start := publicURL + prefix + "/team/sso/" + provider + "/start"
		first := w.browser()
		first.follow(first.follow(first.follow(start + "?return_to=%2F")))
		token, status := first.refresh()
		require.Equal(w.t, http.StatusOK, status)
		var me struct {
			User struct{ ID string } `json:"user"`
		}
		w.call(byToken(token, ""), http.MethodGet, "/team/me", nil).want(w, http.StatusOK).into(w, &me)

		link, b := w.ownLink("of-grace", me.User.ID), w.browser()
		require.Contains(w.t, b.post(link).text, "Sign in with Company account")
		require.Contains(w.t, b.post(link, "sign_in", "sso:sso_00000000000000000000000000").text, "not available any more")
		left := b.post(link, "sign_in", "sso:"+provider)
		require.True(w.t, strings.HasPrefix(left.to, start+"?return_to="), left.to)
		require.NotContains(w.t, left.to, strings.TrimPrefix(link, publicURL+"/connect/"), "the link stays on its pages")
		back := b.follow(b.follow(b.follow(left.to)))
		require.True(w.t, strings.HasPrefix(back, "/connect/signed-in/"), back)
		require.Contains(w.t, w.browser().post(publicURL+back).text, "opened in another browser")
		arrived := b.post(publicURL + back)
		require.Equal(w.t, http.StatusOK, arrived.status, arrived.text)
		require.Contains(w.t, arrived.text, `action="`+strings.TrimPrefix(link, publicURL)+`"`)
		require.NotContains(w.t, arrived.text, asksForKey)
		require.Contains(w.t, b.post(link).text, asksWho, "a GET has changed nothing")
		require.Contains(w.t, b.post(link, "sign_in", "session").text, asksForKey)
		w.clk.Advance(10 * time.Minute)
		require.Contains(w.t, b.post(publicURL+back).text, "out of date")
	})
}

// The connections of a member follow them in the same transaction: they are disabled with the member and enabled
// again, and lose their credentials when the member is removed. Others stay as they are.
func TestOwnedConnectionsFollowTheMember(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		grace := w.addMember(w.team(), "grace@example.test", "developer")
		alan := w.addMember(w.team(), "alan@example.test", "developer")
		sink := newReceiver(w.t, status(http.StatusOK))
		connect := func(connectionID, user, email string) {
			link, b := w.ownLink(connectionID, user), w.browser()
			b.post(link)
			b.enter(link, email, w.password)
			require.Contains(w.t, b.post(link, "mode", "bearer", "credential.token", "of "+email).text, "is connected</h1>")
		}
		connect("of-grace", grace, "grace@example.test")
		connect("of-alan", alan, "alan@example.test")
		waiting, b := w.ownLink("waiting", grace), w.browser()
		require.Equal(w.t, []string{"body.on_conflict coherent"}, w.call(w.dev(), http.MethodPost, "/connections",
			merged(w.ownBody("of-alan", grace), object{"on_conflict": "update"})).violations(w), "no link that leads nowhere")
		w.subscribe(sink.url, object{"event_types": []string{"sallyport.connection.disabled",
			"sallyport.connection.enabled", "sallyport.connection.revoked"}})

		set := func(disabled bool) {
			w.call(w.user(""), http.MethodPatch, "/team/members/"+grace, object{"disabled": disabled}).want(w, http.StatusOK)
		}
		set(true)
		c := w.owned("of-grace")
		require.Equal(w.t, "disabled", c.Status)
		require.Equal(w.t, "The member to whom it belongs is disabled", *c.StatusReason)
		w.call(w.dev(), http.MethodPost, "/connections/http/of-grace", object{"operation": "enable"}).refused(w,
			http.StatusConflict, apperr.CodeConnectionNotReady)
		b.post(waiting)
		require.Contains(w.t, b.enter(waiting, "grace@example.test", w.password).text, "This connection has been disabled")
		require.Equal(w.t, []string{"body.connect.user_id exists"}, w.call(w.dev(), http.MethodPost,
			"/connections/http/of-grace", object{"operation": "reconnect"}).violations(w))
		set(false)
		require.Equal(w.t, "active", w.owned("of-grace").Status)
		require.NotNil(w.t, w.owned("of-grace").Credentials)

		link := w.reconnectOwned("of-grace", http.StatusOK)
		b.post(link)
		require.Contains(w.t, b.enter(link, "grace@example.test", w.password).text, asksForKey)
		w.call(w.user(""), http.MethodDelete, "/team/members/"+grace, nil).want(w, http.StatusNoContent)
		c = w.owned("of-grace")
		require.Equal(w.t, []string{"revoked", "owner_removed"}, []string{c.Status, *c.StatusReason})
		require.Nil(w.t, c.Credentials)
		require.NotContains(w.t, b.post(link, "mode", "bearer", "credential.token", "late").text, "is connected</h1>",
			"a sign-in on the page ends with the membership")
		require.Nil(w.t, w.owned("of-grace").Credentials)
		require.Equal(w.t, []string{"body.connect.user_id exists"}, w.call(w.dev(), http.MethodPost,
			"/connections/http/of-grace", object{"operation": "reconnect"}).violations(w))
		require.Equal(w.t, "active", w.owned("of-alan").Status)
		require.NotNil(w.t, w.owned("of-alan").Credentials)
		c = w.owned("waiting")
		require.Equal(w.t, []string{"pending", "owner_removed"}, []string{c.Status, *c.StatusReason})

		own := w.ownEvents(sink, 5)
		require.Len(w.t, own["sallyport.connection.disabled"], 2)
		require.Len(w.t, own["sallyport.connection.enabled"], 2)
		require.Equal(w.t, "owner_removed", own["sallyport.connection.revoked"][0]["status_reason"])
	})
}
