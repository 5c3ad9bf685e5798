package identityhttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Environments over HTTP: created with a location, listed newest first, changed by merge-patch, deleted for good.
func TestEnvironments(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		r := s.as(http.MethodPost, "/team/environments", map[string]any{"name": "staging"})
		require.Equal(t, http.StatusCreated, r.status, r.text)
		made := r.body(t)
		id, _ := made["id"].(string)
		require.Equal(t, "/api/v1/team/environments/"+id, r.header.Get("Location"))
		require.Equal(t, map[string]any{"id": id, "name": "staging", "type": "test", "payload_retention_days": nil,
			"event_retention_days": nil, "created_at": "2026-11-02T09:30:00.000Z"}, made)
		path := "/team/environments/" + id
		require.Equal(t, made, s.as(http.MethodGet, path, nil).body(t))
		require.Equal(t, made, s.as(http.MethodGet, "/team/environments", nil).list(t)[0])
		require.Equal(t, made, s.as(http.MethodPatch, path, map[string]any{}).body(t))
		require.Equal(t, "environment_exists", s.as(http.MethodPost, "/team/environments",
			map[string]any{"name": "staging"}).code(t))
		require.Equal(t, "environment_exists", s.as(http.MethodPatch, path, map[string]any{"name": "production"}).code(t))
		kept := s.as(http.MethodPatch, path, map[string]any{"payload_retention_days": 7, "event_retention_days": 10.0}).body(
			t)
		require.Equal(t, []any{7.0, 10.0}, []any{kept["payload_retention_days"], kept["event_retention_days"]})
		require.Equal(t, kept, s.as(http.MethodGet, path, nil).body(t))
		require.Equal(t, []string{"body.payload_retention_days"},
			s.as(http.MethodPatch, path, map[string]any{"payload_retention_days": 11}).locations(t))
		require.ElementsMatch(t, []string{"body.payload_retention_days", "body.event_retention_days"},
			s.as(http.MethodPatch, path, map[string]any{"payload_retention_days": 0, "event_retention_days": 1.5}).locations(t))
		require.Equal(t, made, s.as(http.MethodPatch, path, map[string]any{"payload_retention_days": nil,
			"event_retention_days": nil}).body(t))
		require.Equal(t, "rehearsal", s.as(http.MethodPatch, path, map[string]any{"name": "rehearsal"}).body(t)["name"])
		for field, body := range map[string]map[string]any{
			"body.name": {"name": "Not A Name"}, "body.type": {"type": "live"}, "body.id": {"id": "env_1"},
		} {
			require.Equal(t, []string{field}, s.as(http.MethodPatch, path, body).locations(t))
		}
		require.Equal(t, []string{"body.name"}, s.as(http.MethodPatch, path, map[string]any{"name": nil}).locations(t))
		require.ElementsMatch(t, []string{"body.name", "body.type"},
			s.as(http.MethodPost, "/team/environments", map[string]any{"name": "", "type": "staging"}).locations(t))

		key, _ := s.create(map[string]any{"name": "k", "environment_id": id})["id"].(string)
		require.Equal(t, "environment_not_empty", s.as(http.MethodDelete, path, nil).code(t))
		require.Equal(t, http.StatusNoContent, s.as(http.MethodDelete, "/api-keys/"+key, nil).status)
		require.Equal(t, http.StatusNoContent, s.as(http.MethodDelete, path, nil).status)
		require.Equal(t, "not_found", s.as(http.MethodGet, path, nil).code(t))
	})
}

// The team is renamed by who may; the others are told which permission is missing.
func TestTeam(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *server) {
		want := map[string]any{"id": string(s.owner.Team.ID), "name": "Difference Engines",
			"created_at": "2026-11-02T09:30:00.000Z"}
		require.Equal(t, want, s.as(http.MethodPatch, "/team", map[string]any{"name": "Difference Engines"}).body(t))
		require.Equal(t, want, s.as(http.MethodPatch, "/team", map[string]any{}).body(t))
		for _, bad := range []any{"", nil, "a\u0000b", " ", 7} {
			require.Equal(t, []string{"body.name"}, s.as(http.MethodPatch, "/team", map[string]any{"name": bad}).locations(t),
				bad)
		}
		require.ElementsMatch(t, []string{"body.name", "body.id"},
			s.as(http.MethodPatch, "/team", map[string]any{"name": "a\u0000b", "id": "team_1"}).locations(t))
		_, err := s.store.DB.Write().ExecContext(t.Context(), "UPDATE role_bindings SET role = 'developer'")
		require.NoError(t, err)
		require.Contains(t, s.as(http.MethodGet, "/team", nil).text, "team:read")
		require.Contains(t, s.as(http.MethodPatch, "/team", map[string]any{"name": "x"}).text, "team:write")
		require.Len(t, s.as(http.MethodGet, "/team/environments", nil).list(t), 2)
		require.Contains(t, s.as(http.MethodPost, "/team/environments", map[string]any{"name": "x"}).text,
			"environments:write")
	})
}
