package app_test

import (
	"database/sql"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/testkit"
)

// Every capability and every name occurs once, so that nothing is declared for another.
func TestDeclaredOnce(t *testing.T) {
	t.Parallel()
	rows := app.Dependencies()
	seen := map[string]bool{}
	once := func(kind, name string) {
		require.False(t, seen[kind+name], "two %ss are named %s", kind, name)
		seen[kind+name] = true
	}
	for _, m := range app.Declared() {
		once("module", m.Name)
		_, known := rows[m.Name]
		require.True(t, known || strings.HasPrefix(m.Name, "platform/"), "%s is no row of the dependency table", m.Name)
		for _, table := range m.Tables {
			once("table", table.Name)
		}
		for _, c := range m.Sealed {
			once("column", c.Table+"."+c.Column)
		}
	}
}

// An environment is deleted only if no capability has anything in it that must not be lost. A row of an
// environment is counted, or its table says why it is not.
func TestEnvironmentsSeeEveryOwner(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		declared := map[string]module.Table{}
		counts := map[string]module.Content{}
		for _, m := range app.Declared() {
			for _, table := range m.Tables {
				declared[table.Name] = table
			}
			for _, c := range m.Contents {
				counts[c.Name] = c
			}
		}
		for name, columns := range schema(t, s.DB) {
			table := declared[name]
			if !columns["environment_id"] {
				require.Empty(t, table.Contents+table.Outlives, "%s has no rows of environments", name)
				continue
			}
			if table.Outlives != "" {
				require.Empty(t, table.Contents, "%s is counted, or outlives its environment", name)
				continue
			}
			require.Contains(t, counts, table.Contents, "%s has rows of environments", name)
			env := newEnvironment(t, s.DB)
			held := func() bool {
				t.Helper()
				found, err := counts[table.Contents].Held(t.Context(), s.DB.Read(), env)
				require.NoError(t, err)
				return found
			}
			require.False(t, held(), name)
			values := map[string]any{"environment_id": env}
			if columns["team_id"] {
				values["team_id"] = teamOfTests
			}
			insertRow(t, s.DB, name, values)
			require.True(t, held(), "%s is not counted", name)
		}
	})
}

const teamOfTests = "team_of_tests"

// newEnvironment stores an environment.
func newEnvironment(t *testing.T, d *db.DB) id.Environment {
	t.Helper()
	_, err := d.Write().ExecContext(t.Context(),
		"INSERT INTO teams (id, name, created_ms) VALUES ($1, 'x', 0) ON CONFLICT DO NOTHING", teamOfTests)
	require.NoError(t, err)
	env := id.Environment(id.New(id.PrefixEnvironment))
	_, err = d.Write().ExecContext(t.Context(),
		"INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, $1, 0)", env, teamOfTests)
	require.NoError(t, err)
	return env
}

// insertRow stores a row with the given values, and with any others in the columns that need one.
func insertRow(t *testing.T, d *db.DB, table string, values map[string]any) {
	t.Helper()
	query := `SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = current_schema()
		AND table_name = $1 AND is_nullable = 'NO' AND column_default IS NULL`
	if d.Engine() == db.SQLite {
		query = `SELECT name, lower(type) FROM pragma_table_info($1) WHERE dflt_value IS NULL AND ("notnull" = 1 OR pk > 0)`
	}
	rows, err := d.Read().QueryContext(t.Context(), query, table)
	require.NoError(t, err)
	require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
		var column, kind string
		err := r.Scan(&column, &kind)
		if _, given := values[column]; !given {
			values[column] = map[string]any{"text": "x", "bigint": 1, "boolean": true, "bytea": []byte("x"),
				"blob": []byte("x")}[kind]
		}
		return err
	}))
	names := slices.Sorted(maps.Keys(values))
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = values[name]
	}
	_, err = d.Write().ExecContext(t.Context(),
		"INSERT INTO "+table+" ("+strings.Join(names, ", ")+") VALUES "+db.In(1, len(names)), args...)
	require.NoError(t, err, table)
}

// Backups and rotations of the keyset read these columns by their names.
func TestSealedColumnsExist(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		columns := schema(t, s.DB)
		require.NotEmpty(t, app.SealedColumns())
		for _, c := range app.SealedColumns() {
			require.True(t, columns[c.Table][c.Column], "%s.%s", c.Table, c.Column)
			require.True(t, columns[c.Table][c.IDColumn], "%s.%s", c.Table, c.IDColumn)
		}
	})
}

// schema returns the columns of every table.
func schema(t *testing.T, d *db.DB) map[string]map[string]bool {
	t.Helper()
	query := `SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = current_schema()`
	if d.Engine() == db.SQLite {
		query = `SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'`
	}
	rows, err := d.Read().QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	columns := map[string]map[string]bool{}
	for rows.Next() {
		var table, column string
		require.NoError(t, rows.Scan(&table, &column))
		if columns[table] == nil {
			columns[table] = map[string]bool{}
		}
		columns[table][column] = true
	}
	require.NoError(t, rows.Err())
	return columns
}

// A cache of the database follows the changes of other nodes only if its module declares it. The tests of each cache
// refresh it themselves, so this list is what notices one that is not declared.
func TestCachesFollowOtherNodes(t *testing.T) {
	t.Parallel()
	var names []string
	for _, m := range app.Declared() {
		for _, c := range m.Caches {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	require.Equal(t, []string{"active imports", "breakers", "connections", "credentials", "expunged payloads",
		"provider configurations",
		"settings of environments", "subscriptions"}, names)
}
