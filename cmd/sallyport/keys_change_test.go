package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/operator"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// The life of a key while a server runs: every change made on the command line soon applies there, the old secret of a
// rotated key works until its overlap ends, and a text can be identified without showing it to others.
func TestKeyLifeNextToServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, testkit.SwiftClock())
		key := strings.TrimSpace(in.do(t, "keys", "create", "--name", "billing", "--environment", "production", "--routes",
			"webhooks", "--connections", "acme,globex", "--source-cidrs", "127.0.0.0/8",
			"--rate-per-second", "5000", "--rate-burst", "6000"))
		ask := func(key string) func() int {
			return func() int {
				status, _ := s.ask(t, http.MethodGet, "/api/v1/webhook-subscriptions", key, nil)
				return status
			}
		}
		works := func(key string) {
			t.Helper()
			await.Condition(t, "the key to work", func() bool { return ask(key)() == http.StatusOK })
		}
		works(key)
		k := decode[[]operator.Key](t, in.do(t, "keys", "list", "--json"))[0]
		require.Equal(t, []string{"acme", "globex"}, k.Grants[0].Connections)
		require.Equal(t, []string{"127.0.0.0/8"}, k.SourceCIDRs)
		require.Equal(t, &operator.KeyRate{PerSecond: 5000, Burst: 6000}, k.RateLimit)

		require.Contains(t, in.do(t, "keys", "disable", k.ID), "is disabled")
		refusedSoon(t, ask(key))
		require.Contains(t, in.do(t, "keys", "enable", k.ID), "is active")
		works(key)
		in.do(t, "keys", "update", k.ID, "--source-cidrs", "192.0.2.0/24")
		refusedSoon(t, ask(key))
		in.do(t, "keys", "update", k.ID, "--any-source", "--name", "accounts", "--expires-in", "1h", "--rate-per-second",
			"7000", "--rate-burst", "7000")
		works(key)
		k = decode[operator.Key](t, in.do(t, "keys", "get", k.ID))
		require.Equal(t, "accounts", k.Name)
		require.Nil(t, k.SourceCIDRs)
		require.Equal(t, &operator.KeyRate{PerSecond: 7000, Burst: 7000}, k.RateLimit)
		in.do(t, "keys", "update", k.ID, "--service-rate")
		require.Nil(t, decode[operator.Key](t, in.do(t, "keys", "get", k.ID)).RateLimit)

		second := strings.TrimSpace(in.do(t, "keys", "rotate", k.ID, "--overlap", "1h"))
		require.NotEqual(t, key, second)
		works(key)
		works(second)
		verify := func(text string, args ...string) result {
			return in.call(t, command{stdin: text + "\n", args: append([]string{"keys", "verify"}, args...)})
		}
		require.Contains(t, verify(key).out, "previous secret, active")
		v := decode[operator.Verification](t, verify(second, "--json").out)
		require.True(t, v.Valid)
		require.Equal(t, k.ID, v.Match.ID)
		r := in.run(t, "keys", "rotate", k.ID)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "still works")
		third := strings.TrimSpace(in.do(t, "keys", "rotate", k.ID, "--overlap", "0s"))
		refusedSoon(t, ask(key))
		refusedSoon(t, ask(second))
		works(third)
		for _, none := range []string{key, second, "spk_live_x"} {
			r := verify(none)
			require.Equal(t, exitFailed, r.code)
			require.Empty(t, r.out)
			require.NotContains(t, r.stderr, none)
		}

		s.stop() // which stores what was counted
		table := in.do(t, "keys", "usage", k.ID, "--bucket", "hour")
		require.Regexp(t, `webhooks\s+succeeded\s+\d+`, table)
		require.NotEmpty(t, decode[[]operator.UsageRow](t, in.do(t, "keys", "usage", k.ID, "--json")))
		require.NotNil(t, decode[operator.Key](t, in.do(t, "keys", "get", k.ID)).LastUsed)
	})
}

// Errors in a change of a key are reported before anything is stored.
func TestKeyChangesRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		key := in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes", "events")
		k := decode[[]operator.Key](t, in.do(t, "keys", "list", "--json"))[0]
		for want, args := range map[string][]string{
			"nothing to change":      {"update", k.ID},
			"above 0":                {"update", k.ID, "--expires-in", "0s"},
			"can't be used together": {"update", k.ID, "--any-source", "--source-cidrs", "192.0.2.0/24"},
			"bits beyond the length": {"update", k.ID, "--source-cidrs", "192.0.2.1/24"},
			"rate limit per second must be between 1 and 100000": {"update", k.ID, "--rate-per-second", "0", "--rate-burst",
				"0"},
			"--service-rate and":    {"update", k.ID, "--rate-per-second", "1", "--rate-burst", "5", "--service-rate"},
			"must be used together": {"update", k.ID, "--rate-per-second", "1"},
			"whole seconds":         {"rotate", k.ID, "--overlap", "1500ms"},
			"No such API key":       {"disable", "key_0"},
			"within 31 days":        {"usage", k.ID, "--bucket", "hour", "--from", "800h"},
		} {
			r := in.run(t, append([]string{"keys"}, args...)...)
			require.NotEqual(t, exitOK, r.code, want)
			require.Contains(t, r.stderr, want)
		}
		require.Equal(t, k, decode[operator.Key](t, in.do(t, "keys", "get", k.ID)))
		in.do(t, "keys", "revoke", k.ID)
		for _, verb := range []string{"rotate", "disable", "enable"} {
			require.Contains(t, in.run(t, "keys", verb, k.ID).stderr, "permanently revoked")
		}
		require.Contains(t, in.call(t, command{stdin: key, args: []string{"keys", "verify"}}).out, "revoked")
	})
}
