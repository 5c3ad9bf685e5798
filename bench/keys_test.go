package bench_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"sallyport/internal/identity/apikeys"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/secretbox"
)

// staleAfter is more than a key that was read is taken as it was for.
const staleAfter = 2 * time.Second

// keyring is a service on SQLite with the texts of its API keys.
type keyring struct {
	*identity.Services
	clk   *clock.Manual
	texts []string
}

// newKeyring makes as many keys, each with as many grants for one connection each.
func newKeyring(tb testing.TB, keys, grants int) keyring {
	tb.Helper()
	ctx, dir := tb.Context(), tb.TempDir()
	d, err := db.Open(ctx, "", dir)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, d.Close()) })
	_, _, err = migrate.Up(ctx, d)
	require.NoError(tb, err)
	k := keyring{clk: clock.NewManual(time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC))}
	path := filepath.Join(dir, "keyset.json")
	require.NoError(tb, secretbox.Create(path))
	box, err := secretbox.Open(secretbox.Source{Path: path}, secretbox.WithClock(k.clk))
	require.NoError(tb, err)
	k.Services, err = identity.Open(ctx, identity.Config{DB: d, Box: box, Clock: k.clk,
		Issuer: "https://sallyport.example.com"}, false)
	require.NoError(tb, err)
	p, err := k.Setup.CreateOwner(ctx, access.System("bench"), "", "owner@example.test", "correct horse battery staple")
	require.NoError(tb, err)
	for i := range keys {
		_, text, err := k.Keys.CreateKey(ctx, access.System("bench"), apikeys.NewKey{Name: fmt.Sprint("key ", i),
			Environment: p.Environments[0].ID, SourceCIDRs: []string{"192.0.2.0/24"}})
		require.NoError(tb, err)
		k.texts = append(k.texts, text.Reveal())
	}
	_, err = d.Write().ExecContext(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1)
		INSERT INTO api_key_grants (id, api_key_id, effect, routes, connections, created_ms)
		SELECT 'grt_' || substr(k.id, 5, 20) || substr('000000' || n.i, -6), k.id, 'allow', g.routes,
		json_array('customer-' || n.i), k.created_ms
		FROM api_keys k, n, (SELECT $2 AS routes) g`, grants, `["events"]`)
	require.NoError(tb, err)
	return k
}

func (k keyring) verify(tb testing.TB, i int) {
	tb.Helper()
	p, err := k.Principals.APIKey(tb.Context(), k.texts[i%len(k.texts)], "192.0.2.17")
	if err != nil || !p.MayRoute(access.RouteEvents) {
		tb.Fatalf("refused: %v", err)
	}
}

// Keys that were read a moment ago. The target is 5 µs, and with 1,000 keys of 1,000 grants each at most twice what one
// key takes.
func BenchmarkKeyWarm(b *testing.B) {
	for _, size := range []struct{ keys, grants int }{{1, 1}, {1000, 1000}} {
		b.Run(fmt.Sprintf("keys=%d/grants=%d", size.keys, size.grants), func(b *testing.B) {
			k := newKeyring(b, size.keys, size.grants)
			for i := range k.texts {
				k.verify(b, i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k.verify(b, i)
			}
		})
	}
}

// A key whose moment is over: its own row is read again by its lookup part, and its grants only if they changed.
func BenchmarkKeyStale(b *testing.B) {
	for _, grants := range []int{1, 1000} {
		b.Run(fmt.Sprintf("grants=%d", grants), func(b *testing.B) {
			k := newKeyring(b, 1, grants)
			k.verify(b, 0)
			for b.Loop() {
				k.clk.Advance(staleAfter)
				k.verify(b, 0)
			}
		})
	}
}
