package signin_test

import (
	"database/sql"
	"encoding/base64"
	"strings"
	"sync"
	"testing"
	"time"

	"sallyport/internal/identity/accesstokens"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/team"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

// spent requires that a refresh token gets nothing.
func spent(t *testing.T, f identitytest.World, token signin.RefreshToken) {
	t.Helper()
	_, err := f.SignIn.Refresh(t.Context(), identitytest.Client(), token)
	require.True(t, apperr.Is(err, apperr.CodeUnauthorized), err)
}

// Each refresh gives another token and keeps the session: its id, its user and when they gave their password. No token
// is in the database as it is sent.
func TestRefreshRotates(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		in := f.SignedIn(t)
		seen := map[signin.RefreshToken]bool{in.Refresh: true}
		for range 4 {
			f.Clock.Advance(accesstokens.Lifetime)
			next := f.Refreshed(t, in.Refresh)
			require.False(t, seen[next.Refresh])
			seen[next.Refresh] = true
			require.Equal(t, p, next.Profile)
			require.Equal(t, in.Session.ID, next.Session.ID)
			require.Equal(t, in.Session.AuthMillis, next.Session.AuthMillis)
			require.Equal(t, clock.Millis(f.Clock.Now()), next.Session.UsedMillis)
			require.Equal(t, in.Session.ID, f.Bearer(t, next.Token).Session)
			in = next
		}
		var family, token, previous []byte
		require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(),
			"SELECT family_mac, token_mac, previous_mac FROM sessions").
			Scan(&family, &token, &previous))
		for sent := range seen {
			sentFamily, sentRotated, ok := signin.ParseRefreshToken(sent)
			require.True(t, ok)
			for _, stored := range [][]byte{family, token, previous} {
				require.NotContains(t, string(stored), string(sentFamily))
				require.NotContains(t, string(stored), string(sentRotated))
			}
		}
	})
}

// A store that fails during a refresh ends no session: the token that was sent works again.
func TestRefreshFailsWhole(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		for _, table := range []string{"environments", "signing_keys"} {
			f.Clock.Advance(5 * time.Second)
			f.Exec(t, "ALTER TABLE "+table+" RENAME TO mislaid")
			_, err := f.SignIn.Refresh(t.Context(), identitytest.Client(), in.Refresh)
			require.Error(t, err, table)
			require.False(t, apperr.Is(err, apperr.CodeUnauthorized), table)
			f.Exec(t, "ALTER TABLE mislaid RENAME TO "+table)
			f.Clock.Advance(signin.RefreshGrace + time.Second)
			next := f.Refreshed(t, in.Refresh)
			require.NotEmpty(t, next.Refresh, table)
			in = next
		}
	})
}

// A reused token ends the session for everyone who has one of its tokens, thief and user alike, and the trail records
// it as denied.
func TestRefreshReplay(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		for name, uses := range map[string]int{"the token before": 1, "a token of long ago": 3} {
			in := f.SignedIn(t)
			other := f.SignedIn(t)
			latest := in
			for range uses {
				latest = f.Refreshed(t, latest.Refresh)
				f.Clock.Advance(signin.RefreshGrace + time.Millisecond)
			}
			f.Bearer(t, latest.Token)
			spent(t, f, in.Refresh)
			f.Refused(t, latest.Token)
			spent(t, f, latest.Refresh)
			f.Bearer(t, other.Token)
			trail := f.Trail(t)
			last := trail[len(trail)-1]
			require.Equal(t, "session.replay", last.Action, name)
			require.Equal(t, in.Session.ID, last.Target)
			require.Equal(t, in.User.ID, last.Actor)
			var outcome, ip, request string
			require.NoError(t, f.Store.DB.Read().QueryRowContext(t.Context(),
				"SELECT outcome, ip, request_id FROM audit_events WHERE target_id = $1 AND action = 'session.replay'",
				in.Session.ID).
				Scan(&outcome, &ip, &request))
			require.Equal(t, []string{"denied", "192.0.2.17", "request-1"}, []string{outcome, ip, request})
			spent(t, f, in.Refresh)
			require.Len(t, f.Trail(t), len(trail), "what has ended ends once")
		}
	})
}

// Two windows that refresh with one token at the same moment both continue. The second gets no token of its own, so
// that a thief who is as quick gains nothing.
func TestRefreshGrace(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		first := f.Refreshed(t, in.Refresh)
		f.Clock.Advance(signin.RefreshGrace)
		second := f.Refreshed(t, in.Refresh)
		require.Empty(t, second.Refresh)
		require.Equal(t, in.Session.ID, f.Bearer(t, second.Token).Session)
		f.Bearer(t, f.Refreshed(t, first.Refresh).Token)
		spent(t, f, in.Refresh) // two steps behind by now, however quickly
		f.Refused(t, second.Token)
	})
}

// Of any number of simultaneous requests with one token, on several nodes, one gets its successor.
func TestRefreshRace(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		other := f.Another(t)
		in := f.SignedIn(t)
		const requests = 12
		results := make([]signin.SignIn, requests)
		errs := make([]error, requests)
		var all sync.WaitGroup
		for n := range requests {
			node := []identitytest.World{f, other}[n%2]
			all.Go(func() { results[n], errs[n] = node.SignIn.Refresh(t.Context(), identitytest.Client(), in.Refresh) })
		}
		all.Wait()
		var successors []signin.RefreshToken
		for n := range requests {
			require.NoError(t, errs[n])
			f.Bearer(t, results[n].Token)
			if results[n].Refresh != "" {
				successors = append(successors, results[n].Refresh)
			}
		}
		require.Len(t, successors, 1)
		f.Refreshed(t, successors[0])
	})
}

// A person without a token of a session can neither refresh nor end it, even if they know its id.
func TestRefreshForgery(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		genuine := in.Refresh.Reveal()
		foreign := signin.NewRefreshToken().Reveal()
		b, err := base64.RawURLEncoding.DecodeString(genuine)
		require.NoError(t, err)
		otherFamily, _, _ := signin.ParseRefreshToken(signin.NewRefreshToken())
		swapped := append(otherFamily, b[signin.FamilyBytes:]...)
		for name, token := range map[string]string{
			"none": "", "random": foreign, "the session's id": in.Session.ID,
			"another family": base64.RawURLEncoding.EncodeToString(swapped), "cut": genuine[:len(genuine)-1], "longer": genuine +
				"A", "with a line break": genuine[:10] + "\n" + genuine[11:], "two cookies": genuine + "," + genuine,
			"no base64": strings.Repeat("~", len(genuine)), "NUL": strings.Repeat("\x00", len(genuine)),
			"quoted": `"` + genuine[:len(genuine)-2] + `"`, "an access token": in.Token.Reveal(),
		} {
			_, err := f.SignIn.Refresh(t.Context(), identitytest.Client(), secretbox.Secret(token))
			var e *apperr.Error
			require.ErrorAs(t, err, &e, name)
			require.Equal(t, apperr.CodeUnauthorized, e.Code, name)
			require.Equal(t, "The credential is missing or not valid", e.Message, name)
			_, _, wellFormed := signin.ParseRefreshToken(secretbox.Secret(token))
			err = f.SignIn.Logout(t.Context(), identitytest.Client(), secretbox.Secret(token), "")
			require.Equal(t, !wellFormed, apperr.Is(err, apperr.CodeUnauthorized), name)
		}
		f.Bearer(t, in.Token)
		f.Refreshed(t, in.Refresh)
		require.NotContains(t, f.Actions(t), "session.replay")
	})
}

// A session ends after two weeks without use, and after thirty days however much it is used, access tokens included.
func TestSessionEndsInTime(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		idle := f.SignedIn(t)
		require.Equal(t, clock.Millis(f.Clock.Now().Add(signin.SessionIdle)), idle.Session.EndsMillis())
		used := f.SignedIn(t)
		f.Clock.Advance(signin.SessionIdle - time.Millisecond)
		used = f.Refreshed(t, used.Refresh)
		f.Clock.Advance(time.Millisecond)
		spent(t, f, idle.Refresh)
		require.Len(t, f.SessionsOf(t, f.Bearer(t, used.Token)), 1)

		f.Clock.Advance(signin.SessionIdle - time.Second)
		used = f.Refreshed(t, used.Refresh)
		f.Clock.Advance(signin.SessionLifetime - 2*signin.SessionIdle + time.Second - time.Minute)
		used = f.Refreshed(t, used.Refresh)
		require.Equal(t, clock.Millis(f.Clock.Now().Add(time.Minute)), used.Session.EndsMillis())
		f.Clock.Advance(time.Minute - time.Millisecond)
		f.Bearer(t, used.Token)
		f.Clock.Advance(time.Millisecond)
		f.Refused(t, used.Token)
		spent(t, f, used.Refresh)
	})
}

// Signing out ends the session on every node with the next request, its access tokens and its refresh token, and no
// other session. So does ending it by its id.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		node := f.Another(t)
		kept := f.SignedIn(t)
		actor := f.Bearer(t, kept.Token)
		old := f.SignedIn(t)
		for name, end := range map[string]func(in signin.SignIn) error{
			"logout": func(in signin.SignIn) error {
				return node.SignIn.Logout(t.Context(), identitytest.Client(), in.Refresh, "")
			},
			"logout, token used": func(in signin.SignIn) error {
				f.Refreshed(t, in.Refresh)
				return node.SignIn.Logout(t.Context(), identitytest.Client(), in.Refresh, "")
			},
			"by id": func(in signin.SignIn) error { return node.SignIn.EndSession(t.Context(), actor, in.Session.ID) },
			"by id, from itself": func(in signin.SignIn) error {
				return node.SignIn.EndSession(t.Context(), f.Bearer(t, in.Token), in.Session.ID)
			},
			"signing in after it": func(in signin.SignIn) error {
				_, err := node.SignIn.Login(t.Context(), identitytest.Client(), signin.Credentials{Email: identitytest.Email,
					Password: identitytest.Password}, in.Refresh)
				return err
			},
		} {
			in := f.SignedIn(t)
			f.Bearer(t, in.Token)
			require.NoError(t, end(in), name)
			f.Refused(t, in.Token)
			spent(t, f, in.Refresh)
			require.Contains(t, f.Actions(t), "session.end", name)
			require.True(t, apperr.Is(f.SignIn.EndSession(t.Context(), actor, in.Session.ID), apperr.CodeNotFound), name)
			require.NoError(t, f.SignIn.Logout(t.Context(), identitytest.Client(), in.Refresh, ""), name)
		}
		f.Bearer(t, kept.Token)
		f.Bearer(t, old.Token)
	})
}

// Each sign-in starts a session of its own with tokens of its own: nothing that a client brings along decides them.
func TestSessionIsNeverTakenOver(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		planted := signin.NewRefreshToken()
		in, err := f.SignIn.Login(t.Context(), identitytest.Client(), signin.Credentials{Email: identitytest.Email,
			Password: identitytest.Password}, planted)
		require.NoError(t, err)
		require.NotEqual(t, planted, in.Refresh)
		spent(t, f, planted)
		again, err := f.SignIn.Login(t.Context(), identitytest.Client(), signin.Credentials{Email: identitytest.Email,
			Password: identitytest.Password}, in.Refresh)
		require.NoError(t, err)
		require.NotEqual(t, in.Session.ID, again.Session.ID)
		require.NotEqual(t, in.Refresh.Reveal()[:21], again.Refresh.Reveal()[:21], "the part that stays is another one too")
	})
}

// Users see their own sessions, in pages, and can end no others'.
func TestSessionsAreTheUsersOwn(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		_, err := f.Setup.CreateOwner(t.Context(), access.System("cli"), "", "grace@example.test", identitytest.Password)
		require.NoError(t, err)
		mine := f.SignedIn(t)
		f.Clock.Advance(time.Second)
		grace, err := f.SignIn.Login(t.Context(), access.Client{IP: "2001:db8::7", UserAgent: "a\x00\n" +
			strings.Repeat("ü", 300) +
			"\xff"}, signin.Credentials{Email: "grace@example.test", Password: identitytest.Password}, "")
		require.NoError(t, err)
		hers := f.Bearer(t, grace.Token)
		list := f.SessionsOf(t, hers)
		require.Equal(t, []signin.Session{grace.Session}, list)
		require.Equal(t, "2001:db8::7", list[0].IP)
		require.Equal(t, "a"+strings.Repeat("ü", 127), list[0].UserAgent)
		require.True(t, apperr.Is(f.SignIn.EndSession(t.Context(), hers, mine.Session.ID), apperr.CodeNotFound))
		for _, odd := range []string{"", "ses_", "ses_\x00", id.New(id.PrefixSession), id.New(id.PrefixUser)} {
			require.True(t, apperr.Is(f.SignIn.EndSession(t.Context(), hers, odd), apperr.CodeNotFound), odd)
		}
		actor := f.Bearer(t, mine.Token)
		second := f.SignedIn(t)
		first, err := f.SignIn.ListSessions(t.Context(), actor, page.Request{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, []string{second.Session.ID, mine.Session.ID}, []string{first[0].ID, first[1].ID},
			"one more than the page")
		rest, err := f.SignIn.ListSessions(t.Context(), actor, page.Request{Limit: 1, After: first[0].ID})
		require.NoError(t, err)
		require.Equal(t, mine.Session.ID, rest[0].ID)
		_, err = f.SignIn.ListSessions(t.Context(), access.System("cli"), page.Request{Limit: 1})
		require.ErrorIs(t, err, team.ErrActor)
	})
}

// A script that signs in for ever fills nothing, and what is over is removed.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		unused := f.SignedIn(t)
		for range signin.MaxSessions {
			f.Clock.Advance(time.Millisecond)
			f.SignedIn(t)
		}
		require.Equal(t, signin.MaxSessions, f.Count(t, "sessions"))
		f.Refused(t, unused.Token)
		f.Clock.Advance(signin.SessionLifetime)
		for range 12 {
			f.SignedIn(t)
		}
		require.Equal(t, 12, f.Count(t, "sessions"))
	})
}

// A member who was removed gets no further token, and their refresh token is not taken for a stolen one.
func TestRefreshOfRemovedMember(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		f.Exec(t, "DELETE FROM memberships")
		spent(t, f, in.Refresh)
		f.Refused(t, in.Token)
	})
}

// A token for a user of one team is invalid for another team, regardless of its claims: they are compared with its
// session.
func TestTokenOfAnotherTeam(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		_, p := f.Owner(t)
		stranger, _, _ := f.Foreign(t)
		in := f.SignedIn(t)
		keys, err := f.AccessTokens.Keys(t.Context())
		require.NoError(t, err)
		sign := func(user string, team id.Team, session string) secretbox.Secret {
			token, err := keys.Sign(f.Clock.Now(), accesstokens.Subject{User: user, Team: team, Session: session,
				AuthMillis: in.Session.AuthMillis, Methods: in.Session.Methods()})
			require.NoError(t, err)
			return secretbox.Secret(token)
		}
		f.Bearer(t, sign(p.User.ID, p.Team.ID, in.Session.ID))
		f.Refused(t, sign(p.User.ID, stranger.Team, in.Session.ID))
		f.Refused(t, sign(stranger.ID, p.Team.ID, in.Session.ID))
		f.Refused(t, sign(stranger.ID, stranger.Team, in.Session.ID))
		f.Refused(t, sign(p.User.ID, p.Team.ID, id.New(id.PrefixSession)))
	})
}

// Made-up refresh tokens are refused while the database has a writer: they wait for none, and so keep no one waiting.
func TestMadeUpRefreshTokensTakeNoWriter(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		var refreshed, signedOut error
		require.NoError(t, f.Store.DB.Tx(t.Context(), func(*sql.Tx) error {
			_, refreshed = f.SignIn.Refresh(t.Context(), identitytest.Client(), signin.NewRefreshToken())
			signedOut = f.SignIn.Logout(t.Context(), identitytest.Client(), signin.NewRefreshToken(), "")
			return nil
		}))
		require.True(t, apperr.Is(refreshed, apperr.CodeUnauthorized), "%v", refreshed)
		require.NoError(t, signedOut)
	})
}
