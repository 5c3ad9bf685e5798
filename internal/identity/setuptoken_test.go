package identity

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

func newInstallation() NewInstallation {
	return NewInstallation{TeamName: "Analytical Engines", Email: "Ada@Example.test", Password: testPassword}
}

// opened returns a set-up token of the fixture's installation.
func (f fixture) opened(t *testing.T) SetupToken {
	t.Helper()
	token, err := f.OpenSetup(t.Context(), "")
	require.NoError(t, err)
	require.True(t, id.Is(id.PrefixSetupToken, token.Reveal()))
	return token
}

// A set-up token makes the team, its environments and an owner who can sign in, and all of it is on record as the work
// of whoever held the token.
func TestSetup(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		token := f.opened(t)
		p, err := f.Setup(t.Context(), testClient(), token, newInstallation())
		require.NoError(t, err)
		require.Equal(t, "Analytical Engines", p.Team.Name)
		require.Equal(t, testEmail, p.User.Email)
		require.Equal(t, access.Owner, p.Bindings[0].Role)
		require.Equal(t, []string{Development, Production}, []string{p.Environments[0].Name, p.Environments[1].Name})
		require.Zero(t, f.count(t, "sign_in_failures"), "a right token is no failure")
		in := f.signedIn(t)
		require.Equal(t, access.Owner.Rights(), f.bearer(t, in.Token).Rights)
		require.Zero(t, f.count(t, "setup_tokens"))
		trail := f.trail(t)
		var actions []string
		for _, e := range trail[:4] {
			actions = append(actions, e.action)
			require.Equal(t, "setup", e.actor)
		}
		require.Equal(t, []string{"team.create", "environment.create", "environment.create", "user.create"}, actions)
	})
}

// Once there is a team, whoever made it, the set-up is closed for good: also for the token that worked, after a
// restart, and for a row that somebody puts back.
func TestSetupAfterSetup(t *testing.T) {
	t.Parallel()
	for name, setUp := range map[string]func(t *testing.T, f fixture, token SetupToken){
		"by the token": func(t *testing.T, f fixture, token SetupToken) {
			t.Helper()
			_, err := f.Setup(t.Context(), testClient(), token, newInstallation())
			require.NoError(t, err)
		},
		"by the command line": func(t *testing.T, f fixture, _ SetupToken) { t.Helper(); f.owner(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, f fixture) {
				token := f.opened(t)
				setUp(t, f, token)
				again := newInstallation()
				again.Email = "mallory@example.test"
				_, err := f.Setup(t.Context(), testClient(), token, again)
				require.True(t, apperr.Is(err, apperr.CodeSetupDone), err)
				none, err := f.another(t).openedAgain(t, "")
				require.NoError(t, err)
				require.Empty(t, none)
				m, err := f.material()
				require.NoError(t, err)
				f.exec(t, "INSERT INTO setup_tokens (token_mac, created_ms) VALUES ($1, 1)", setupTokenMAC(m.pepper, token))
				_, err = f.Setup(t.Context(), testClient(), token, again)
				require.True(t, apperr.Is(err, apperr.CodeSetupDone), err)
				require.Equal(t, 1, f.count(t, "users"))
				require.Equal(t, 1, f.count(t, "teams"))
			})
		})
	}
}

// openedAgain opens the set-up as a server that starts.
func (s *Service) openedAgain(t *testing.T, configured SetupToken) (SetupToken, error) {
	t.Helper()
	if err := s.Init(t.Context(), false); err != nil {
		return "", err
	}
	return s.OpenSetup(t.Context(), configured)
}

// Of several set-ups at a time, on several nodes, one makes the team and the others are told that it is done.
func TestSetupRace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		token := f.opened(t)
		other := f.another(t)
		second, err := other.openedAgain(t, "")
		require.NoError(t, err)
		var done, closed atomic.Int64
		var all sync.WaitGroup
		for i := range 8 {
			n := newInstallation()
			n.Email = fmt.Sprintf("owner%d@example.test", i)
			node, with := []*Service{f.Service, other}[i%2], []SetupToken{token, second}[i%2]
			all.Go(func() {
				switch _, err := node.Setup(t.Context(), stranger(i), with, n); {
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
		require.Equal(t, 1, f.count(t, "teams"))
		require.Equal(t, 1, f.count(t, "users"))
		require.Equal(t, 2, f.count(t, "environments"))
	})
}

// Every start before the set-up shows a token, and each works: an operator may take the line of any node's log. A
// configured token is the only one.
func TestSetupTokens(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		const configured = SetupToken("a token that the operator has chosen")
		first := f.opened(t)
		shown, err := f.another(t).openedAgain(t, "")
		require.NoError(t, err)
		require.NotEqual(t, first, shown)
		require.Equal(t, 2, f.count(t, "setup_tokens"))
		for range maxSetupTokens {
			f.clk.Advance(time.Second)
			shown = f.opened(t)
		}
		require.Equal(t, maxSetupTokens, f.count(t, "setup_tokens"))
		_, err = f.Setup(t.Context(), testClient(), first, newInstallation())
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "the oldest go")
		for range 2 {
			none, err := f.OpenSetup(t.Context(), configured)
			require.NoError(t, err)
			require.Empty(t, none, "what the operator knows is not shown")
			require.Equal(t, 1, f.count(t, "setup_tokens"))
		}
		_, err = f.Setup(t.Context(), testClient(), shown, newInstallation())
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		_, err = f.Setup(t.Context(), testClient(), configured, newInstallation())
		require.NoError(t, err)
	})
}

// A wrong token gets the one answer and costs no Argon2; many of them from an address make it wait, the right one
// included, and keep out nobody who asks from elsewhere. The count is not that of sign-ins.
func TestSetupGuesses(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		token := f.opened(t)
		wrong := []SetupToken{"x", SetupToken(id.NewRandom(id.PrefixSetupToken)), token[:len(token)-1], token + "0",
			SetupToken(id.NewRandom("spr_"))}
		for i := range freeAddressFailures + 1 {
			_, err := f.Setup(t.Context(), testClient(), wrong[i%len(wrong)], newInstallation())
			require.Equal(t, apperr.Unauthorized(errSetupToken), err)
		}
		_, err := f.Setup(t.Context(), testClient(), token, newInstallation())
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, apperr.CodeRateLimited, e.Code)
		require.Equal(t, "Too many attempts; try again later", e.Message)
		require.Positive(t, e.RetryAfter)
		require.Zero(t, f.hashes.Load())
		_, err = f.signIn(t, "nobody@example.test", wrongPassword)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized), "sign-ins have a count of their own")
		_, err = f.Setup(t.Context(), stranger(1), token, newInstallation())
		require.NoError(t, err)
	})
}

// All faults of a set-up come together, and before anything is counted or looked up.
func TestSetupFaults(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		token := f.opened(t)
		_, err := f.Setup(t.Context(), testClient(), "", NewInstallation{TeamName: "\x00", Email: "ada", Password: "short"})
		var e *apperr.Error
		require.ErrorAs(t, err, &e)
		var at []string
		for _, d := range e.Details {
			at = append(at, d.Location)
		}
		require.Equal(t, []string{"token", "team_name", "email", "password"}, at)
		n := newInstallation()
		n.Password = secretbox.Secret(n.Email)
		_, err = f.Setup(t.Context(), testClient(), token, n)
		require.True(t, apperr.Is(err, apperr.CodeValidation))
		require.Zero(t, f.count(t, "sign_in_failures"))
		require.Equal(t, 1, f.count(t, "setup_tokens"))
	})
}

// Of a set-up token nothing is stored that would give it away, and the code of one is good for nothing else.
func TestSetupTokenIsStoredAsCode(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		token := f.opened(t)
		macs, err := readSetupTokens(t.Context(), f.store.DB.Read())
		require.NoError(t, err)
		require.Len(t, macs, 1)
		require.Len(t, macs[0], 32)
		m, err := f.material()
		require.NoError(t, err)
		require.Equal(t, setupTokenMAC(m.pepper, token), macs[0])
		require.NotEqual(t, mac(m.pepper, "refresh token", []byte(token.Reveal())), macs[0])
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", token, token, token), token.Reveal())
	})
}
