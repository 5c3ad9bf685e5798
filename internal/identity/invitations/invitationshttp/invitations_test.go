package invitationshttp_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
)

// A request that invites or gives a role gets all errors in one response: those of the schema, those of the body's
// rules, and, where the body has its shape, those that only the store can find. No error appears twice.
func TestViolationsOfGivingComeTogether(t *testing.T) {
	t.Parallel()
	identitytest.Served(t, func(t *testing.T, s *identitytest.Server) {
		const past = "2026-11-02T09:30:00.250Z"
		everywhere := map[string]any{"team": true}
		for _, c := range []struct {
			path string
			body map[string]any
			want []string
		}{
			{"/team/invitations", map[string]any{"email": "nobody", "role": "vewer", "scope": everywhere, "expires_at": past},
				[]string{"body.email", "body.role", "body.expires_at"}},
			{"/team/invitations", map[string]any{"email": "nobody", "role": "", "scope": map[string]any{}, "expires_at": past},
				[]string{"body.email", "body.role", "body.scope", "body.expires_at"}},
			{"/team/invitations", map[string]any{"email": "x", "role": "viewer", "expires_at": "soon"},
				[]string{"body.email", "body.scope", "body.expires_at"}},
			{"/roles/bindings", map[string]any{"principal": map[string]any{"type": "user", "id": "usr_x"}, "role": "vewer",
				"scope": everywhere, "expires_at": past}, []string{"body.principal.id", "body.role", "body.expires_at"}},
			{"/roles/bindings", map[string]any{"principal": map[string]any{"type": "group", "id": "x"}, "role": "",
				"expires_at": past}, []string{"body.principal.type", "body.role", "body.scope", "body.expires_at"}},
		} {
			r := s.As(http.MethodPost, c.path, c.body)
			require.Equal(t, http.StatusUnprocessableEntity, r.Status, r.Text)
			require.ElementsMatch(t, c.want, r.Locations(t), "%s %v", c.path, c.body)
		}
	})
}
