package db_test

import (
	"database/sql"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/pressly/goose/v3/lock"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/testkit"
)

// No two tasks shut each other out: every key of the file is there once.
func TestLockKeysAreUnique(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "lockkeys.go", nil, 0)
	require.NoError(t, err)
	names := map[int64]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		require.Len(t, spec.Names, 1)
		require.Len(t, spec.Values, 1, spec.Names[0].Name)
		literal, ok := spec.Values[0].(*ast.BasicLit)
		require.True(t, ok, "%s is no number", spec.Names[0].Name)
		key, err := strconv.ParseInt(strings.ReplaceAll(literal.Value, "_", ""), 0, 64)
		require.NoError(t, err)
		require.Empty(t, names[key], "%s has the key of another", spec.Names[0].Name)
		names[key] = spec.Names[0].Name
		return false
	})
	require.Equal(t, "LockMigrations", names[lock.DefaultLockID], "an older release migrates under this key")
	require.Len(t, names, 9)
}

// A key of a subject is the same in every release.
func TestLockFor(t *testing.T) {
	t.Parallel()
	require.Equal(t, db.LockKey(-1845758771231340510), db.LockFor("webhook_replays", "env_1"))
	require.NotEqual(t, db.LockFor("webhook_replays", "env_1"), db.LockFor("webhook_replays", "env_2"))
}

// A transaction that cannot have a lock goes on without it instead of waiting, and the lock ends with its transaction.
func TestTryAdvisoryLock(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		ctx := t.Context()
		key := db.LockFor("tests", "one")
		require.NoError(t, s.DB.Tx(ctx, func(tx *sql.Tx) error {
			held, err := s.DB.TryAdvisoryLock(ctx, tx, key)
			require.True(t, held)
			if err != nil || s.DB.Engine() == db.SQLite { // which has one writer
				return err
			}
			return s.DB.Tx(ctx, func(tx *sql.Tx) error {
				held, err := s.DB.TryAdvisoryLock(ctx, tx, key)
				require.False(t, held)
				return err
			})
		}))
		require.NoError(t, s.DB.Tx(ctx, func(tx *sql.Tx) error {
			held, err := s.DB.TryAdvisoryLock(ctx, tx, key)
			require.True(t, held)
			return err
		}))
	})
}
