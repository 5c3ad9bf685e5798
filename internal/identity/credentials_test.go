package identity

import (
	"context"
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// counted counts the statements that ask for rows.
type counted struct {
	db.Querier
	queries int
}

func (c *counted) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.queries++
	return c.Querier.QueryContext(ctx, query, args...)
}

// A key that is not cached costs one statement, which finds its row by the unique index of the lookup part and its
// grants by theirs: neither table is ever gone through, however many keys and grants there are.
func TestColdKeyIsOneIndexedRead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, f fixture) {
		actor, p := f.owner(t)
		_, text := f.key(t, actor, p.Environments[0].ID, allow(access.RouteEvents))
		key, ok := parseKey(text)
		require.True(t, ok)
		m, err := f.material()
		require.NoError(t, err)
		q := &counted{Querier: f.store.DB.Read()}
		c, err := readCredential(t.Context(), q, key.lookup(), key.mac(m.pepper), clock.Millis(f.clk.Now()))
		require.NoError(t, err)
		require.NotNil(t, c)
		require.Equal(t, 1, q.queries)
		if f.store.DB.ForUpdate() != "" {
			return // PostgreSQL goes through tables that fit on a page, whatever their indexes
		}
		rows, err := f.store.DB.Read().QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+selectKey+keyByLookup, key.lookup(),
			key.mac(m.pepper))
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
