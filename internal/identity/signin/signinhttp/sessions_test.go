package signinhttp_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
)

func refresh(s *identitytest.Server, cookie string) identitytest.Response {
	return s.WithCookie("/team/token/refresh", cookie, nil)
}

// The cookie is out of reach of scripts, of plain HTTP, of other hosts' pages and of subdomains, and lives as long as
// the session does unused. A refresh replaces it and returns the same response as a sign-in. No cache keeps either.
func TestRefreshCookie(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		login := s.Do(http.MethodPost, "/team/login", nil, map[string]any{"email": email, "password": password})
		s.Clock.Advance(time.Minute)
		r := refresh(s, login.SetCookie(t).Value)
		require.Equal(t, http.StatusOK, r.Status, r.Text)
		require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
		for _, answer := range []identitytest.Response{login, r} {
			c := answer.SetCookie(t)
			require.Equal(t, identitytest.RefreshCookie, c.Name)
			require.True(t, c.HttpOnly)
			require.True(t, c.Secure)
			require.Equal(t, http.SameSiteStrictMode, c.SameSite)
			require.Equal(t, "/", c.Path)
			require.Empty(t, c.Domain)
			require.Equal(t, 14*24*60*60, c.MaxAge)
			require.NotContains(t, answer.Text, c.Value)
		}
		require.NotEqual(t, login.SetCookie(t).Value, r.SetCookie(t).Value)
		first, second := login.Object(t), r.Object(t)
		require.NotEqual(t, first["access_token"], second["access_token"])
		delete(first, "access_token")
		delete(second, "access_token")
		require.Equal(t, first, second)

		again := refresh(s, login.SetCookie(t).Value)
		require.Equal(t, http.StatusOK, again.Status, "sent twice within the grace")
		require.Empty(t, again.Header.Values("Set-Cookie"), "a cookie that is set twice would overwrite its successor")
		s.Clock.Advance(time.Minute)
		require.Equal(t, "unauthorized", refresh(s, login.SetCookie(t).Value).Code(t))
		require.Equal(t, "unauthorized", refresh(s, r.SetCookie(t).Value).Code(t))
	})
}

// A browser that signs in again leaves no session behind: the one of its cookie ends.
func TestLoginReplacesSession(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		r := s.Do(http.MethodPost, "/team/login", map[string]string{"Cookie": identitytest.RefreshCookie + "=" + s.Cookie},
			map[string]any{"email": email, "password": password})
		require.Equal(t, http.StatusOK, r.Status, r.Text)
		require.Equal(t, http.StatusUnauthorized, s.As(http.MethodGet, "/team/me", nil).Status)
		s.Token, _ = r.Object(t)["access_token"].(string)
		require.Len(t, s.As(http.MethodGet, "/team/sessions", nil).List(t), 1)
	})
}

// Signing out ends the session and removes the cookie, also one of a session that has ended.
func TestLogout(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		for range 2 {
			r := s.WithCookie("/team/logout", s.Cookie, nil)
			require.Equal(t, http.StatusNoContent, r.Status, r.Text)
			requireRemoved(t, r)
		}
		require.Equal(t, http.StatusUnauthorized, s.As(http.MethodGet, "/team/me", nil).Status)
		require.Equal(t, http.StatusUnauthorized, refresh(s, s.Cookie).Status)
	})
}

// An access token is enough to sign out; without it and without a cookie the response does not claim that anything has
// ended.
func TestLogoutByAccessToken(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		logout := func(headers map[string]string) identitytest.Response {
			return s.Do(http.MethodPost, "/team/logout", headers, nil)
		}
		bearer := map[string]string{"Authorization": "Bearer " + s.Token}
		for name, headers := range map[string]map[string]string{
			"nothing": {}, "no token": {"Authorization": "Bearer x"}, "another scheme": {"Authorization": "Basic " + s.Token},
		} {
			r := logout(headers)
			require.Equal(t, "unauthorized", r.Code(t), name)
			require.Empty(t, r.Header.Values("Set-Cookie"), name)
		}
		malformed := s.WithCookie("/team/logout", "x", nil)
		require.Equal(t, "unauthorized", malformed.Code(t))
		requireRemoved(t, malformed)
		require.Equal(t, http.StatusOK, s.As(http.MethodGet, "/team/me", nil).Status)

		require.Equal(t, http.StatusNoContent, logout(bearer).Status)
		require.Equal(t, http.StatusUnauthorized, s.As(http.MethodGet, "/team/me", nil).Status)
		require.Equal(t, http.StatusUnauthorized, refresh(s, s.Cookie).Status)
		require.Equal(t, "unauthorized", logout(bearer).Code(t), "nothing is left to end")
		require.Equal(t, http.StatusNoContent, s.WithCookie("/team/logout", s.Cookie, bearer).Status)
	})
}

// requireRemoved requires that the response removes the refresh cookie.
func requireRemoved(t *testing.T, r identitytest.Response) {
	t.Helper()
	c := r.SetCookie(t)
	require.Equal(t, []any{identitytest.RefreshCookie, "", -1, "/", true}, []any{c.Name, c.Value, c.MaxAge, c.Path,
		c.Secure})
}

// An invalid cookie is removed with the refusal, and prevents no sign-in.
func TestDeadCookie(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		for name, cookie := range map[string]string{"malformed": "x", "long": strings.Repeat("x", 300)} {
			r := refresh(s, cookie)
			require.Equal(t, "unauthorized", r.Code(t), name)
			requireRemoved(t, r)
			login := s.Do(http.MethodPost, "/team/login", map[string]string{"Cookie": identitytest.RefreshCookie + "=" + cookie},
				map[string]any{"email": email, "password": password})
			require.Equal(t, http.StatusOK, login.Status, name)
		}
		require.Empty(t, s.Do(http.MethodPost, "/team/token/refresh", nil, nil).Header.Values("Set-Cookie"))
		require.Equal(t, http.StatusNoContent, s.WithCookie("/team/logout", s.Cookie, nil).Status)
		ended := refresh(s, s.Cookie)
		require.Equal(t, "unauthorized", ended.Code(t))
		requireRemoved(t, ended)
	})
}

// A request that a page of another origin makes a browser send is refused before the cookie is read, whether one header
// or another shows the origin.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		const host = identitytest.Host
		for name, headers := range map[string]map[string]string{
			"another site":             {"Sec-Fetch-Site": "cross-site"},
			"a sibling host":           {"Sec-Fetch-Site": "same-site"},
			"an unknown word":          {"Sec-Fetch-Site": "own-site"},
			"an old browser":           {"Origin": "https://attacker.example.test"},
			"another port":             {"Origin": "http://" + host + "0"},
			"a sandboxed page":         {"Origin": "null"},
			"a header that contradict": {"Origin": "http://" + host, "Sec-Fetch-Site": "cross-site"},
		} {
			for _, path := range []string{"/team/token/refresh", "/team/logout"} {
				r := s.WithCookie(path, s.Cookie, headers)
				require.Equal(t, http.StatusForbidden, r.Status, name)
				require.Equal(t, "cross_origin", r.Code(t), name)
				require.Empty(t, r.Header.Values("Set-Cookie"))
			}
			r := s.Do(http.MethodPost, "/team/login", headers, map[string]any{"email": email, "password": password})
			require.Equal(t, "cross_origin", r.Code(t), name)
		}
		require.Equal(t, http.StatusOK, s.As(http.MethodGet, "/team/me", nil).Status, "nothing has ended")
		cookie := s.Cookie
		for _, headers := range []map[string]string{
			{}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Origin": "http://" + host},
			{"Origin": identitytest.Issuer},
		} {
			r := s.WithCookie("/team/token/refresh", cookie, headers)
			require.Equal(t, http.StatusOK, r.Status, headers)
			cookie = r.SetCookie(t).Value
		}
		require.Equal(t, http.StatusUnsupportedMediaType, s.Do(http.MethodPost, "/team/login",
			map[string]string{"Content-Type": "text/plain"}, `{"email":"`+email+`","password":"`+password+`"}`).Status,
			"a form cannot sign anybody in")
	})
}

// A user sees where they are signed in, which of it is this request's, and ends what they do not know.
func TestSessions(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		s.Clock.Advance(time.Minute)
		other := s.Do(http.MethodPost, "/team/login", map[string]string{"User-Agent": "phone/1.0"},
			map[string]any{"email": email, "password": password})
		token, _ := other.Object(t)["access_token"].(string)
		list := s.As(http.MethodGet, "/team/sessions", nil).List(t)
		require.Len(t, list, 2)
		phone, _ := list[0]["id"].(string)
		require.Equal(t, map[string]any{
			"id": phone, "created_at": "2026-11-02T09:31:00.250Z", "last_used_at": "2026-11-02T09:31:00.250Z",
			"expires_at": "2026-11-16T09:31:00.250Z", "ip": "127.0.0.1", "user_agent": "phone/1.0", "current": false,
		}, list[0])
		require.Equal(t, true, list[1]["current"])
		paged := s.As(http.MethodGet, "/team/sessions?limit=1", nil)
		require.NotEmpty(t, paged.Header.Get("X-Next-Cursor"))
		require.Equal(t, http.StatusNoContent, s.As(http.MethodDelete, "/team/sessions/"+phone, nil).Status)
		require.Equal(t, http.StatusUnauthorized, s.Do(http.MethodGet, "/team/me",
			map[string]string{"Authorization": "Bearer " + token}, nil).Status)
		require.Equal(t, "not_found", s.As(http.MethodDelete, "/team/sessions/"+phone, nil).Code(t))
		require.Len(t, s.As(http.MethodGet, "/team/sessions", nil).List(t), 1)
	})
}

// The response to too many failures says so and when to try again, alike for an address that has an account and one
// that has none.
func TestLoginBackoff(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		var answers []identitytest.Response
		for _, address := range []string{"grace@example.test", "nobody@example.test"} {
			for range 20 {
				r := s.Do(http.MethodPost, "/team/login", nil, map[string]any{"email": address, "password": "wrong"})
				if r.Status == http.StatusTooManyRequests {
					answers = append(answers, r)
					break
				}
				require.Equal(t, http.StatusUnauthorized, r.Status)
			}
		}
		require.Len(t, answers, 2)
		for _, r := range answers {
			require.Equal(t, "rate_limited", r.Code(t))
			require.Equal(t, "1", r.Header.Get("Retry-After"))
			require.Equal(t, answers[0].Text, r.Text)
		}
	})
}

// A user who knows their password can change it, and each validation error names its field.
func TestChangePasswordOverHTTP(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		change := func(current, next string) identitytest.Response {
			return s.As(http.MethodPost, "/team/me/password", map[string]any{"current_password": current, "new_password": next})
		}
		require.Equal(t, []string{"body.current_password"}, change("wrong", "staple battery horse").Locations(t))
		require.Equal(t, []string{"body.new_password"}, change(password, strings.ToUpper(email)).Locations(t))
		require.Equal(t, []string{"body.new_password"}, change(password, "short").Locations(t))
		require.Equal(t, []string{"body.new_password"}, change(password, password).Locations(t))
		r := change(password, "staple battery horse")
		require.Equal(t, http.StatusNoContent, r.Status, r.Text)
		require.Equal(t, http.StatusOK, s.As(http.MethodGet, "/team/me", nil).Status)
		require.Equal(t, http.StatusUnauthorized, refresh(s, s.Cookie).Status, "a copy of the cookie may be why")
		require.Equal(t, 14*24*60*60, r.SetCookie(t).MaxAge)
		require.Equal(t, http.StatusOK, refresh(s, r.SetCookie(t).Value).Status)
		require.Equal(t, http.StatusUnauthorized,
			s.Do(http.MethodPost, "/team/login", nil, map[string]any{"email": email, "password": password}).Status)
	})
}
