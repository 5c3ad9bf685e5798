package identity

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// bind gives a user a role straight in the database; env is empty for the team, expires nil for never.
func (f fixture) bind(t *testing.T, team id.Team, user string, role access.Role, env id.Environment,
	expires *int64) string {
	t.Helper()
	b := Binding{
		ID: id.New(id.PrefixBinding), PrincipalKind: access.KindUser, PrincipalID: user, Role: role, Environment: env,
		CreatedMillis: clock.Millis(f.clk.Now()), ExpiresMillis: expires,
	}
	require.NoError(t, f.store.DB.Tx(t.Context(), func(tx *sql.Tx) error {
		return insertBinding(t.Context(), tx, team, b)
	}))
	return b.ID
}

// A role that is given in one environment holds there and nowhere else: other environments do not exist for the user,
// and what concerns the team is not theirs. It ends when its time is over, for the next request and for what rechecks a
// credential.
func TestRightsInOneEnvironment(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		in := f.signedIn(t)
		here, there := p.Environments[0], p.Environments[1]
		f.exec(t, "DELETE FROM role_bindings")
		actor := f.bearer(t, in.Token)
		require.Empty(t, actor.Rights.In(""))
		_, err := f.Environment(t.Context(), actor, string(here.ID))
		require.True(t, apperr.Is(err, apperr.CodeNotFound), "a member without a role enters an environment")

		expires := clock.Millis(f.clk.Now().Add(time.Minute))
		f.bind(t, p.Team.ID, p.User.ID, access.Admin, here.ID, &expires)
		f.bind(t, p.Team.ID, p.User.ID, access.Viewer, here.ID, nil)
		actor = f.bearer(t, in.Token)
		require.True(t, actor.HasIn(here.ID, access.APIKeysWrite))
		require.False(t, actor.HasIn(there.ID, access.EventsRead))
		require.False(t, actor.HasIn("", access.APIKeysWrite))
		require.False(t, actor.HasIn("", access.TeamWrite), "a role in an environment says nothing about the team")
		require.False(t, actor.HasIn(here.ID, access.TeamWrite), "a role in an environment says nothing about the team")
		env, err := f.Environment(t.Context(), actor, string(here.ID))
		require.NoError(t, err)
		_, err = f.Environment(t.Context(), actor, string(there.ID))
		require.True(t, apperr.Is(err, apperr.CodeNotFound))
		profile, _, err := f.Profile(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, []Environment{here}, profile.Environments)
		require.Len(t, profile.Bindings, 2)
		again, err := f.signIn(t, testEmail, testPassword)
		require.NoError(t, err)
		require.Equal(t, []Environment{here}, again.Environments)

		actor.Environment = env
		f.clk.Advance(time.Minute - time.Millisecond)
		require.True(t, f.bearer(t, in.Token).HasIn(here.ID, access.APIKeysWrite))
		f.clk.Advance(time.Millisecond)
		require.False(t, f.bearer(t, in.Token).HasIn(here.ID, access.APIKeysWrite), "an expired role holds")
		current, err := f.Current(t.Context(), actor)
		require.NoError(t, err)
		require.True(t, current.Has(access.EventsRead))
		require.False(t, current.Has(access.APIKeysWrite), "an expired role holds for a stream")
		anywhere := actor
		anywhere.Environment = ""
		current, err = f.Current(t.Context(), anywhere)
		require.NoError(t, err)
		require.True(t, current.HasIn(env, access.EventsRead), "what works on no environment")
		f.exec(t, "DELETE FROM role_bindings")
		_, err = f.Current(t.Context(), actor)
		require.True(t, apperr.Is(err, apperr.CodeNotFound), err)
		current, err = f.Current(t.Context(), anywhere)
		require.NoError(t, err)
		require.False(t, current.HasIn(env, access.EventsRead))
		f.exec(t, "UPDATE sessions SET ended_ms = 1")
		_, err = f.Current(t.Context(), anywhere)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), err)
	})
}

// Roles that a team has made bring what they list; a permission that this release does not know brings nothing, and the
// roles of another team, which have ids of their own, bring nothing either.
func TestCustomRoleRights(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		in := f.signedIn(t)
		f.exec(t, "DELETE FROM role_bindings")
		_, _, foreign := f.foreign(t)
		role := func(team, permissions string) access.Role {
			roleID := id.New(id.PrefixRole)
			f.exec(t, `INSERT INTO roles (id, team_id, name, description, permissions, created_ms, updated_ms) VALUES ($1, $2, $3, '', $4, 1, 1)`,
				roleID, team, "custom", permissions)
			return access.Role(roleID)
		}
		var other string
		require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(), "SELECT team_id FROM api_keys WHERE id = $1",
			foreign.ID).Scan(&other))
		f.bind(t, p.Team.ID, p.User.ID, role(string(p.Team.ID), `["webhook_events:read","later:read","account:write"]`), "",
			nil)
		f.bind(t, p.Team.ID, p.User.ID, role(other, `["connections:write"]`), "", nil)
		actor := f.bearer(t, in.Token)
		require.Equal(t, []access.Permission{access.EventsRead}, actor.Rights.Team)
		profile, _, err := f.Profile(t.Context(), actor)
		require.NoError(t, err)
		require.Equal(t, "custom", profile.Bindings[0].RoleName)
	})
}
