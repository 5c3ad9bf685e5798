package signin_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/identitytest"
	"sallyport/internal/platform/db"
)

// counted counts the queries of a Querier.
type counted struct {
	db.Querier
	queries int
}

func (c *counted) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.queries++
	return c.Querier.QueryContext(ctx, query, args...)
}

func (c *counted) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	c.queries++
	return c.Querier.QueryRowContext(ctx, query, args...)
}

// A request of a user costs one query, which sees a session that has ended.
func TestBearerIsOneQuery(t *testing.T) {
	t.Parallel()
	identitytest.Each(t, func(t *testing.T, f identitytest.World) {
		f.Owner(t)
		in := f.SignedIn(t)
		p := f.Bearer(t, in.Token)
		q := &counted{Querier: f.Store.DB.Read()}
		again, err := f.SignIn.ReadSignedIn(t.Context(), q, p)
		require.NoError(t, err)
		require.Equal(t, p, again)
		require.Equal(t, 1, q.queries)
		require.NoError(t, f.SignIn.EndSession(t.Context(), p, p.Session))
		_, err = f.SignIn.ReadSignedIn(t.Context(), q, p)
		identitytest.Wants(t, "unauthorized", err, "the session has ended")
		require.Equal(t, 2, q.queries)
	})
}
