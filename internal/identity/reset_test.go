package identity

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// postbox keeps the letters that it is given, as if their transactions were always committed.
type postbox struct {
	off      bool
	mu       sync.Mutex
	letters  []Letter
	recalled []string
}

func (p *postbox) Enabled() bool { return !p.off }

func (p *postbox) Post(_ context.Context, _ *sql.Tx, l Letter) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.letters = append(p.letters, l)
	return nil
}

func (p *postbox) Recall(_ context.Context, _ *sql.Tx, about string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recalled = append(p.recalled, about)
	return nil
}

// withPost gives the fixture a postbox.
func (f fixture) withPost() *postbox {
	p := &postbox{}
	f.MailBy(p)
	return p
}

// asked asks for a link and returns the token that was mailed; empty where no mail was.
func (f fixture) asked(t *testing.T, p *postbox, c access.Client, email string) ResetToken {
	t.Helper()
	before := len(p.letters)
	require.NoError(t, f.RequestReset(t.Context(), c, email))
	require.Len(t, p.letters, before, "nobody waits for a mail to be written")
	f.answered(t)
	if len(p.letters) == before {
		return ""
	}
	require.Len(t, p.letters, before+1)
	found := regexp.MustCompile(regexp.QuoteMeta(testIssuer) + `/password-reset#(spr_[0-9a-z]{26})\n`).FindStringSubmatch(
		p.letters[before].Text)
	require.NotNil(t, found, p.letters[before].Text)
	return ResetToken(found[1])
}

func (f fixture) answered(t *testing.T) {
	t.Helper()
	_, err := f.AnswerResets(t.Context())
	require.NoError(t, err)
	require.Zero(t, f.count(t, "password_reset_requests"))
}

const resetPassword = testPassword + " anew"

// Whoever can read the mailbox of an account chooses another password, once; every session ends, every other link of
// the account is worth nothing, and the trail says who asked from where.
func TestReset(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.withPost()
		_, owner := f.owner(t)
		in := f.signedIn(t)
		first := f.asked(t, p, stranger(1), strings.ToUpper(testEmail))
		second := f.asked(t, p, stranger(1), testEmail)
		require.Equal(t, testEmail, p.letters[0].To)
		require.Equal(t, f.clk.Now().Add(ResetLifetime), p.letters[0].Expires)
		require.NoError(t, f.CompleteReset(t.Context(), testClient(), first, resetPassword))
		f.refused(t, in.Token)
		_, err := f.signIn(t, testEmail, testPassword)
		require.True(t, apperr.Is(err, apperr.CodeUnauthorized))
		_, err = f.signIn(t, testEmail, resetPassword)
		require.NoError(t, err)
		for _, token := range []ResetToken{first, second} {
			require.Equal(t, apperr.Unauthorized(errResetToken), f.CompleteReset(t.Context(), testClient(), token, testPassword+
				" again"))
		}
		require.Zero(t, f.count(t, "password_resets"))
		require.Equal(t, []string{owner.User.ID}, p.recalled, "mails that have not left would tell of nothing")
		var actions []string
		for _, e := range f.trail(t) {
			if strings.Contains(e.action, "password") {
				actions = append(actions, e.action+" by "+e.actor)
			}
		}
		require.Equal(t, []string{"user.request_password_reset by password reset",
			"user.request_password_reset by password reset", "user.reset_password by " + owner.User.ID}, actions)
	})
}

// Asking for a link does the same for an address with an account as for one without: the same answer, no Argon2, the
// same rows. That there is an account only its mailbox learns.
func TestResetTellsNobody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.withPost()
		f.owner(t)
		hashes := f.hashes.Load()
		var written [][3]int
		for i, email := range []string{testEmail, "nobody@example.test"} {
			failures, trail := f.count(t, "sign_in_failures"), f.count(t, "audit_events")
			require.NoError(t, f.RequestReset(t.Context(), stranger(i), email))
			written = append(written, [3]int{f.count(t, "password_reset_requests"), f.count(t, "sign_in_failures") - failures,
				f.count(t, "audit_events") - trail})
			require.Zero(t, f.count(t, "password_resets"))
			require.Empty(t, p.letters)
			f.exec(t, "DELETE FROM password_reset_requests")
		}
		require.Equal(t, written[0], written[1])
		require.Equal(t, [3]int{1, 2, 0}, written[0])
		require.Equal(t, hashes, f.hashes.Load())
		require.Empty(t, f.asked(t, p, stranger(3), "nobody@example.test"))
		var hash string
		require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(), "SELECT password_hash FROM users").Scan(&hash))
		f.exec(t, "UPDATE users SET password_hash = $1", unknownUser().String())
		require.Empty(t, f.asked(t, p, stranger(5), testEmail),
			"who comes in by an identity provider has no password to reset")
		f.exec(t, "UPDATE users SET password_hash = $1", hash)
		require.NotEmpty(t, f.asked(t, p, stranger(6), testEmail))
		f.exec(t, "UPDATE memberships SET disabled_ms = 1")
		require.Empty(t, f.asked(t, p, stranger(7), testEmail), "who is disabled has nothing to sign in to")
		f.exec(t, "DELETE FROM memberships")
		require.Empty(t, f.asked(t, p, stranger(4), testEmail), "who has left the team has nothing to sign in to")
	})
}

// What a stranger typed as an address is not readable in the database, and is gone with the answer.
func TestResetRequestIsSealed(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		f.withPost()
		require.NoError(t, f.RequestReset(t.Context(), testClient(), "my-secret@example.test"))
		var sealed []byte
		require.NoError(t, f.store.DB.Read().QueryRowContext(t.Context(), "SELECT request FROM password_reset_requests").Scan(
			&sealed))
		require.NotContains(t, string(sealed), "my-secret")
		f.answered(t)
	})
}

// Nobody's mailbox can be filled from here, an address cannot ask for all of a team, and who asked too often waits;
// none of it keeps anybody from signing in.
func TestResetIsThrottled(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.withPost()
		f.owner(t)
		for range maxResets + 2 {
			f.asked(t, p, stranger(1), testEmail)
		}
		require.Len(t, p.letters, maxResets)
		limited := func(err error) {
			t.Helper()
			var e *apperr.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, apperr.CodeRateLimited, e.Code)
			require.Equal(t, "Too many attempts; try again later", e.Message)
		}
		for n := range freeAccountFailures {
			_ = f.RequestReset(t.Context(), stranger(n+10), testEmail) // from everywhere
		}
		limited(f.RequestReset(t.Context(), stranger(100), testEmail))
		limited(f.RequestReset(t.Context(), stranger(101), strings.ToUpper(testEmail)))
		for n := range freeAddressFailures + 1 {
			_ = f.RequestReset(t.Context(), stranger(200), fmt.Sprintf("user%d@example.test", n))
		}
		limited(f.RequestReset(t.Context(), stranger(200), "user100@example.test"))
		_, err := f.Login(t.Context(), stranger(200), Credentials{Email: testEmail, Password: testPassword}, "")
		require.NoError(t, err)
		f.answered(t)
		f.clk.Advance(ResetLifetime)
		require.NotEmpty(t, f.asked(t, p, stranger(2), testEmail), "a mail an hour later")
		require.Equal(t, 1, f.count(t, "password_resets"), "what is over goes")
	})
}

// A token that was never made, is over, was used, or is for another purpose gets one answer and costs no Argon2; many
// of them from one address have to wait.
func TestResetTokens(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		setup := f.opened(t)
		p := f.withPost()
		f.owner(t)
		in := f.signedIn(t)
		over := f.asked(t, p, stranger(1), testEmail)
		f.clk.Advance(ResetLifetime)
		changed := f.asked(t, p, stranger(1), testEmail)
		require.NoError(t, f.ResetPassword(t.Context(), access.System("cli"), testEmail, testPassword+" by hand"))
		good := f.asked(t, p, stranger(1), testEmail)
		hashes := f.hashes.Load()
		refused := func(n int, token ResetToken) {
			t.Helper()
			require.Equal(t, apperr.Unauthorized(errResetToken), f.CompleteReset(t.Context(), stranger(n), token, resetPassword))
		}
		for name, token := range map[string]ResetToken{
			"never made": ResetToken(id.NewRandom(id.PrefixResetToken)), "over": over, "another password since": changed,
			"a set-up token": setup, "a refresh token": in.Refresh, "no token": "x", "cut": good[:len(good)-1],
			"in capitals": ResetToken(strings.ToUpper(good.Reveal())), "of another purpose": ResetToken("spi_" +
				good.Reveal()[4:]),
		} {
			t.Log(name)
			refused(2, token)
		}
		for range freeAddressFailures {
			_ = f.CompleteReset(t.Context(), stranger(3), ResetToken(id.NewRandom(id.PrefixResetToken)), resetPassword)
		}
		refused(3, "x")
		require.True(t, apperr.Is(f.CompleteReset(t.Context(), stranger(3), good, resetPassword), apperr.CodeRateLimited))
		require.Equal(t, hashes, f.hashes.Load())
		require.True(t, apperr.Is(f.CompleteReset(t.Context(), stranger(4), good, testEmail), apperr.CodeValidation),
			"not the address")
		require.True(t, apperr.Is(f.CompleteReset(t.Context(), stranger(4), good, "short"), apperr.CodeValidation))
		require.NoError(t, f.CompleteReset(t.Context(), stranger(4), good, resetPassword),
			"a password that breaks a rule uses nothing up")
	})
}

// Of several uses of one token at a time, on several nodes, one sets a password.
func TestResetRace(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		p := f.withPost()
		f.owner(t)
		token := f.asked(t, p, stranger(1), testEmail)
		other := f.another(t)
		require.NoError(t, other.Init(t.Context(), false))
		other.MailBy(p)
		var done atomic.Int64
		var all sync.WaitGroup
		for n := range 8 {
			node := []*Service{f.Service, other}[n%2]
			all.Go(func() {
				if node.CompleteReset(t.Context(), stranger(n), token, resetPassword) == nil {
					done.Add(1)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, done.Load())
	})
}

// Without a mail server nobody waits for a mail that will never come.
func TestResetWithoutMail(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		require.True(t, apperr.Is(f.RequestReset(t.Context(), testClient(), testEmail), apperr.CodeMailNotConfigured))
		f.withPost().off = true
		require.True(t, apperr.Is(f.RequestReset(t.Context(), testClient(), testEmail), apperr.CodeMailNotConfigured))
		require.Zero(t, f.count(t, "sign_in_failures"))

		p := f.withPost()
		f.owner(t)
		require.NoError(t, f.RequestReset(t.Context(), testClient(), testEmail))
		p.off = true
		_, err := f.AnswerResets(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, f.count(t, "password_reset_requests"), "another node may have one")
		f.clk.Advance(ResetLifetime)
		p.off = false
		f.answered(t)
		require.Empty(t, p.letters, "nobody waits for a mail for an hour")
	})
}
