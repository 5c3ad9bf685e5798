package db_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

// named inserts rows of cache_versions, whose names are unique.
func named(names ...string) db.Statement {
	st := db.Statement{Rows: &db.MultiRow{Before: "INSERT INTO cache_versions (name, version)",
		Types: []string{"text", "bigint"}}}
	for _, name := range names {
		st.Args = append(st.Args, name, int64(1))
	}
	return st
}

// stored returns how many of the names are stored.
func stored(t *testing.T, s testkit.Store, names ...string) (n int) {
	t.Helper()
	versions, err := s.DB.Versions(t.Context())
	require.NoError(t, err)
	for _, name := range names {
		if _, ok := versions[name]; ok {
			n++
		}
	}
	return n
}

// The last statements of a transaction are stored with those before them, or none of them are: if one of them is
// refused, if the function fails after the statements before them, and if a check of the context refuses.
func TestLastStatementsCommitAll(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		tx := func(ctx context.Context, statements ...db.Statement) error {
			return s.DB.Tx(ctx, func(tx *sql.Tx) error {
				for _, st := range statements[:len(statements)-2] {
					if _, err := s.DB.Exec(ctx, tx, st.Rows, st.Args); err != nil {
						return err
					}
				}
				affected, err := s.DB.ExecLast(ctx, tx, statements[len(statements)-2:]...)
				if err == nil {
					require.Equal(t, []int64{1, 2}, affected)
				}
				return err
			})
		}
		require.NoError(t, tx(t.Context(), named("a"), named("b", "c")), "BEGIN and COMMIT in one exchange")
		require.NoError(t, tx(t.Context(), named("d"), named("e"), named("f", "g")))
		require.Equal(t, 7, stored(t, s, "a", "b", "c", "d", "e", "f", "g"))

		err := tx(t.Context(), named("h"), named("i"), named("j", "a"))
		require.True(t, db.IsUniqueViolation(err), "%v", err)
		require.NotErrorIs(t, err, db.ErrCommitUnknown)
		require.Zero(t, stored(t, s, "h", "i", "j"))

		boom := errors.New("boom")
		checked := db.WithCheck(t.Context(), func(context.Context, *sql.Tx) error { return boom })
		require.ErrorIs(t, tx(checked, named("h"), named("i", "j")), boom)
		require.Zero(t, stored(t, s, "h", "i", "j"))
		require.NoError(t, tx(t.Context(), named("h"), named("i", "j")), "the connection is free for the next")
	})
}

// On PostgreSQL every kind of statement begins the transaction, none runs outside it, and a connection that was lost
// while COMMIT was on its way leaves open whether the transaction is stored.
func TestDeferredBegin(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() != db.Postgres {
			t.Skip("SQLite's BEGIN is a call of a function")
		}
		ctx, boom := t.Context(), errors.New("boom")
		s.DB.Write().SetMaxOpenConns(1)
		require.NoError(t, s.DB.Tx(ctx, func(*sql.Tx) error { return nil }))
		require.ErrorIs(t, s.DB.Tx(ctx, func(*sql.Tx) error { return boom }), boom)
		require.NoError(t, s.DB.Tx(ctx, func(tx *sql.Tx) error {
			// now() is the beginning of the transaction.
			var first, second string
			require.NoError(t, tx.QueryRowContext(ctx, "SELECT CAST(now() AS text)").Scan(&first))
			require.NoError(t, tx.QueryRowContext(ctx, "SELECT CAST(now() AS text)").Scan(&second))
			require.Equal(t, first, second)
			return nil
		}))
		require.ErrorIs(t, s.DB.Tx(ctx, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO cache_versions (name, version) VALUES ($1, $2)", "a", 1)
			return errors.Join(err, boom)
		}), boom)
		require.Error(t, s.DB.Tx(ctx, func(tx *sql.Tx) error {
			if _, err := s.DB.ExecLast(ctx, tx, named("b")); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO cache_versions (name, version) VALUES ($1, $2)", "c", 1)
			return err
		}))
		require.Equal(t, 1, stored(t, s, "a", "b", "c"))

		lost := named("d")
		lost.Rows.Row = "(?, CAST(pg_terminate_backend(pg_backend_pid()) AS integer) + ?)"
		require.ErrorIs(t, s.DB.Tx(ctx, func(tx *sql.Tx) error {
			_, err := s.DB.ExecLast(ctx, tx, lost)
			return err
		}), db.ErrCommitUnknown)
		require.NoError(t, s.DB.Tx(ctx, func(tx *sql.Tx) error {
			_, err := s.DB.ExecLast(ctx, tx, named("d"))
			return err
		}), "the pool replaces a lost connection")
	})
}

// A first statement that fails before BEGIN was sent takes the transaction with it: later statements of a function that
// goes on are not stored on their own, and the transaction does not succeed.
func TestStatementsNeedATransactionThatBegan(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() != db.Postgres {
			t.Skip("SQLite's BEGIN is a call of a function")
		}
		ctx, boom := t.Context(), errors.New("boom")
		unsendable := map[string]func(tx *sql.Tx) error{
			"a statement": func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO cache_versions (name, version) VALUES ($1, 1)", struct{ a chan int }{})
				return err
			},
			"last statements": func(tx *sql.Tx) error {
				st := named("x")
				st.Rows.Row = "(?, ?, 1)" // has no values for it
				st.Args = []any{"x", "y"}
				st.Rows.Types = []string{"text", "text"}
				_, err := s.DB.ExecLast(ctx, tx, st)
				return err
			},
		}
		for name, first := range unsendable {
			for _, end := range []error{nil, boom} {
				err := s.DB.Tx(ctx, func(tx *sql.Tx) error {
					require.Error(t, first(tx), name)
					_, err := tx.ExecContext(ctx, "INSERT INTO cache_versions (name, version) VALUES ($1, $2)", "after", 1)
					require.Error(t, err, name)
					_, err = s.DB.ExecLast(ctx, tx, named("after"))
					require.Error(t, err, name)
					return end
				})
				require.Error(t, err, name)
				require.NotErrorIs(t, err, db.ErrCommitUnknown)
			}
		}
		require.Zero(t, stored(t, s, "after"))
		require.NoError(t, s.DB.Tx(ctx, func(tx *sql.Tx) error {
			_, err := s.DB.ExecLast(ctx, tx, named("after"))
			return err
		}), "the connection is free for the next")
	})
}
