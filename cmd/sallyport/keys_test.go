package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/operator"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
)

// A key made while a server runs works there immediately, opens only what it was made for, and is refused once revoked.
// Its text is printed when it is made, alone on standard output, and never again.
func TestKeysNextToServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		s := in.serve(t, testkit.SwiftClock())
		r := in.run(t, "keys", "create", "--name", "billing", "--environment", "production", "--routes",
			"webhooks,events,events")
		require.Equal(t, exitOK, r.code, r.stderr)
		key := strings.TrimSuffix(r.out, "\n")
		require.Regexp(t, `^spk_live_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}$`, key)
		require.NotContains(t, r.stderr, key)

		ask := func(path, key string) int {
			status, _ := s.ask(t, http.MethodGet, "/api/v1"+path, key, nil)
			return status
		}
		require.Equal(t, http.StatusOK, ask("/webhook-subscriptions", key))
		require.Equal(t, http.StatusForbidden, ask("/connections", key))

		type created struct {
			operator.Key
			Text string `json:"key"`
		}
		second := decode[created](t, in.do(t, "keys", "create", "--json", "--name", "short", "--environment", "development",
			"--routes", "connections", "--expires-in", "1h"))
		require.Equal(t, http.StatusOK, ask("/connections", second.Text))
		require.Equal(t, time.Hour, time.Time(second.ExpiresAt).Sub(time.Time(second.CreatedAt)).Round(time.Minute))

		// An environment can be named by its id too.
		in.do(t, "keys", "create", "--name", "third", "--environment", second.EnvironmentID, "--routes", "events")

		text := in.do(t, "keys", "list", "--json")
		list := decode[[]operator.Key](t, text)
		require.Len(t, list, 3)
		first := list[2]
		require.Equal(t, []string{"third", "short", "billing"}, []string{list[0].Name, list[1].Name, first.Name})
		require.Equal(t, "production", first.Environment)
		require.True(t, strings.HasPrefix(key, first.Prefix+"_"))
		table := in.do(t, "keys", "list")
		require.Equal(t, 4, strings.Count(table, "\n"))
		require.Contains(t, table, first.ID)
		for _, secret := range []string{key, second.Text} {
			require.NotContains(t, text+table, strings.Split(secret, "_")[3])
		}

		require.Contains(t, in.do(t, "keys", "revoke", first.ID), "revoked")
		refusedSoon(t, func() int { return ask("/webhook-subscriptions", key) })
		require.Equal(t, http.StatusOK, ask("/connections", second.Text))
		in.do(t, "keys", "revoke", first.ID)
		require.Regexp(t, first.ID+`\s+billing\s+production\s+\S+\s+events,webhooks\s+revoked`, in.do(t, "keys", "list"))
	})
}

// A list that is longer than the API's pages is complete.
func TestKeysListIsComplete(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.setUp(t)
		in.do(t, "keys", "create", "--name", "k", "--environment", "production", "--routes", "events")
		// 250 keys fill a page exactly and 251 do not; copies of the one row are cheaper than calls.
		w := in.open(t).Write()
		for _, n := range []int{250, 251} {
			have := len(decode[[]operator.Key](t, in.do(t, "keys", "list", "--json")))
			for i := have; i < n; i++ {
				_, err := w.ExecContext(t.Context(), `INSERT INTO api_keys (id, lookup_id, team_id, environment_id, name,
						secret_mac, last_four, created_by, created_ms, expires_ms, revoked_ms)
					SELECT substr(id, 1, 24) || $1, $2, team_id, environment_id, name, secret_mac, last_four, created_by, created_ms,
						expires_ms, revoked_ms FROM api_keys WHERE name = 'k' ORDER BY id LIMIT 1`, suffix(i), suffix(i))
				require.NoError(t, err)
			}
			list := decode[[]operator.Key](t, in.do(t, "keys", "list", "--json"))
			require.Len(t, list, n)
			seen := map[string]bool{}
			for _, k := range list {
				require.False(t, seen[k.ID])
				seen[k.ID] = true
			}
		}
	})
}

// suffix is six letters that no key of this size of test begins to share with a made one.
func suffix(i int) string {
	return "zzz" + string(rune('a'+i/100)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10))
}

// Errors in a key are described before anything is stored.
func TestKeysRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, in installation) {
		in.do(t, "keyset", "create")
		in.do(t, "migrate")
		create := func(name, environment string) result {
			return in.run(t, "keys", "create", "--name", name, "--environment", environment, "--routes", "events")
		}
		r := create("x", "production")
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, "sallyport admin create")
		in.call(t, command{stdin: ownerPassword, args: []string{"admin", "create", "--email", ownerEmail}})

		r = create("x", "staging")
		require.Equal(t, exitFailed, r.code)
		require.Equal(t, "sallyport: No such environment; there are development, production\n", r.stderr)
		r = create(" ", "production")
		require.Equal(t, exitUsage, r.code)
		require.Equal(t, "sallyport: name must not be blank\n", r.stderr)
		for _, id := range []string{"key_01234567890123456789012345", "x"} {
			r = in.run(t, "keys", "revoke", id)
			require.Equal(t, exitFailed, r.code)
			require.Equal(t, "sallyport: No such API key\n", r.stderr)
		}
		require.Empty(t, decode[[]operator.Key](t, in.do(t, "keys", "list", "--json")))
	})
}

// refusedSoon waits until a running server refuses a key: it reads the key again every other second.
func refusedSoon(t *testing.T, ask func() int) {
	t.Helper()
	await.Condition(t, "the key to be refused", func() bool { return ask() == http.StatusUnauthorized })
}
