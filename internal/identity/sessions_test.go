package identity

import (
	"database/sql"
	"encoding/base64"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
)

func (f fixture) refresh(t *testing.T, token RefreshToken) SignIn {
	t.Helper()
	in, err := f.Refresh(t.Context(), testClient(), token)
	require.NoError(t, err)
	return in
}

// spent requires that a refresh token gets nothing.
func (f fixture) spent(t *testing.T, token RefreshToken) {
	t.Helper()
	_, err := f.Refresh(t.Context(), testClient(), token)
	require.True(t, apperr.Is(err, apperr.CodeUnauthorized), err)
}

func (f fixture) actions(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, e := range f.trail(t) {
		out = append(out, e.action)
	}
	return out
}

// sessions returns the user's sessions, newest first.
func (f fixture) sessions(t *testing.T, actor access.Principal) []Session {
	t.Helper()
	list, err := f.ListSessions(t.Context(), actor, page.Request{Limit: page.MaxLimit})
	require.NoError(t, err)
	return list
}

// Each refresh gives another token and keeps the session: its id, its user and when they gave their password. No token
// is in the database as it is sent.
func TestRefreshRotates(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		in := f.signedIn(t)
		seen := map[RefreshToken]bool{in.Refresh: true}
		for range 4 {
			f.clk.Advance(TokenLifetime)
			next := f.refresh(t, in.Refresh)
			require.False(t, seen[next.Refresh])
			seen[next.Refresh] = true
			require.Equal(t, p, next.Profile)
			require.Equal(t, in.Session.ID, next.Session.ID)
			require.Equal(t, in.Session.AuthMillis, next.Session.AuthMillis)
			require.Equal(t, clock.Millis(f.clk.Now()), next.Session.UsedMillis)
			require.Equal(t, in.Session.ID, f.bearer(t, next.Token).Session)
			in = next
		}
		var family, token, previous []byte
		require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(),
			"SELECT family_mac, token_mac, previous_mac FROM sessions").
			Scan(&family, &token, &previous))
		for sent := range seen {
			parsed, ok := parseRefreshToken(sent)
			require.True(t, ok)
			for _, stored := range [][]byte{family, token, previous} {
				require.NotContains(t, string(stored), string(parsed.family))
				require.NotContains(t, string(stored), string(parsed.rotated))
			}
		}
	})
}

// A store that fails during a refresh costs nobody their session: the token that was sent works once more.
func TestRefreshFailsWhole(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		in := f.signedIn(t)
		for _, table := range []string{"environments", "signing_keys"} {
			f.clk.Advance(signingKeyCache)
			f.exec(t, "ALTER TABLE "+table+" RENAME TO mislaid")
			_, err := f.Refresh(t.Context(), testClient(), in.Refresh)
			require.Error(t, err, table)
			require.False(t, apperr.Is(err, apperr.CodeUnauthorized), table)
			f.exec(t, "ALTER TABLE mislaid RENAME TO "+table)
			f.clk.Advance(RefreshGrace + time.Second)
			next := f.refresh(t, in.Refresh)
			require.NotEmpty(t, next.Refresh, table)
			in = next
		}
	})
}

// A token that is used again ends the session for everybody who has one of its tokens, thief and user alike, and is in
// the trail as denied.
func TestRefreshReplay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		for name, uses := range map[string]int{"the token before": 1, "a token of long ago": 3} {
			in := f.signedIn(t)
			other := f.signedIn(t)
			latest := in
			for range uses {
				latest = f.refresh(t, latest.Refresh)
				f.clk.Advance(RefreshGrace + time.Millisecond)
			}
			f.bearer(t, latest.Token)
			f.spent(t, in.Refresh)
			f.refused(t, latest.Token)
			f.spent(t, latest.Refresh)
			f.bearer(t, other.Token)
			trail := f.trail(t)
			last := trail[len(trail)-1]
			require.Equal(t, "session.replay", last.action, name)
			require.Equal(t, in.Session.ID, last.target)
			require.Equal(t, in.User.ID, last.actor)
			var outcome, ip, request string
			require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(),
				"SELECT outcome, ip, request_id FROM audit_events WHERE target_id = $1 AND action = 'session.replay'",
				in.Session.ID).
				Scan(&outcome, &ip, &request))
			require.Equal(t, []string{"denied", "192.0.2.17", "request-1"}, []string{outcome, ip, request})
			f.spent(t, in.Refresh)
			require.Len(t, f.trail(t), len(trail), "what has ended ends once")
		}
	})
}

// Two windows that refresh with one token at the same moment both go on. The second gets no token of its own: a thief
// who is as quick has nothing to go on with.
func TestRefreshGrace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		in := f.signedIn(t)
		first := f.refresh(t, in.Refresh)
		f.clk.Advance(RefreshGrace)
		second := f.refresh(t, in.Refresh)
		require.Empty(t, second.Refresh)
		require.Equal(t, in.Session.ID, f.bearer(t, second.Token).Session)
		f.bearer(t, f.refresh(t, first.Refresh).Token)
		f.spent(t, in.Refresh) // two steps behind by now, however quickly
		f.refused(t, second.Token)
	})
}

// However many requests bring the same token at once, on several nodes, one of them gets its successor.
func TestRefreshRace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		other := f.another(t)
		require.NoError(t, other.Init(t.Context(), false))
		in := f.signedIn(t)
		const requests = 12
		results := make([]SignIn, requests)
		errs := make([]error, requests)
		var all sync.WaitGroup
		for n := range requests {
			node := []*Service{f.Service, other}[n%2]
			all.Go(func() { results[n], errs[n] = node.Refresh(t.Context(), testClient(), in.Refresh) })
		}
		all.Wait()
		var successors []RefreshToken
		for n := range requests {
			require.NoError(t, errs[n])
			f.bearer(t, results[n].Token)
			if results[n].Refresh != "" {
				successors = append(successors, results[n].Refresh)
			}
		}
		require.Len(t, successors, 1)
		f.refresh(t, successors[0])
	})
}

// Whoever has not had a token of a session can neither refresh nor end it, also when they know its id.
func TestRefreshForgery(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		in := f.signedIn(t)
		genuine := in.Refresh.Reveal()
		foreign := newRefreshToken().encode().Reveal()
		b, err := base64.RawURLEncoding.DecodeString(genuine)
		require.NoError(t, err)
		swapped := append(append([]byte{}, newRefreshToken().family...), b[familyBytes:]...)
		for name, token := range map[string]string{
			"none": "", "random": foreign, "the session's id": in.Session.ID,
			"another family": base64.RawURLEncoding.EncodeToString(swapped), "cut": genuine[:len(genuine)-1], "longer": genuine +
				"A", "with a line break": genuine[:10] + "\n" + genuine[11:], "two cookies": genuine + "," + genuine,
			"no base64": strings.Repeat("~", len(genuine)), "NUL": strings.Repeat("\x00", len(genuine)),
			"quoted": `"` + genuine[:len(genuine)-2] + `"`, "an access token": in.Token.Reveal(),
		} {
			_, err := f.Refresh(t.Context(), testClient(), secretbox.Secret(token))
			var e *apperr.Error
			require.ErrorAs(t, err, &e, name)
			require.Equal(t, apperr.CodeUnauthorized, e.Code, name)
			require.Equal(t, "The credential is missing or not valid", e.Message, name)
			_, wellFormed := parseRefreshToken(secretbox.Secret(token))
			err = f.Logout(t.Context(), testClient(), secretbox.Secret(token), "")
			require.Equal(t, !wellFormed, apperr.Is(err, apperr.CodeUnauthorized), name)
		}
		f.bearer(t, in.Token)
		f.refresh(t, in.Refresh)
		require.NotContains(t, f.actions(t), "session.replay")
	})
}

// A token of the right form is read as what was written, and nothing else is.
func TestRefreshTokenForm(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := newRefreshToken().encode().Reveal()
		parsed, ok := parseRefreshToken(secretbox.Secret(text))
		require.True(t, ok)
		require.Equal(t, text, parsed.encode().Reveal())
		if other, ok := parseRefreshToken(secretbox.Secret(rapid.String().Draw(t, "text"))); ok {
			require.Len(t, other.family, familyBytes)
			require.Len(t, other.rotated, rotatedBytes)
		}
	})
}

// A session ends after two weeks without use, and after thirty days however much it is used, access tokens included.
func TestSessionEndsInTime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		idle := f.signedIn(t)
		require.Equal(t, clock.Millis(f.clk.Now().Add(SessionIdle)), idle.Session.EndsMillis())
		used := f.signedIn(t)
		f.clk.Advance(SessionIdle - time.Millisecond)
		used = f.refresh(t, used.Refresh)
		f.clk.Advance(time.Millisecond)
		f.spent(t, idle.Refresh)
		require.Len(t, f.sessions(t, f.bearer(t, used.Token)), 1)

		f.clk.Advance(SessionIdle - time.Second)
		used = f.refresh(t, used.Refresh)
		f.clk.Advance(SessionLifetime - 2*SessionIdle + time.Second - time.Minute)
		used = f.refresh(t, used.Refresh)
		require.Equal(t, clock.Millis(f.clk.Now().Add(time.Minute)), used.Session.EndsMillis())
		f.clk.Advance(time.Minute - time.Millisecond)
		f.bearer(t, used.Token)
		f.clk.Advance(time.Millisecond)
		f.refused(t, used.Token)
		f.spent(t, used.Refresh)
	})
}

// Signing out ends the session on every node with the next request, its access tokens and its refresh token, and no
// other session. So does ending it by its id.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		node := f.another(t)
		require.NoError(t, node.Init(t.Context(), false))
		kept := f.signedIn(t)
		actor := f.bearer(t, kept.Token)
		old := f.signedIn(t)
		for name, end := range map[string]func(in SignIn) error{
			"logout": func(in SignIn) error { return node.Logout(t.Context(), testClient(), in.Refresh, "") },
			"logout, token used": func(in SignIn) error {
				f.refresh(t, in.Refresh)
				return node.Logout(t.Context(), testClient(), in.Refresh, "")
			},
			"by id": func(in SignIn) error { return node.EndSession(t.Context(), actor, in.Session.ID) },
			"by id, from itself": func(in SignIn) error {
				return node.EndSession(t.Context(), f.bearer(t, in.Token), in.Session.ID)
			},
			"signing in after it": func(in SignIn) error {
				_, err := node.Login(t.Context(), testClient(), Credentials{Email: testEmail, Password: testPassword}, in.Refresh)
				return err
			},
		} {
			in := f.signedIn(t)
			f.bearer(t, in.Token)
			require.NoError(t, end(in), name)
			f.refused(t, in.Token)
			f.spent(t, in.Refresh)
			require.Contains(t, f.actions(t), "session.end", name)
			require.True(t, apperr.Is(f.EndSession(t.Context(), actor, in.Session.ID), apperr.CodeNotFound), name)
			require.NoError(t, f.Logout(t.Context(), testClient(), in.Refresh, ""), name)
		}
		f.bearer(t, kept.Token)
		f.bearer(t, old.Token)
	})
}

// Each sign-in starts a session of its own with tokens of its own: nothing that a client brings along decides them.
func TestSessionIsNeverTakenOver(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		planted := newRefreshToken().encode()
		in, err := f.Login(t.Context(), testClient(), Credentials{Email: testEmail, Password: testPassword}, planted)
		require.NoError(t, err)
		require.NotEqual(t, planted, in.Refresh)
		f.spent(t, planted)
		again, err := f.Login(t.Context(), testClient(), Credentials{Email: testEmail, Password: testPassword}, in.Refresh)
		require.NoError(t, err)
		require.NotEqual(t, in.Session.ID, again.Session.ID)
		require.NotEqual(t, in.Refresh.Reveal()[:21], again.Refresh.Reveal()[:21], "the part that stays is another one too")
	})
}

// Users see their own sessions, in pages, and can end no others'.
func TestSessionsAreTheUsersOwn(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		_, err := f.CreateOwner(t.Context(), access.System("cli"), "", "grace@example.test", testPassword)
		require.NoError(t, err)
		mine := f.signedIn(t)
		f.clk.Advance(time.Second)
		grace, err := f.Login(t.Context(), access.Client{IP: "2001:db8::7", UserAgent: "a\x00\n" + strings.Repeat("ü", 300) +
			"\xff"}, Credentials{Email: "grace@example.test", Password: testPassword}, "")
		require.NoError(t, err)
		hers := f.bearer(t, grace.Token)
		list := f.sessions(t, hers)
		require.Equal(t, []Session{grace.Session}, list)
		require.Equal(t, "2001:db8::7", list[0].IP)
		require.Equal(t, "a"+strings.Repeat("ü", 127), list[0].UserAgent)
		require.True(t, apperr.Is(f.EndSession(t.Context(), hers, mine.Session.ID), apperr.CodeNotFound))
		for _, odd := range []string{"", "ses_", "ses_\x00", id.New(id.PrefixSession), id.New(id.PrefixUser)} {
			require.True(t, apperr.Is(f.EndSession(t.Context(), hers, odd), apperr.CodeNotFound), odd)
		}
		actor := f.bearer(t, mine.Token)
		second := f.signedIn(t)
		first, err := f.ListSessions(t.Context(), actor, page.Request{Limit: 1})
		require.NoError(t, err)
		require.Equal(t, []string{second.Session.ID, mine.Session.ID}, []string{first[0].ID, first[1].ID},
			"one more than the page")
		rest, err := f.ListSessions(t.Context(), actor, page.Request{Limit: 1, After: first[0].ID})
		require.NoError(t, err)
		require.Equal(t, mine.Session.ID, rest[0].ID)
		_, err = f.ListSessions(t.Context(), access.System("cli"), page.Request{Limit: 1})
		require.ErrorIs(t, err, errActor)
	})
}

// A script that signs in for ever fills nothing, and what is over is removed.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		unused := f.signedIn(t)
		for range maxSessions {
			f.clk.Advance(time.Millisecond)
			f.signedIn(t)
		}
		require.Equal(t, maxSessions, f.count(t, "sessions"))
		f.refused(t, unused.Token)
		f.clk.Advance(SessionLifetime)
		for range 12 {
			f.signedIn(t)
		}
		require.Equal(t, 12, f.count(t, "sessions"))
	})
}

// A member who was removed gets no further token, and their refresh token is not taken for a stolen one.
func TestRefreshOfRemovedMember(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		in := f.signedIn(t)
		f.exec(t, "DELETE FROM memberships")
		f.spent(t, in.Refresh)
		f.refused(t, in.Token)
	})
}

// A token for a user of one team is none for another team, whatever it says: what it says is held against its session.
func TestTokenOfAnotherTeam(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		_, p := f.owner(t)
		stranger, _, _ := f.foreign(t)
		in := f.signedIn(t)
		keys, err := f.tokens(t.Context())
		require.NoError(t, err)
		sign := func(user string, team id.Team, session string) secretbox.Secret {
			s := in.Session
			s.ID = session
			token, err := keys.sign(f.clk.Now(), subject{user: user, team: team, session: s})
			require.NoError(t, err)
			return secretbox.Secret(token)
		}
		f.bearer(t, sign(p.User.ID, p.Team.ID, in.Session.ID))
		f.refused(t, sign(p.User.ID, stranger.Team, in.Session.ID))
		f.refused(t, sign(stranger.ID, p.Team.ID, in.Session.ID))
		f.refused(t, sign(stranger.ID, stranger.Team, in.Session.ID))
		f.refused(t, sign(p.User.ID, p.Team.ID, id.New(id.PrefixSession)))
	})
}

// Refresh tokens that somebody makes up are refused while the database has a writer: they wait for none, and so keep
// none waiting.
func TestMadeUpRefreshTokensTakeNoWriter(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.owner(t)
		var refreshed, signedOut error
		require.NoError(t, f.store.DB.Tx(t.Context(), func(*sql.Tx) error {
			_, refreshed = f.Refresh(t.Context(), testClient(), newRefreshToken().encode())
			signedOut = f.Logout(t.Context(), testClient(), newRefreshToken().encode(), "")
			return nil
		}))
		require.True(t, apperr.Is(refreshed, apperr.CodeUnauthorized), "%v", refreshed)
		require.NoError(t, signedOut)
	})
}
