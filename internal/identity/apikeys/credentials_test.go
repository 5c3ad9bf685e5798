package apikeys_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

// A key that is not cached costs one statement, which finds its row by the unique index of the lookup part and its
// grants by theirs: neither table is ever gone through, however many keys and grants there are.
func TestColdKeyIsOneIndexedRead(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		actor, p := f.Owner(t)
		_, text := f.Key(t, actor, p.Environments[0].ID, identitytest.Allow(access.RouteEvents))
		q := &testkit.CountedQuerier{Querier: f.Store.DB.Read()}
		_, found, err := f.Keys.ReadCredential(t.Context(), q, text, clock.Millis(f.Clock.Now()))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, 1, q.Queries)
		if f.Store.DB.ForUpdate() != "" {
			return // PostgreSQL goes through tables that fit on a page, regardless of their indexes
		}
		query, args := f.Keys.CredentialQuery(text)
		rows, err := f.Store.DB.Read().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
		require.NoError(t, err)
		var plan []string
		require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
			var id, parent, unused int
			var detail string
			err := r.Scan(&id, &parent, &unused, &detail)
			plan = append(plan, detail)
			return err
		}))
		require.Len(t, plan, 2)
		require.Contains(t, plan[0], "SEARCH k USING INDEX sqlite_autoindex_api_keys_2 (lookup_id=?)")
		require.True(t, strings.HasPrefix(plan[1], "SEARCH g USING INDEX api_key_grants_by_key (api_key_id=?)"), plan[1])
	})
}
