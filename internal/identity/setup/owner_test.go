package setup_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/setup"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// The first owner brings the team with its two environments, each with its trail; later owners join that team.
func TestCreateOwner(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		cli := access.System("cli")
		p, err := f.Setup.CreateOwner(t.Context(), cli, "Analytical Engines", "Ada@Example.test", identitytest.Password)
		require.NoError(t, err)
		require.Equal(t, identitytest.Email, p.User.Email)
		require.Equal(t, "Analytical Engines", p.Team.Name)
		require.Equal(t, access.Owner, p.Bindings[0].Role)
		require.Len(t, p.Environments, 2)
		require.Equal(t, team.Development, p.Environments[0].Name)
		require.Equal(t, team.Production, p.Environments[1].Name)
		var actions []string
		for _, e := range f.Trail(t) {
			actions = append(actions, e.Action)
			require.Equal(t, string(p.Team.ID), e.Team)
			require.Equal(t, "cli", e.Actor)
			require.NotContains(t, e.Changes, identitytest.Password.Reveal())
		}
		require.Equal(t, []string{"team.create", "environment.create", "environment.create", "user.create"}, actions)

		_, err = f.Setup.CreateOwner(t.Context(), cli, "", "ADA@example.test", identitytest.Password)
		require.ErrorIs(t, err, members.ErrEmailTaken)
		_, err = f.Setup.CreateOwner(t.Context(), cli, "Difference Engines", "charles@example.test", identitytest.Password)
		require.ErrorIs(t, err, setup.ErrTeamExists)
		require.Len(t, f.Trail(t), 4, "a refusal left something behind")

		second, err := f.Setup.CreateOwner(t.Context(), cli, "", "charles@example.test", identitytest.Password)
		require.NoError(t, err)
		require.Equal(t, p.Team, second.Team)
		require.Equal(t, p.Environments, second.Environments)
		require.Equal(t, 1, f.Count(t, "teams"))
	})
}

// All validation errors of an account are in one response, without the values.
func TestCreateOwnerViolations(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, err := f.Setup.CreateOwner(t.Context(), access.System("cli"), "a\x00b", "ada at example", "short")
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		var locations []string
		for _, d := range e.Details {
			locations = append(locations, d.Location)
		}
		require.Equal(t, []string{"team_name", "email", "password"}, locations)
		for _, email := range []string{"", "ada", "ada@", "@example.test", "Ada <ada@example.test>", "ada@example.test ",
			"a\x00@example.test", strings.Repeat("a", 250) + "@example.test"} {
			_, ok := members.NormalizeEmail(email)
			require.False(t, ok, email)
		}
		_, err = f.Setup.CreateOwner(t.Context(), access.System("cli"), "", identitytest.Email,
			secretbox.Secret(strings.Repeat("x", 257)))
		require.True(t, apperr.Is(err, apperr.CodeValidation))
		_, err = f.Setup.CreateOwner(t.Context(), access.System("cli"), "", identitytest.Email,
			secretbox.Secret(strings.Repeat("é", 12)))
		require.NoError(t, err, "characters are counted, not bytes")
	})
}
