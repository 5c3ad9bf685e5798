package setup_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sallyport/internal/identity/setup"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// freeAttempts is how many attempts an address has before it has to wait.
const freeAttempts = 20

func newInstallation() setup.NewInstallation {
	return setup.NewInstallation{TeamName: "Analytical Engines", Email: "Ada@Example.test",
		Password: identitytest.Password}
}

// opened returns a set-up token of the fixture's installation.
func opened(t *testing.T, f identitytest.World) setup.Token {
	t.Helper()
	token, err := f.Setup.Open(t.Context(), "")
	require.NoError(t, err)
	require.True(t, id.Is(id.PrefixSetupToken, token.Reveal()))
	return token
}

// A set-up token creates the team, its environments and an owner who can sign in. The trail records all of it as the
// work of the token's holder.
func TestSetup(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		token := opened(t, f)
		p, err := f.Setup.Complete(t.Context(), identitytest.Client(), token, newInstallation())
		require.NoError(t, err)
		require.Equal(t, "Analytical Engines", p.Team.Name)
		require.Equal(t, identitytest.Email, p.User.Email)
		require.Equal(t, access.Owner, p.Bindings[0].Role)
		require.Equal(t, []string{team.Development, team.Production}, []string{p.Environments[0].Name,
			p.Environments[1].Name})
		require.Zero(t, f.Count(t, "sign_in_failures"), "a right token is no failure")
		in := f.SignedIn(t)
		require.Equal(t, access.Owner.Rights(), f.Bearer(t, in.Token).Rights)
		require.Zero(t, f.Count(t, "setup_tokens"))
		trail := f.Trail(t)
		var actions []string
		for _, e := range trail[:4] {
			actions = append(actions, e.Action)
			require.Equal(t, "setup", e.Actor)
		}
		require.Equal(t, []string{"team.create", "environment.create", "environment.create", "user.create"}, actions)
	})
}

// Once there is a team, however it was created, the set-up is closed permanently: also for the token that worked, after
// a restart, and for a row that was restored.
func TestSetupAfterSetup(t *testing.T) {
	t.Parallel()
	for name, setUp := range map[string]func(t *testing.T, f identitytest.World, token setup.Token){
		"by the token": func(t *testing.T, f identitytest.World, token setup.Token) {
			t.Helper()
			_, err := f.Setup.Complete(t.Context(), identitytest.Client(), token, newInstallation())
			require.NoError(t, err)
		},
		"by the command line": func(t *testing.T, f identitytest.World, _ setup.Token) { t.Helper(); f.Owner(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			identitytest.Each(t, func(t *testing.T, f identitytest.World) {
				token := opened(t, f)
				setUp(t, f, token)
				again := newInstallation()
				again.Email = "mallory@example.test"
				_, err := f.Setup.Complete(t.Context(), identitytest.Client(), token, again)
				require.True(t, apperr.Is(err, apperr.CodeSetupDone), err)
				none, err := f.Another(t).Setup.Open(t.Context(), "")
				require.NoError(t, err)
				require.Empty(t, none)
				f.Exec(t, "INSERT INTO setup_tokens (token_mac, created_ms) VALUES ($1, 1)", f.Setup.TokenMAC(token))
				_, err = f.Setup.Complete(t.Context(), identitytest.Client(), token, again)
				require.True(t, apperr.Is(err, apperr.CodeSetupDone), err)
				require.Equal(t, 1, f.Count(t, "users"))
				require.Equal(t, 1, f.Count(t, "teams"))
			})
		})
	}
}

// Of several set-ups at a time, on several nodes, one creates the team and the others report that it exists.
func TestSetupRace(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		token := opened(t, f)
		other := f.Another(t)
		second, err := other.Setup.Open(t.Context(), "")
		require.NoError(t, err)
		var done, closed atomic.Int64
		var all sync.WaitGroup
		for i := range 8 {
			n := newInstallation()
			n.Email = fmt.Sprintf("owner%d@example.test", i)
			node, with := []identitytest.World{f, other}[i%2], []setup.Token{token, second}[i%2]
			all.Go(func() {
				switch _, err := node.Setup.Complete(t.Context(), identitytest.Stranger(i), with, n); {
				case err == nil:
					done.Add(1)
				case apperr.Is(err, apperr.CodeSetupDone), apperr.Is(err, apperr.CodeUnauthorized):
					closed.Add(1) // the token may be gone before the team is seen
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, done.Load())
		require.EqualValues(t, 7, closed.Load())
		require.Equal(t, 1, f.Count(t, "teams"))
		require.Equal(t, 1, f.Count(t, "users"))
		require.Equal(t, 2, f.Count(t, "environments"))
	})
}

// Every start before the set-up shows a token, and each works: an operator may take the line of any node's log. A
// configured token is the only one.
func TestSetupTokens(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		const configured = setup.Token("a token that the operator has chosen")
		first := opened(t, f)
		shown, err := f.Another(t).Setup.Open(t.Context(), "")
		require.NoError(t, err)
		require.NotEqual(t, first, shown)
		require.Equal(t, 2, f.Count(t, "setup_tokens"))
		for range setup.MaxSetupTokens {
			f.Clock.Advance(time.Second)
			shown = opened(t, f)
		}
		require.Equal(t, setup.MaxSetupTokens, f.Count(t, "setup_tokens"))
		_, err = f.Setup.Complete(t.Context(), identitytest.Client(), first, newInstallation())
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "the oldest go")
		for range 2 {
			none, err := f.Setup.Open(t.Context(), configured)
			require.NoError(t, err)
			require.Empty(t, none, "what the operator knows is not shown")
			require.Equal(t, 1, f.Count(t, "setup_tokens"))
		}
		_, err = f.Setup.Complete(t.Context(), identitytest.Client(), shown, newInstallation())
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		_, err = f.Setup.Complete(t.Context(), identitytest.Client(), configured, newInstallation())
		require.NoError(t, err)
	})
}

// A wrong token gets the same response always and costs no Argon2. Many of them from an address make it wait, even with
// the right one, and do not affect other addresses. The count is separate from that of sign-ins.
func TestSetupGuesses(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		token := opened(t, f)
		wrong := []setup.Token{"x", setup.Token(id.NewRandom(id.PrefixSetupToken)), token[:len(token)-1], token + "0",
			setup.Token(id.NewRandom("spr_"))}
		for i := range freeAttempts + 1 {
			_, err := f.Setup.Complete(t.Context(), identitytest.Client(), wrong[i%len(wrong)], newInstallation())
			require.Equal(t, apperr.Unauthorized(setup.ErrSetupToken), err)
		}
		_, err := f.Setup.Complete(t.Context(), identitytest.Client(), token, newInstallation())
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, apperr.CodeRateLimited, e.Code)
		require.Equal(t, "Too many attempts; try again later", e.Message)
		require.Positive(t, e.RetryAfter)
		require.Zero(t, f.Hashes.Load())
		_, err = f.LogIn(t, "nobody@example.test", identitytest.Password+"x")
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "sign-ins have a count of their own")
		_, err = f.Setup.Complete(t.Context(), identitytest.Stranger(1), token, newInstallation())
		require.NoError(t, err)
	})
}

// All validation errors of a set-up come together, and before anything is counted or looked up.
func TestSetupViolations(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		token := opened(t, f)
		_, err := f.Setup.Complete(t.Context(), identitytest.Client(), "", setup.NewInstallation{TeamName: "\x00",
			Email: "ada", Password: "short"})
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		var at []string
		for _, d := range e.Details {
			at = append(at, d.Location)
		}
		require.Equal(t, []string{"token", "team_name", "email", "password"}, at)
		n := newInstallation()
		n.Password = secretbox.Secret(n.Email)
		_, err = f.Setup.Complete(t.Context(), identitytest.Client(), token, n)
		require.True(t, apperr.Is(err, apperr.CodeValidation))
		require.Zero(t, f.Count(t, "sign_in_failures"))
		require.Equal(t, 1, f.Count(t, "setup_tokens"))
	})
}

// Of a set-up token nothing is stored that would give it away, and the code of one is good for nothing else.
func TestSetupTokenIsStoredAsCode(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		token := opened(t, f)
		var stored []byte
		require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(), "SELECT token_mac FROM setup_tokens").
			Scan(&stored))
		require.Equal(t, 1, f.Count(t, "setup_tokens"))
		require.Len(t, stored, 32)
		require.Equal(t, f.Setup.TokenMAC(token), stored)
		require.NotEqual(t, f.Setup.MAC("refresh token", token), stored)
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", token, token, token), token.Reveal())
	})
}
