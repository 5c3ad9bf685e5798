package identity

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/secretbox"
)

// The first owner brings the team with its two environments, each with its trail; later owners join that team.
func TestCreateOwner(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		cli := access.System("cli")
		p, err := f.CreateOwner(t.Context(), cli, "Analytical Engines", "Ada@Example.test", testPassword)
		require.NoError(t, err)
		require.Equal(t, testEmail, p.User.Email)
		require.Equal(t, "Analytical Engines", p.Team.Name)
		require.Equal(t, access.Owner, p.Bindings[0].Role)
		require.Len(t, p.Environments, 2)
		require.Equal(t, Development, p.Environments[0].Name)
		require.Equal(t, Production, p.Environments[1].Name)
		var actions []string
		for _, e := range f.trail(t) {
			actions = append(actions, e.action)
			require.Equal(t, string(p.Team.ID), e.team)
			require.Equal(t, "cli", e.actor)
			require.NotContains(t, e.changes, testPassword.Reveal())
		}
		require.Equal(t, []string{"team.create", "environment.create", "environment.create", "user.create"}, actions)

		_, err = f.CreateOwner(t.Context(), cli, "", "ADA@example.test", testPassword)
		require.ErrorIs(t, err, ErrEmailTaken)
		_, err = f.CreateOwner(t.Context(), cli, "Difference Engines", "charles@example.test", testPassword)
		require.ErrorIs(t, err, ErrTeamExists)
		require.Len(t, f.trail(t), 4, "a refusal left something behind")

		second, err := f.CreateOwner(t.Context(), cli, "", "charles@example.test", testPassword)
		require.NoError(t, err)
		require.Equal(t, p.Team, second.Team)
		require.Equal(t, p.Environments, second.Environments)
		require.Equal(t, 1, f.count(t, "teams"))
	})
}

// All faults of an account come at once, and without the values.
func TestCreateOwnerFaults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, err := f.CreateOwner(t.Context(), access.System("cli"), "a\x00b", "ada at example", "short")
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		var locations []string
		for _, d := range e.Details {
			locations = append(locations, d.Location)
		}
		require.Equal(t, []string{"team_name", "email", "password"}, locations)
		for _, email := range []string{"", "ada", "ada@", "@example.test", "Ada <ada@example.test>", "ada@example.test ",
			"a\x00@example.test", strings.Repeat("a", 250) + "@example.test"} {
			_, ok := normalizeEmail(email)
			require.False(t, ok, email)
		}
		_, err = f.CreateOwner(t.Context(), access.System("cli"), "", testEmail,
			secretbox.Secret(strings.Repeat("x", MaxPasswordCharacters+1)))
		require.True(t, apperr.Is(err, apperr.CodeValidation))
		_, err = f.CreateOwner(t.Context(), access.System("cli"), "", testEmail,
			secretbox.Secret(strings.Repeat("é", MinPasswordCharacters)))
		require.NoError(t, err, "characters are counted, not bytes")
	})
}

// Nobody learns from an answer whether an address has an account.
func TestLoginAnswersAlike(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		_, err := f.CreateOwner(t.Context(), access.System("cli"), "", "removed@example.test", testPassword)
		require.NoError(t, err)
		f.exec(t, "DELETE FROM memberships WHERE user_id <> $1", p.User.ID)
		attempts := map[string]struct {
			email    string
			password secretbox.Secret
		}{
			"wrong password":    {testEmail, testPassword + "x"},
			"empty password":    {testEmail, ""},
			"unknown address":   {"nobody@example.test", testPassword},
			"no address at all": {"nobody", testPassword},
			"unstorable":        {"a\x00b@example.test", testPassword},
			"member of no team": {"removed@example.test", testPassword},
		}
		for name, a := range attempts {
			f.exec(t, "DELETE FROM sign_in_failures")
			_, err := f.signIn(t, a.email, a.password)
			var e *apperr.Error
			require.ErrorAs(t, err, &e, name)
			require.Equal(t, apperr.CodeUnauthorized, e.Code, name)
			require.Equal(t, "The credential is missing or not valid", e.Message, name)
		}
		// Equal time is equal work: each of them makes one hash be computed, and asks for a place to do so alike.
		for name, a := range attempts {
			f.exec(t, "DELETE FROM sign_in_failures")
			before := f.hashes.Load()
			_, err := f.signIn(t, a.email, a.password)
			require.True(t, apperr.Is(err, apperr.CodeUnauthorized), name)
			require.EqualValues(t, 1, f.hashes.Load()-before, name)
		}
		f.exec(t, "DELETE FROM sign_in_failures")
		for range concurrentHashes() {
			f.hasher.running <- struct{}{}
		}
		for range waitingHashes {
			f.hasher.waiting <- struct{}{}
		}
		for name, a := range attempts {
			_, err := f.signIn(t, a.email, a.password)
			require.True(t, apperr.Is(err, apperr.CodeUnavailable), name)
		}
	})
}

// A sign-in gives what the client needs to begin, and its token is accepted.
func TestLogin(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		session, err := f.signIn(t, strings.ToUpper(testEmail), testPassword)
		require.NoError(t, err)
		require.Equal(t, p, session.Profile)
		actor, err := f.Bearer(t.Context(), session.Token.Reveal())
		require.NoError(t, err)
		require.Equal(t, access.Principal{
			Kind: access.KindUser, ID: p.User.ID, Name: testEmail, Team: p.Team.ID, Rights: access.Owner.Rights(),
			Session: session.Session.ID,
		}, actor)
		f.clk.Advance(TokenLifetime)
		_, err = f.Bearer(t.Context(), session.Token.Reveal())
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
	})
}

// Rights are read for each request: a changed role applies at once, a removed member is out at once.
func TestMembershipIsReadEveryTime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		session, err := f.signIn(t, testEmail, testPassword)
		require.NoError(t, err)
		f.exec(t, "UPDATE role_bindings SET role = 'viewer'")
		actor, err := f.Bearer(t.Context(), session.Token.Reveal())
		require.NoError(t, err)
		require.False(t, actor.Has(access.APIKeysWrite))
		f.exec(t, "UPDATE role_bindings SET role = 'emperor'")
		actor, err = f.Bearer(t.Context(), session.Token.Reveal())
		require.NoError(t, err)
		require.False(t, actor.Has(access.TeamRead), "an unknown role permits something")
		f.exec(t, "DELETE FROM memberships")
		_, err = f.Bearer(t.Context(), session.Token.Reveal())
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		_, _, err = f.Profile(t.Context(), actor)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
	})
}

// Another password ends every session at once, its tokens of both kinds included, and lets a user in whom strangers
// have made wait; the trail says that it changed, not to what.
func TestResetPassword(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		before, err := f.signIn(t, testEmail, testPassword)
		require.NoError(t, err)
		const next = secretbox.Secret("staple battery horse")
		cli := access.System("cli")
		f.waits(t, stranger(1), testEmail)
		require.NoError(t, f.ResetPassword(t.Context(), cli, strings.ToUpper(testEmail), next))
		_, err = f.Login(t.Context(), stranger(2), Credentials{Email: testEmail, Password: testPassword}, "")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "the count begins anew")
		f.refused(t, before.Token)
		_, err = f.Refresh(t.Context(), testClient(), before.Refresh)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		after, err := f.signIn(t, testEmail, next)
		require.NoError(t, err)
		_, err = f.Bearer(t.Context(), after.Token.Reveal())
		require.NoError(t, err)
		var last auditRow
		for _, e := range f.trail(t) {
			if e.action == "user.reset_password" {
				last = e
			}
		}
		require.Equal(t, p.User.ID, last.target)
		require.Equal(t, string(p.Team.ID), last.team)
		require.JSONEq(t, `{"details":{"password":"[redacted]","sessions_ended":1}}`, last.changes)

		require.ErrorIs(t, f.ResetPassword(t.Context(), cli, "nobody@example.test", next), ErrNoUser)
		require.ErrorIs(t, f.ResetPassword(t.Context(), cli, "nobody", next), ErrNoUser)
		require.True(t, apperr.Is(f.ResetPassword(t.Context(), cli, testEmail, "short"), apperr.CodeValidation))
	})
}

// A hash made under other costs still signs in, is replaced by one under today's, and ends no other sign-in.
func TestLoginRehashes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		before, err := f.signIn(t, testEmail, testPassword)
		require.NoError(t, err)
		f.clk.Advance(time.Second)
		old := passwordHash{params: hashParams{memoryKiB: 64, passes: 1, lanes: 1}, salt: make([]byte, saltBytes)}
		old.sum = f.hasher.sum(old, testPassword)
		f.exec(t, "UPDATE users SET password_hash = $1 WHERE id = $2", old.String(), p.User.ID)
		stored := func() string {
			a, ok, err := readAccount(t.Context(), f.store.DB.Read(), testEmail)
			require.NoError(t, err)
			require.True(t, ok)
			return a.passwordHash
		}
		_, err = f.signIn(t, testEmail, testPassword+"x")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		require.Equal(t, old.String(), stored(), "a wrong password replaced the hash")
		_, err = f.signIn(t, testEmail, testPassword)
		require.NoError(t, err)
		renewed := stored()
		h, err := parseHash(renewed)
		require.NoError(t, err)
		require.Equal(t, currentParams(), h.params)
		_, err = f.signIn(t, testEmail, testPassword)
		require.NoError(t, err)
		require.Equal(t, renewed, stored(), "a current hash was replaced")
		_, err = f.Bearer(t.Context(), before.Token.Reveal())
		require.NoError(t, err)
	})
}

// An environment of another team does not exist for a user, and neither does an id that cannot be one.
func TestEnvironmentOfAnotherTeam(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		_, foreign, _ := f.foreign(t)
		got, err := f.Environment(t.Context(), actor, string(p.Environments[0].ID))
		require.NoError(t, err)
		require.Equal(t, p.Environments[0].ID, got)
		for _, e := range []string{string(foreign), "", "development", "env_\x00"} {
			_, err := f.Environment(t.Context(), actor, e)
			require.True(t, apperr.Is(err, apperr.CodeNotFound), e)
			_, err = f.FindEnvironment(t.Context(), actor, "x"+e)
			require.True(t, apperr.Is(err, apperr.CodeNotFound), e)
		}
		for _, ref := range []string{Production, string(p.Environments[1].ID)} {
			e, err := f.FindEnvironment(t.Context(), access.System("cli"), ref)
			require.NoError(t, err)
			require.Equal(t, p.Environments[1], e)
		}
	})
}
