package identityhttp_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
)

// A sign-in returns all that a client needs for its next request, and no cache keeps it.
func TestLogin(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		r := s.do(http.MethodPost, "/team/login", nil, map[string]any{"email": strings.ToUpper(email), "password": password})
		require.Equal(t, http.StatusOK, r.status, r.text)
		require.Equal(t, "no-store", r.header.Get("Cache-Control"))
		b := r.body(t)
		require.Equal(t, "Bearer", b["token_type"])
		require.EqualValues(t, 900, b["expires_in"])
		require.Equal(t, map[string]any{"id": s.owner.User.ID, "email": email}, b["user"])
		require.Equal(t, []any{
			map[string]any{"id": s.development(), "name": "development", "type": "test", "payload_retention_days": nil,
				"event_retention_days": nil, "created_at": "2026-11-02T09:30:00.000Z"},
			map[string]any{"id": s.production(), "name": "production", "type": "live", "payload_retention_days": nil,
				"event_retention_days": nil, "created_at": "2026-11-02T09:30:00.000Z"},
		}, b["environments"])

		token, _ := b["access_token"].(string)
		me := s.do(http.MethodGet, "/team/me", map[string]string{"Authorization": "Bearer " + token}, nil)
		require.Equal(t, http.StatusOK, me.status, me.text)
		m := me.body(t)
		require.Equal(t, b["user"], m["user"])
		inside := make([]any, 0, len(access.InEnvironments()))
		for _, p := range access.InEnvironments() {
			inside = append(inside, string(p))
		}
		require.Equal(t, []any{
			map[string]any{"id": s.development(), "name": "development", "type": "test", "permissions": inside},
			map[string]any{"id": s.production(), "name": "production", "type": "live", "permissions": inside},
		}, m["environments"])
		require.Equal(t, map[string]any{"id": string(s.owner.Team.ID), "name": "Analytical Engines",
			"created_at": "2026-11-02T09:30:00.000Z"}, m["team"])
		session, _ := m["session"].(map[string]any)
		require.Regexp(t, "^ses_", session["id"])
		delete(session, "id")
		require.Equal(t, map[string]any{"authenticated_at": "2026-11-02T09:30:00.000Z",
			"expires_at": "2026-11-16T09:30:00.000Z", "methods": []any{"pwd"}}, session)
		bindings, _ := m["role_bindings"].([]any)
		require.Len(t, bindings, 1)
		binding, _ := bindings[0].(map[string]any)
		require.Regexp(t, "^rbd_", binding["id"])
		delete(binding, "id")
		require.Equal(t, map[string]any{"role": "owner", "role_name": "owner", "scope": map[string]any{"team": true},
			"principal":  map[string]any{"type": "user", "id": s.owner.User.ID},
			"created_at": "2026-11-02T09:30:00.000Z", "expires_at": nil, "managed_by": nil}, binding)
		require.Len(t, m["permissions"], len(access.Permissions()))

		s.clk.Advance(900 * time.Second)
		require.Equal(t, http.StatusUnauthorized, s.as(http.MethodGet, "/team/me", nil).status)
	})
}

// Whatever is wrong with a credential, the answer is the same to the byte.
func TestUnauthorizedIsOneAnswer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		missing := s.do(http.MethodGet, "/team/me", nil, nil)
		require.Equal(t, http.StatusUnauthorized, missing.status)
		require.Equal(t, "unauthorized", missing.code(t))
		login := func(email, password string) reply {
			return s.do(http.MethodPost, "/team/login", nil, map[string]any{"email": email, "password": password})
		}
		bearer := func(value string) reply {
			return s.do(http.MethodGet, "/team/me", map[string]string{"Authorization": value}, nil)
		}
		for name, r := range map[string]reply{
			"wrong password":    login(email, "wrong horse battery"),
			"unknown address":   login("nobody@example.test", password),
			"no address":        login("nobody", password),
			"unstorable":        login("a\u0000b@example.test", password),
			"other scheme":      bearer("Basic " + s.token),
			"no token":          bearer("Bearer"),
			"cut token":         bearer("Bearer " + s.token[:len(s.token)-1]),
			"malformed key":     s.probe("x"),
			"key where no keys": s.do(http.MethodGet, "/team/me", map[string]string{"API-Key": "x"}, nil),
		} {
			require.Equal(t, http.StatusUnauthorized, r.status, name)
			require.Equal(t, missing.text, r.text, name)
		}
	})
}

// A malformed sign-in is told every validation error, and none of its values.
func TestLoginViolations(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		r := s.do(http.MethodPost, "/team/login", nil, map[string]any{"email": 7, "passwort": "hunter2hunter2"})
		require.ElementsMatch(t, []string{"body.email", "body.password", "body.passwort"}, r.locations(t))
		require.NotContains(t, r.text, "hunter2")
		require.Equal(t, []string{"body"}, s.do(http.MethodPost, "/team/login", nil, "{").locations(t))
	})
}

// Roles are enforced as they are now: who may only read cannot make keys, and is told which permission is missing.
func TestPermissions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		_, err := s.store.DB.Write().ExecContext(t.Context(), "UPDATE role_bindings SET role = 'viewer'")
		require.NoError(t, err)
		require.Contains(t, s.as(http.MethodGet, "/team/me", nil).text, `"role":"viewer"`)
		for method, path := range map[string]string{http.MethodPost: "/api-keys", http.MethodGet: "/api-keys",
			http.MethodDelete: "/api-keys/x"} {
			r := s.as(method, path, nil)
			require.Equal(t, http.StatusForbidden, r.status, r.text)
			require.Equal(t, "forbidden", r.code(t))
			require.Contains(t, r.text, "api_keys:")
		}
		_, err = s.store.DB.Write().ExecContext(t.Context(), "DELETE FROM memberships")
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, s.as(http.MethodGet, "/team/me", nil).status)
	})
}

// A user works in environments of their own team only; another's does not exist.
func TestEnvironmentScope(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		in := func(env string) reply {
			return s.do(http.MethodGet, "/probe", map[string]string{"Authorization": "Bearer " + s.token, "Environment-Id": env},
				nil)
		}
		r := in(s.production())
		require.Equal(t, http.StatusOK, r.status, r.text)
		require.Equal(t, s.production(), r.body(t)["environment"])
		for _, env := range []string{s.foreignEnvironment(), "development"} {
			r := in(env)
			require.Equal(t, http.StatusNotFound, r.status, r.text)
			require.Equal(t, "not_found", r.code(t))
		}
		require.Equal(t, "environment_required", s.as(http.MethodGet, "/probe", nil).code(t))
	})
}
