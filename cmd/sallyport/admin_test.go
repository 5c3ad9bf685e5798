package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/clock"
)

// Owners can sign in with what was read from standard input, at a server that was running all along; a reset replaces
// the password and refuses the old one.
func TestAdminNextToServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.do(t, "keyset", "create")
		in.do(t, "migrate")
		s := in.serve(t, clock.System())
		login := func(email, password string) int {
			status, _ := s.ask(t, http.MethodPost, "/api/v1/team/login", "", map[string]any{"email": email,
				"password": password})
			return status
		}
		admin := func(stdin string, args ...string) result {
			return in.call(t, command{stdin: stdin, args: append([]string{"admin"}, args...)})
		}
		require.Equal(t, http.StatusUnauthorized, login(ownerEmail, ownerPassword))
		// Only the first line counts, with any line ending.
		r := admin(ownerPassword+"\r\nsecond line\n", "create", "--email", ownerEmail, "--team", "Analytical Engines")
		require.Equal(t, exitOK, r.code, r.stderr)
		for _, word := range []string{"usr_", ownerEmail, "Analytical Engines", "development", "production"} {
			require.Contains(t, r.out, word)
		}
		require.Equal(t, http.StatusOK, login(ownerEmail, ownerPassword))

		r = admin("another long password", "create", "--email", "grace@example.test")
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Contains(t, r.out, "Analytical Engines")
		require.Equal(t, http.StatusOK, login("grace@example.test", "another long password"))

		r = admin("replacement password", "reset-password", "--email", ownerEmail)
		require.Equal(t, exitOK, r.code, r.stderr)
		require.Equal(t, http.StatusUnauthorized, login(ownerEmail, ownerPassword))
		require.Equal(t, http.StatusOK, login(ownerEmail, "replacement password"))

		for _, c := range []struct {
			stdin string
			args  []string
			code  int
			want  string
		}{
			{ownerPassword, []string{"create", "--email", ownerEmail}, exitFailed, "reset the password instead"},
			{ownerPassword, []string{"create", "--email", "joan@example.test", "--team", "Another"}, exitFailed,
				"under another name"},
			{"short", []string{"create", "--email", "joan"}, exitUsage, "password must have at least 12 characters"},
			{ownerPassword, []string{"create", "--email", "joan"}, exitUsage, "email must be an e-mail address"},
			{"", []string{"create", "--email", "joan@example.test"}, exitFailed, "there is no password on standard input"},
			{"\n" + ownerPassword, []string{"reset-password", "--email", ownerEmail}, exitFailed,
				"there is no password on standard input"},
			{"", []string{"remove-totp", "--email", "joan@example.test"}, exitFailed, "no user has this e-mail address"},
			{"", []string{"remove-totp", "--email", ownerEmail}, exitFailed, "No such authenticator app"},
			{"tooshort", []string{"reset-password", "--email", ownerEmail}, exitUsage,
				"password must have at least 12 characters"},
			{ownerPassword, []string{"reset-password", "--email", "joan@example.test"}, exitFailed,
				"no user has this e-mail address"},
			{strings.Repeat("x", 10_000), []string{"reset-password", "--email", ownerEmail}, exitUsage,
				"password must have at most 256 characters"},
		} {
			r := admin(c.stdin, c.args...)
			require.Equal(t, c.code, r.code, "%v: %s", c.args, r.stderr)
			require.Contains(t, r.stderr, c.want)
			require.Empty(t, r.out)
			if p := strings.TrimSpace(c.stdin); p != "" {
				require.NotContains(t, r.stderr, p)
			}
		}
		require.Equal(t, http.StatusOK, login(ownerEmail, "replacement password"), "a refused reset changes nothing")
	})
}

// A key for access tokens is replaced while a server is running. The server publishes the new one within seconds and
// keeps existing sign-ins.
func TestRotateSigningKeyNextToServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		clk := clock.NewManual(time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC))
		s := in.serve(t, clk)
		published := func() []byte {
			status, body := s.ask(t, http.MethodGet, "/.well-known/jwks.json", "", nil)
			require.Equal(t, http.StatusOK, status)
			return body
		}
		before := published()
		out := in.do(t, "admin", "rotate-signing-key")
		require.Regexp(t, `^jwk_[0-9a-z]{26} signs access tokens from \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ on\n$`, out)
		r := in.run(t, "admin", "rotate-signing-key")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "a rotation is in progress")
		require.Equal(t, before, published(), "within the five seconds that keys are kept")
		clk.Advance(5 * time.Second)
		require.Contains(t, string(published()), out[:30])

		out = in.do(t, "admin", "rotate-signing-key", "--compromised")
		clk.Advance(5 * time.Second)
		require.Equal(t, 1, strings.Count(string(published()), `"kid"`))
		require.Contains(t, string(published()), out[:30])
	})
}
