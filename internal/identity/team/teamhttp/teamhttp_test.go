package teamhttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
)

// Environments over HTTP: created with a location, listed newest first, changed by merge-patch, deleted permanently.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		r := s.As(http.MethodPost, "/team/environments", map[string]any{"name": "staging"})
		require.Equal(t, http.StatusCreated, r.Status, r.Text)
		made := r.Object(t)
		id, _ := made["id"].(string)
		require.Equal(t, "/api/v1/team/environments/"+id, r.Header.Get("Location"))
		require.Equal(t, map[string]any{"id": id, "name": "staging", "type": "test", "payload_retention_days": nil,
			"event_retention_days": nil, "connect_redirect_urls": []any{},
			"created_at": "2026-11-02T09:30:00.250Z"}, made)
		path := "/team/environments/" + id
		require.Equal(t, made, s.As(http.MethodGet, path, nil).Object(t))
		require.Equal(t, made, s.As(http.MethodGet, "/team/environments", nil).List(t)[0])
		require.Equal(t, made, s.As(http.MethodPatch, path, map[string]any{}).Object(t))
		require.Equal(t, "environment_exists", s.As(http.MethodPost, "/team/environments",
			map[string]any{"name": "staging"}).Code(t))
		require.Equal(t, "environment_exists", s.As(http.MethodPatch, path, map[string]any{"name": "production"}).Code(t))
		kept := s.As(http.MethodPatch, path, map[string]any{"payload_retention_days": 7,
			"event_retention_days": 10.0}).Object(
			t)
		require.Equal(t, []any{7.0, 10.0}, []any{kept["payload_retention_days"], kept["event_retention_days"]})
		require.Equal(t, kept, s.As(http.MethodGet, path, nil).Object(t))
		require.Equal(t, []string{"body.payload_retention_days"},
			s.As(http.MethodPatch, path, map[string]any{"payload_retention_days": 11}).Locations(t))
		require.ElementsMatch(t, []string{"body.payload_retention_days", "body.event_retention_days"},
			s.As(http.MethodPatch, path, map[string]any{"payload_retention_days": 0, "event_retention_days": 1.5}).Locations(t))
		require.Equal(t, made, s.As(http.MethodPatch, path, map[string]any{"payload_retention_days": nil,
			"event_retention_days": nil}).Object(t))
		require.Equal(t, "rehearsal", s.As(http.MethodPatch, path, map[string]any{"name": "rehearsal"}).Object(t)["name"])
		for field, body := range map[string]map[string]any{
			"body.name": {"name": "Not A Name"}, "body.type": {"type": "live"}, "body.id": {"id": "env_1"},
		} {
			require.Equal(t, []string{field}, s.As(http.MethodPatch, path, body).Locations(t))
		}
		require.Equal(t, []string{"body.name"}, s.As(http.MethodPatch, path, map[string]any{"name": nil}).Locations(t))
		require.ElementsMatch(t, []string{"body.name", "body.type"},
			s.As(http.MethodPost, "/team/environments", map[string]any{"name": "", "type": "staging"}).Locations(t))

		key, _ := s.CreateKey(map[string]any{"name": "k", "environment_id": id})["id"].(string)
		require.Equal(t, "environment_not_empty", s.As(http.MethodDelete, path, nil).Code(t))
		require.Equal(t, http.StatusNoContent, s.As(http.MethodDelete, "/api-keys/"+key, nil).Status)
		require.Equal(t, http.StatusNoContent, s.As(http.MethodDelete, path, nil).Status)
		require.Equal(t, "not_found", s.As(http.MethodGet, path, nil).Code(t))
	})
}

// A user with the permission renames the team. For others the response names the missing permission.
func TestTeam(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		want := map[string]any{"id": string(s.Profile.Team.ID), "name": "Difference Engines",
			"created_at": "2026-11-02T09:30:00.250Z"}
		require.Equal(t, want, s.As(http.MethodPatch, "/team", map[string]any{"name": "Difference Engines"}).Object(t))
		require.Equal(t, want, s.As(http.MethodPatch, "/team", map[string]any{}).Object(t))
		for _, bad := range []any{"", nil, "a\u0000b", " ", 7} {
			require.Equal(t, []string{"body.name"}, s.As(http.MethodPatch, "/team", map[string]any{"name": bad}).Locations(t),
				bad)
		}
		require.ElementsMatch(t, []string{"body.name", "body.id"},
			s.As(http.MethodPatch, "/team", map[string]any{"name": "a\u0000b", "id": "team_1"}).Locations(t))
		_, err := s.Store.DB.Write().ExecContext(t.Context(), "UPDATE role_bindings SET role = 'developer'")
		require.NoError(t, err)
		require.Contains(t, s.As(http.MethodGet, "/team", nil).Text, "team:read")
		require.Contains(t, s.As(http.MethodPatch, "/team", map[string]any{"name": "x"}).Text, "team:write")
		require.Len(t, s.As(http.MethodGet, "/team/environments", nil).List(t), 2)
		require.Contains(t, s.As(http.MethodPost, "/team/environments", map[string]any{"name": "x"}).Text,
			"environments:write")
	})
}
