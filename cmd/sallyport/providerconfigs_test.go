package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/operator"
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
			{[]string{"create", "--provider", "githb"}, exitUsage, "Did you mean github?"},
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
