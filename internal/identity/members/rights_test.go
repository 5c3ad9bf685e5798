package members_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// A role given in one environment applies there and nowhere else: other environments do not exist for the user, and
// they have no rights to the team's settings. It ends on time, for the next request and for a later check of the same
// credential.
func TestRightsInOneEnvironment(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		in := f.SignedIn(t)
		here, there := p.Environments[0], p.Environments[1]
		f.Exec(t, "DELETE FROM role_bindings")
		actor := f.Bearer(t, in.Token)
		require.Empty(t, actor.Rights.In(""))
		_, err := f.Principals.Environment(t.Context(), actor, string(here.ID))
		require.True(t, apperr.Is(err, apperr.CodeNotFound), "a member without a role enters an environment")

		expires := clock.Millis(f.Clock.Now().Add(time.Minute))
		f.Bind(t, p.Team.ID, p.User.ID, access.Admin, here.ID, &expires)
		f.Bind(t, p.Team.ID, p.User.ID, access.Viewer, here.ID, nil)
		actor = f.Bearer(t, in.Token)
		require.True(t, actor.HasIn(here.ID, access.APIKeysWrite))
		require.False(t, actor.HasIn(there.ID, access.EventsRead))
		require.False(t, actor.HasIn("", access.APIKeysWrite))
		require.False(t, actor.HasIn("", access.TeamWrite), "a role in an environment says nothing about the team")
		require.False(t, actor.HasIn(here.ID, access.TeamWrite), "a role in an environment says nothing about the team")
		env, err := f.Principals.Environment(t.Context(), actor, string(here.ID))
		require.NoError(t, err)
		_, err = f.Principals.Environment(t.Context(), actor, string(there.ID))
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		profile, _, err := f.SignIn.Profile(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, []team.Environment{here}, profile.Environments)
		require.Len(t, profile.Bindings, 2)
		again, err := f.LogIn(t, identitytest.Email, identitytest.Password)
		require.NoError(t, err)
		require.Equal(t, []team.Environment{here}, again.Environments)

		actor.Environment = env
		f.Clock.Advance(time.Minute - time.Millisecond)
		require.True(t, f.Bearer(t, in.Token).HasIn(here.ID, access.APIKeysWrite))
		f.Clock.Advance(time.Millisecond)
		require.False(t, f.Bearer(t, in.Token).HasIn(here.ID, access.APIKeysWrite), "an expired role holds")
		current, err := f.Principals.Current(t.Context(), actor)
		require.NoError(t, err)
		require.True(t, current.Has(access.EventsRead))
		require.False(t, current.Has(access.APIKeysWrite), "an expired role holds for a stream")
		anywhere := actor
		anywhere.Environment = ""
		current, err = f.Principals.Current(t.Context(), anywhere)
		require.NoError(t, err)
		require.True(t, current.HasIn(env, access.EventsRead), "what works on no environment")
		f.Exec(t, "DELETE FROM role_bindings")
		_, err = f.Principals.Current(t.Context(), actor)
		require.True(t, apperr.Is(err, apperr.CodeNotFound), err)
		current, err = f.Principals.Current(t.Context(), anywhere)
		require.NoError(t, err)
		require.False(t, current.HasIn(env, access.EventsRead))
		f.Exec(t, "UPDATE sessions SET ended_ms = 1")
		_, err = f.Principals.Current(t.Context(), anywhere)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), err)
	})
}

// Roles that a team has made bring what they list; a permission that this release does not know brings nothing, and the
// roles of another team, which have ids of their own, bring nothing either.
func TestCustomRoleRights(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		in := f.SignedIn(t)
		f.Exec(t, "DELETE FROM role_bindings")
		_, _, foreign := f.Foreign(t)
		role := func(team, permissions string) access.Role {
			roleID := id.New(id.PrefixRole)
			f.Exec(t, `INSERT INTO roles (id, team_id, name, description, permissions, created_ms, updated_ms)
				VALUES ($1, $2, $3, '', $4, 1, 1)`,
				roleID, team, "custom", permissions)
			return access.Role(roleID)
		}
		var other string
		require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(), "SELECT team_id FROM api_keys WHERE id = $1",
			foreign.ID).Scan(&other))
		f.Bind(t, p.Team.ID, p.User.ID, role(string(p.Team.ID), `["webhook_events:read","later:read","account:write"]`), "",
			nil)
		f.Bind(t, p.Team.ID, p.User.ID, role(other, `["connections:write"]`), "", nil)
		actor := f.Bearer(t, in.Token)
		require.Equal(t, []access.Permission{access.EventsRead}, actor.Rights.Team)
		profile, _, err := f.SignIn.Profile(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, "custom", profile.Bindings[0].RoleName)
	})
}
