package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/operator"
	"sallyport/internal/platform/clock"
)

// Provider configurations are created, listed, changed and deleted next to a server that may be running, and the
// commands report what the rules say. No secret is an argument, and none is printed.
func TestProviderConfigs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		at := func(args ...string) []string {
			return append(append([]string{"provider-configs"}, args...), "--environment", "production")
		}
		out := in.do(t, at("create", "--provider", "github", "--key", "github-eu", "--display-name", "European unit")...)
		require.Contains(t, out, "github-eu")
		require.Contains(t, out, "European unit")
		c := decode[operator.ProviderConfig](t, in.do(t, at("show", "github-eu", "--json")...))
		require.Equal(t, "github", c.Provider)
		// The redirect URI is there before the client, which is registered with it at the provider.
		require.Nil(t, c.OAuth.ClientID)
		require.Regexp(t, `/oauth/callback/env_[^/]+/github-eu$`, c.OAuth.RedirectURI)
		in.do(t, at("create", "--provider", "slack")...)
		require.Contains(t, in.do(t, at("list", "--provider", "github")...), "github-eu")
		require.Len(t, decode[[]operator.ProviderConfig](t, in.do(t, at("list", "--json")...)), 2)
		require.Len(t, decode[[]operator.ProviderConfig](t, in.do(t, at("list", "--json", "--q", "sl")...)), 1)
		require.Contains(t, in.do(t, at("update", "github-eu", "--display-name", "Another unit")...), "Another unit")
		require.NotContains(t, in.do(t, at("update", "github-eu", "--clear", "display_name")...), "unit")

		for _, tt := range []struct {
			args []string
			code int
			want string
		}{
			{[]string{"create", "--provider", "slack"}, exitFailed, "already has a provider configuration with this key"},
			{[]string{"create", "--provider", "githb"}, exitUsage,
				"sallyport: provider: there is no such provider. Did you mean github?\n"},
			{[]string{"create", "--provider", "nope"}, exitUsage, "sallyport: provider: there is no such provider\n"},
			{[]string{"create", "--provider", "github", "--key", "k", "--base-url", "x"}, exitUsage,
				"sallyport: base url: The URL is not an absolute URL"},
			{[]string{"create", "--provider", "github", "--key", "K"}, exitUsage,
				"sallyport: provider config key must be a lower-case letter"},
			{[]string{"create", "--provider", "generic-hmac", "--client-id", "x"}, exitUsage,
				"no connection of the provider uses"},
			{[]string{"update", "github-eu"}, exitUsage, "nothing to change"},
			{[]string{"update", "github-eu", "--client-id", "x", "--clear", "oauth"}, exitUsage, "set and cleared"},
			{[]string{"create", "--provider", "github", "--key", "k", "--client-id", "x", "--private-key-id", "k1"}, exitUsage,
				"must be given with a private_key only"},
			{[]string{"create", "--provider", "github", "--client-secret-file", "-", "--private-key-file", "-"}, exitUsage,
				"can read standard input"},
			{[]string{"show", "unknown"}, exitFailed, "No such provider configuration"},
		} {
			r := in.run(t, at(tt.args...)...)
			require.Equal(t, tt.code, r.code, "%v: %s", tt.args, r.stderr)
			require.Contains(t, r.stderr, tt.want)
		}
		require.Contains(t, in.do(t, at("delete", "github-eu")...), "github-eu is deleted")
		require.Equal(t, exitFailed, in.run(t, at("show", "github-eu")...).code)
	})
}

// An invalid definition stops only commands that need it: the server goes on with the version that it has, and its
// other providers can be configured.
func TestProviderConfigsNextToAnInvalidDefinition(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		_, folder := newAcme(t)
		at := func(args ...string) []string {
			return append(append([]string{"provider-configs"}, args...), "--environment", "production", "--providers-dir",
				folder)
		}
		in.do(t, at("create", "--provider", "acme", "--display-name", "Ours")...)
		in.do(t, at("create", "--provider", "slack")...)
		write(t, folder, "acme.yaml", acmeWithAKey+"colour: red\n")
		for _, args := range [][]string{at("list"), at("update", "slack", "--display-name", "Chat"), at("show", "acme")} {
			r := in.run(t, args...)
			require.Equal(t, exitOK, r.code, r.stderr)
			require.Regexp(t, `(?m)^warning: .+acme\.yaml:\d+: colour: is not a field of the format`, r.stderr)
		}
		for _, args := range [][]string{at("update", "acme", "--display-name", "New"),
			at("create", "--provider", "acme", "--key", "other")} {
			r := in.run(t, args...)
			require.Equal(t, exitFailed, r.code, r.stderr)
			require.Contains(t, r.stderr, "sallyport: provider definitions: ")
		}
		require.Contains(t, in.do(t, at("show", "acme")...), "Ours")
	})
}

// Another OAuth client makes the tokens of connections useless, so the command names their number and needs a
// confirmation. A change that leaves the client asks nothing.
func TestProviderConfigsOfAnotherClient(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, clock.System())
		r := in.remote(t, s, "connections")
		at := func(args ...string) []string {
			return append(append([]string{"provider-configs"}, args...), "--environment", "production")
		}
		secret := filepath.Join(write(t, t.TempDir(), "s", "client-secret"), "s")
		in.do(t, at("create", "--provider", "slack", "--client-id", "one", "--client-secret-file", secret)...)
		in.do(t, at("update", "slack", "--client-id", "two")...)
		token := filepath.Join(write(t, t.TempDir(), "t", "xoxb-1"), "t")
		r.do("connections", "create", "--provider", "slack", "--connection-id", "team", "--auth-mode", "oauth2",
			"--credentials", "access_token="+token, "--no-test")
		in.do(t, at("update", "slack", "--display-name", "Chat", "--client-id", "two")...)

		for _, change := range [][]string{{"--client-id", "three"}, {"--clear", "oauth"}} {
			refused := in.run(t, at(append([]string{"update", "slack"}, change...)...)...)
			require.Equal(t, exitUsage, refused.code, refused.stderr)
			require.Contains(t, refused.stderr, "1 connection has tokens of the present OAuth client")
			require.Contains(t, refused.stderr, "--yes")
		}
		require.Contains(t, in.do(t, at("show", "slack")...), "two")
		done := in.run(t, at("update", "slack", "--client-id", "three", "--yes")...)
		require.Equal(t, exitOK, done.code, done.stderr)
		require.Contains(t, done.stderr, "1 connection has to be connected again: "+
			"sallyport connections list --provider slack --status needs_reauth")
	})
}
