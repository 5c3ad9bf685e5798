package signinhttp_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"

	"sallyport/internal/platform/access"
)

const (
	email    = identitytest.Email
	password = string(identitytest.Password)
)

// A sign-in returns all that a client needs for its next request, and no cache keeps it.
func TestLogin(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		r := s.Do(http.MethodPost, "/team/login", nil, map[string]any{"email": strings.ToUpper(email), "password": password})
		require.Equal(t, http.StatusOK, r.Status, r.Text)
		require.Equal(t, "no-store", r.Header.Get("Cache-Control"))
		b := r.Object(t)
		require.Equal(t, "Bearer", b["token_type"])
		require.EqualValues(t, 900, b["expires_in"])
		require.Equal(t, map[string]any{"id": s.Profile.User.ID, "email": email}, b["user"])
		require.Equal(t, []any{
			map[string]any{"id": s.Development(), "name": "development", "type": "test", "payload_retention_days": nil,
				"event_retention_days": nil, "connect_redirect_urls": []any{}, "created_at": "2026-11-02T09:30:00.250Z"},
			map[string]any{"id": s.Production(), "name": "production", "type": "live", "payload_retention_days": nil,
				"event_retention_days": nil, "connect_redirect_urls": []any{}, "created_at": "2026-11-02T09:30:00.250Z"},
		}, b["environments"])

		token, _ := b["access_token"].(string)
		me := s.Do(http.MethodGet, "/team/me", map[string]string{"Authorization": "Bearer " + token}, nil)
		require.Equal(t, http.StatusOK, me.Status, me.Text)
		m := me.Object(t)
		require.Equal(t, b["user"], m["user"])
		inside := make([]any, 0, len(access.InEnvironments()))
		for _, p := range access.InEnvironments() {
			inside = append(inside, string(p))
		}
		require.Equal(t, []any{
			map[string]any{"id": s.Development(), "name": "development", "type": "test", "permissions": inside},
			map[string]any{"id": s.Production(), "name": "production", "type": "live", "permissions": inside},
		}, m["environments"])
		require.Equal(t, map[string]any{"id": string(s.Profile.Team.ID), "name": "Analytical Engines",
			"created_at": "2026-11-02T09:30:00.250Z"}, m["team"])
		session, _ := m["session"].(map[string]any)
		require.Regexp(t, "^ses_", session["id"])
		delete(session, "id")
		require.Equal(t, map[string]any{"authenticated_at": "2026-11-02T09:30:00.250Z",
			"expires_at": "2026-11-16T09:30:00.250Z", "methods": []any{"pwd"}}, session)
		bindings, _ := m["role_bindings"].([]any)
		require.Len(t, bindings, 1)
		binding, _ := bindings[0].(map[string]any)
		require.Regexp(t, "^rbd_", binding["id"])
		delete(binding, "id")
		require.Equal(t, map[string]any{"role": "owner", "role_name": "owner", "scope": map[string]any{"team": true},
			"principal":  map[string]any{"type": "user", "id": s.Profile.User.ID},
			"created_at": "2026-11-02T09:30:00.250Z", "expires_at": nil, "managed_by": nil}, binding)
		require.Len(t, m["permissions"], len(access.Permissions()))

		s.Clock.Advance(900 * time.Second)
		require.Equal(t, http.StatusUnauthorized, s.As(http.MethodGet, "/team/me", nil).Status)
	})
}

// The response to every invalid credential is the same to the byte, and so is that to every sign-in that fails.
func TestUnauthorizedIsOneResponse(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		missing := s.Do(http.MethodGet, "/team/me", nil, nil)
		require.Equal(t, http.StatusUnauthorized, missing.Status)
		require.Equal(t, "unauthorized", missing.Code(t))
		login := func(email, password string) identitytest.Response {
			return s.Do(http.MethodPost, "/team/login", nil, map[string]any{"email": email, "password": password})
		}
		bearer := func(value string) identitytest.Response {
			return s.Do(http.MethodGet, "/team/me", map[string]string{"Authorization": value}, nil)
		}
		for name, r := range map[string]identitytest.Response{
			"other scheme":  bearer("Basic dXNlcjpwYXNzd29yZA=="),
			"no token":      bearer("Bearer"),
			"cut token":     bearer("Bearer " + s.Token[:len(s.Token)-1]),
			"malformed key": s.Probe("x"),
		} {
			require.Equal(t, http.StatusUnauthorized, r.Status, name)
			require.Equal(t, missing.Text, r.Text, name)
		}
		wrong := login(email, "wrong horse battery")
		require.Equal(t, http.StatusUnauthorized, wrong.Status)
		require.Equal(t, "unauthorized", wrong.Code(t))
		for name, r := range map[string]identitytest.Response{
			"unknown address": login("nobody@example.test", password),
			"no address":      login("nobody", password),
			"unstorable":      login("a\u0000b@example.test", password),
		} {
			require.Equal(t, http.StatusUnauthorized, r.Status, name)
			require.Equal(t, wrong.Text, r.Text, name)
		}
		// Where no API key works, the response is the same for every text in place of one.
		key := func(text string) identitytest.Response {
			return s.Do(http.MethodGet, "/team/me", map[string]string{"API-Key": text}, nil)
		}
		noKeys := key("x")
		require.Equal(t, http.StatusUnauthorized, noKeys.Status)
		require.Contains(t, noKeys.Text, "API keys cannot use it")
		require.Equal(t, noKeys.Text, key("ask_production_x").Text)
	})
}

// The response to a malformed sign-in has every validation error, and none of its values.
func TestLoginViolations(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		r := s.Do(http.MethodPost, "/team/login", nil, map[string]any{"email": 7, "passwort": "hunter2hunter2"})
		require.ElementsMatch(t, []string{"body.email", "body.password", "body.passwort"}, r.Locations(t))
		require.NotContains(t, r.Text, "hunter2")
		require.Equal(t, []string{"body"}, s.Do(http.MethodPost, "/team/login", nil, "{").Locations(t))
	})
}

// Roles apply as they are now: a user who may only read cannot create keys, and the response names the missing
// permission.
func TestPermissions(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		_, err := s.Store.DB.Write().ExecContext(t.Context(), "UPDATE role_bindings SET role = 'viewer'")
		require.NoError(t, err)
		require.Contains(t, s.As(http.MethodGet, "/team/me", nil).Text, `"role":"viewer"`)
		for method, path := range map[string]string{http.MethodPost: "/api-keys", http.MethodGet: "/api-keys",
			http.MethodDelete: "/api-keys/x"} {
			r := s.As(method, path, nil)
			require.Equal(t, http.StatusForbidden, r.Status, r.Text)
			require.Equal(t, "forbidden", r.Code(t))
			require.Contains(t, r.Text, "api_keys:")
		}
		_, err = s.Store.DB.Write().ExecContext(t.Context(), "DELETE FROM memberships")
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, s.As(http.MethodGet, "/team/me", nil).Status)
	})
}

// A user works in environments of their own team only; another's does not exist.
func TestEnvironmentScope(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		in := func(env string) identitytest.Response {
			return s.Do(http.MethodGet, "/probe", map[string]string{"Authorization": "Bearer " + s.Token, "Environment-Id": env},
				nil)
		}
		r := in(s.Production())
		require.Equal(t, http.StatusOK, r.Status, r.Text)
		require.Equal(t, s.Production(), r.Object(t)["environment"])
		for _, env := range []string{s.ForeignEnvironment(), "development"} {
			r := in(env)
			require.Equal(t, http.StatusNotFound, r.Status, r.Text)
			require.Equal(t, "not_found", r.Code(t))
		}
		require.Equal(t, "environment_required", s.As(http.MethodGet, "/probe", nil).Code(t))
	})
}
