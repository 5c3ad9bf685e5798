package identityhttp_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const cookieName = "__Host-sallyport_refresh"

// with sends a request with a refresh cookie and further headers.
func (s *server) with(path, cookie string, headers map[string]string) reply {
	s.t.Helper()
	h := map[string]string{"Cookie": cookieName + "=" + cookie}
	maps.Copy(h, headers)
	return s.do(http.MethodPost, path, h, nil)
}

func (s *server) refresh(cookie string) reply {
	s.t.Helper()
	return s.with("/team/token/refresh", cookie, nil)
}

// The cookie is out of reach of scripts, of plain HTTP, of other hosts' pages and of subdomains, and lives as long as
// the session does unused. A refresh replaces it and answers as a sign-in does; no cache keeps either.
func TestRefreshCookie(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		login := s.do(http.MethodPost, "/team/login", nil, map[string]any{"email": email, "password": password})
		s.clk.Advance(time.Minute)
		r := s.refresh(login.cookie(t).Value)
		require.Equal(t, http.StatusOK, r.status, r.text)
		require.Equal(t, "no-store", r.header.Get("Cache-Control"))
		for _, answer := range []reply{login, r} {
			c := answer.cookie(t)
			require.Equal(t, cookieName, c.Name)
			require.True(t, c.HttpOnly)
			require.True(t, c.Secure)
			require.Equal(t, http.SameSiteStrictMode, c.SameSite)
			require.Equal(t, "/", c.Path)
			require.Empty(t, c.Domain)
			require.Equal(t, 14*24*60*60, c.MaxAge)
			require.NotContains(t, answer.text, c.Value)
		}
		require.NotEqual(t, login.cookie(t).Value, r.cookie(t).Value)
		first, second := login.body(t), r.body(t)
		require.NotEqual(t, first["access_token"], second["access_token"])
		delete(first, "access_token")
		delete(second, "access_token")
		require.Equal(t, first, second)

		again := s.refresh(login.cookie(t).Value)
		require.Equal(t, http.StatusOK, again.status, "sent twice within the grace")
		require.Empty(t, again.header.Values("Set-Cookie"), "a cookie that is set twice would overwrite its successor")
		s.clk.Advance(time.Minute)
		require.Equal(t, "unauthorized", s.refresh(login.cookie(t).Value).code(t))
		require.Equal(t, "unauthorized", s.refresh(r.cookie(t).Value).code(t))
	})
}

// A browser that signs in anew leaves no session behind: the one of its cookie ends.
func TestLoginReplacesSession(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		r := s.do(http.MethodPost, "/team/login", map[string]string{"Cookie": cookieName + "=" + s.cookie},
			map[string]any{"email": email, "password": password})
		require.Equal(t, http.StatusOK, r.status, r.text)
		require.Equal(t, http.StatusUnauthorized, s.as(http.MethodGet, "/team/me", nil).status)
		s.token, _ = r.body(t)["access_token"].(string)
		require.Len(t, s.as(http.MethodGet, "/team/sessions", nil).list(t), 1)
	})
}

// Signing out ends the session and removes the cookie, also one of a session that has ended.
func TestLogout(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		for range 2 {
			r := s.with("/team/logout", s.cookie, nil)
			require.Equal(t, http.StatusNoContent, r.status, r.text)
			requireRemoved(t, r)
		}
		require.Equal(t, http.StatusUnauthorized, s.as(http.MethodGet, "/team/me", nil).status)
		require.Equal(t, http.StatusUnauthorized, s.refresh(s.cookie).status)
	})
}

// An access token is enough to sign out; without it and without a cookie the answer does not claim that anything has
// ended.
func TestLogoutByAccessToken(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		logout := func(headers map[string]string) reply { return s.do(http.MethodPost, "/team/logout", headers, nil) }
		bearer := map[string]string{"Authorization": "Bearer " + s.token}
		for name, headers := range map[string]map[string]string{
			"nothing": {}, "no token": {"Authorization": "Bearer x"}, "another scheme": {"Authorization": "Basic " + s.token},
		} {
			r := logout(headers)
			require.Equal(t, "unauthorized", r.code(t), name)
			require.Empty(t, r.header.Values("Set-Cookie"), name)
		}
		malformed := s.with("/team/logout", "x", nil)
		require.Equal(t, "unauthorized", malformed.code(t))
		requireRemoved(t, malformed)
		require.Equal(t, http.StatusOK, s.as(http.MethodGet, "/team/me", nil).status)

		require.Equal(t, http.StatusNoContent, logout(bearer).status)
		require.Equal(t, http.StatusUnauthorized, s.as(http.MethodGet, "/team/me", nil).status)
		require.Equal(t, http.StatusUnauthorized, s.refresh(s.cookie).status)
		require.Equal(t, "unauthorized", logout(bearer).code(t), "nothing is left to end")
		require.Equal(t, http.StatusNoContent, s.with("/team/logout", s.cookie, bearer).status)
	})
}

// requireRemoved requires that the answer removes the refresh cookie.
func requireRemoved(t *testing.T, r reply) {
	t.Helper()
	c := r.cookie(t)
	require.Equal(t, []any{cookieName, "", -1, "/", true}, []any{c.Name, c.Value, c.MaxAge, c.Path, c.Secure})
}

// A cookie that is worth nothing is removed with the refusal, and keeps nobody from signing in, whatever it is.
func TestDeadCookie(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		for name, cookie := range map[string]string{"malformed": "x", "long": strings.Repeat("x", 300)} {
			r := s.refresh(cookie)
			require.Equal(t, "unauthorized", r.code(t), name)
			requireRemoved(t, r)
			login := s.do(http.MethodPost, "/team/login", map[string]string{"Cookie": cookieName + "=" + cookie},
				map[string]any{"email": email, "password": password})
			require.Equal(t, http.StatusOK, login.status, name)
		}
		require.Empty(t, s.do(http.MethodPost, "/team/token/refresh", nil, nil).header.Values("Set-Cookie"))
		require.Equal(t, http.StatusNoContent, s.with("/team/logout", s.cookie, nil).status)
		ended := s.refresh(s.cookie)
		require.Equal(t, "unauthorized", ended.code(t))
		requireRemoved(t, ended)
	})
}

// What a page of another origin makes a browser send is refused before the cookie is looked at, whichever header tells.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		host := strings.TrimPrefix(s.url, "http://")
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
				r := s.with(path, s.cookie, headers)
				require.Equal(t, http.StatusForbidden, r.status, name)
				require.Equal(t, "cross_origin", r.code(t), name)
				require.Empty(t, r.header.Values("Set-Cookie"))
			}
			r := s.do(http.MethodPost, "/team/login", headers, map[string]any{"email": email, "password": password})
			require.Equal(t, "cross_origin", r.code(t), name)
		}
		require.Equal(t, http.StatusOK, s.as(http.MethodGet, "/team/me", nil).status, "nothing has ended")
		cookie := s.cookie
		for _, headers := range []map[string]string{
			{}, {"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Origin": "http://" + host},
			{"Origin": "http://gateway.example.test"},
		} {
			r := s.with("/team/token/refresh", cookie, headers)
			require.Equal(t, http.StatusOK, r.status, headers)
			cookie = r.cookie(t).Value
		}
		require.Equal(t, http.StatusUnsupportedMediaType, s.do(http.MethodPost, "/team/login",
			map[string]string{"Content-Type": "text/plain"}, `{"email":"`+email+`","password":"`+password+`"}`).status,
			"a form cannot sign anybody in")
	})
}

// A user sees where they are signed in, which of it is this request's, and ends what they do not know.
func TestSessions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		s.clk.Advance(time.Minute)
		other := s.do(http.MethodPost, "/team/login", map[string]string{"User-Agent": "phone/1.0"},
			map[string]any{"email": email, "password": password})
		token, _ := other.body(t)["access_token"].(string)
		list := s.as(http.MethodGet, "/team/sessions", nil).list(t)
		require.Len(t, list, 2)
		phone, _ := list[0]["id"].(string)
		require.Equal(t, map[string]any{
			"id": phone, "created_at": "2026-11-02T09:31:00.000Z", "last_used_at": "2026-11-02T09:31:00.000Z",
			"expires_at": "2026-11-16T09:31:00.000Z", "ip": "127.0.0.1", "user_agent": "phone/1.0", "current": false,
		}, list[0])
		require.Equal(t, true, list[1]["current"])
		paged := s.as(http.MethodGet, "/team/sessions?limit=1", nil)
		require.NotEmpty(t, paged.header.Get("X-Next-Cursor"))
		require.Equal(t, http.StatusNoContent, s.as(http.MethodDelete, "/team/sessions/"+phone, nil).status)
		require.Equal(t, http.StatusUnauthorized, s.do(http.MethodGet, "/team/me",
			map[string]string{"Authorization": "Bearer " + token}, nil).status)
		require.Equal(t, "not_found", s.as(http.MethodDelete, "/team/sessions/"+phone, nil).code(t))
		require.Len(t, s.as(http.MethodGet, "/team/sessions", nil).list(t), 1)
	})
}

// Too many failures are told as such, with when to come back, alike for an address that has an account and one that has
// none.
func TestLoginBackoff(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		var answers []reply
		for _, address := range []string{"grace@example.test", "nobody@example.test"} {
			for range 20 {
				r := s.do(http.MethodPost, "/team/login", nil, map[string]any{"email": address, "password": "wrong"})
				if r.status == http.StatusTooManyRequests {
					answers = append(answers, r)
					break
				}
				require.Equal(t, http.StatusUnauthorized, r.status)
			}
		}
		require.Len(t, answers, 2)
		for _, r := range answers {
			require.Equal(t, "rate_limited", r.code(t))
			require.Equal(t, "1", r.header.Get("Retry-After"))
			require.Equal(t, answers[0].text, r.text)
		}
	})
}

// A password is changed by who knows it; what is wrong is told at its field.
func TestChangePasswordOverHTTP(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		change := func(current, next string) reply {
			return s.as(http.MethodPost, "/team/me/password", map[string]any{"current_password": current, "new_password": next})
		}
		require.Equal(t, []string{"body.current_password"}, change("wrong", "staple battery horse").locations(t))
		require.Equal(t, []string{"body.new_password"}, change(password, strings.ToUpper(email)).locations(t))
		require.Equal(t, []string{"body.new_password"}, change(password, "short").locations(t))
		require.Equal(t, []string{"body.new_password"}, change(password, password).locations(t))
		r := change(password, "staple battery horse")
		require.Equal(t, http.StatusNoContent, r.status, r.text)
		require.Equal(t, http.StatusOK, s.as(http.MethodGet, "/team/me", nil).status)
		require.Equal(t, http.StatusUnauthorized, s.refresh(s.cookie).status, "a copy of the cookie may be why")
		require.Equal(t, 14*24*60*60, r.cookie(t).MaxAge)
		require.Equal(t, http.StatusOK, s.refresh(r.cookie(t).Value).status)
		require.Equal(t, http.StatusUnauthorized,
			s.do(http.MethodPost, "/team/login", nil, map[string]any{"email": email, "password": password}).status)
	})
}

// The keys that verify access tokens are published where others look for them, for caches to keep.
func TestJWKS(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/.well-known/jwks.json", http.NoBody)
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, http.StatusOK, res.StatusCode)
		require.Equal(t, "application/jwk-set+json", res.Header.Get("Content-Type"))
		require.Equal(t, "public, max-age=300", res.Header.Get("Cache-Control"))
	})
}
