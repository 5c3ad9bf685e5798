package migrate_test

import (
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/testkit"
)

// beforeOrigins is the version before the one that stores to which OAuth client credentials belong.
const beforeOrigins = 61

// Stored credentials belong to the OAuth client that their provider configuration has, unless their connection says
// that it has changed since. That of a connection without a configuration, and the base URL, are not known.
func TestOriginsOfStoredCredentials(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		require.NoError(t, migrate.DownTo(t.Context(), s.DB, beforeOrigins))
		run := func(statement string, args ...any) {
			t.Helper()
			_, err := s.DB.Schema().ExecContext(t.Context(), statement, args...)
			require.NoError(t, err, statement)
		}
		run(`INSERT INTO teams (id, name, created_ms) VALUES ('t', 't', 0)`)
		run(`INSERT INTO environments (id, team_id, name, created_ms) VALUES ('e', 't', 'a', 0), ('f', 't', 'b', 0)`)
		for i, env := range []string{"e", "f"} {
			run(`INSERT INTO provider_configs (id, environment_id, provider_config_key, provider, display_name, client_id,
				client_secret_hint, scopes, base_url, rate_limit, created_ms, updated_ms)
				VALUES ($1, $2, 'github', 'github', '', $3, '', 'null', '', 'null', 0, 0)`, fmt.Sprint("p", i), env,
				fmt.Sprint("client-of-", env))
		}
		for uuid, c := range map[string]struct{ env, key, reason string }{
			"of-e": {"e", "github", ""}, "of-f": {"f", "github", "credentials_refused"},
			"changed": {"e", "github", "client_changed"}, "moved": {"e", "github", "host_changed"},
			"without": {"e", "slack", ""},
		} {
			run(`INSERT INTO connections (uuid, environment_id, provider, provider_config_key, connection_id, path_token,
				status, status_reason, tags, metadata, webhook, created_ms, updated_ms, enabled_reason)
				VALUES ($1, $2, 'github', $3, $1, $1, 'active', '', '{}', '{}', '{}', 0, 0, $4)`, uuid, c.env, c.key, c.reason)
			run(`INSERT INTO connection_credentials (connection_uuid, environment_id, auth_mode, fields, hosts,
				scopes_requested, scopes_granted, fingerprint, revision, stored_ms, refresh_failures, refresh_error)
				VALUES ($1, $2, 'oauth2', '[]', '[]', 'null', 'null', '', 1, 0, 0, '')`, uuid, c.env)
		}
		_, after, err := migrate.Up(t.Context(), s.DB)
		require.NoError(t, err)
		require.NoError(t, after.Check())
		got := map[string]string{}
		rows, err := s.DB.Read().QueryContext(t.Context(), `SELECT connection_uuid, client_id, base_url
			FROM connection_credentials`)
		require.NoError(t, err)
		require.NoError(t, db.Each(rows, func(r *sql.Rows) error {
			var uuid, client string
			var base sql.NullString
			err := r.Scan(&uuid, &client, &base)
			got[uuid] = client
			require.False(t, base.Valid, "it may have been another since")
			return err
		}))
		require.Equal(t, map[string]string{"of-e": "client-of-e", "of-f": "client-of-f", "changed": "", "moved": "",
			"without": ""}, got)
	})
}

// A migration that does not get a table on PostgreSQL ends with words, instead of making every statement of the nodes
// wait behind it. Nothing has changed then, and the next run goes on.
func TestMigrationsDoNotWaitForTables(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, s testkit.Store) {
		if s.DB.Engine() != db.Postgres {
			t.Skip("SQLite has one writer")
		}
		require.NoError(t, migrate.DownTo(t.Context(), s.DB, beforeOrigins))
		require.NoError(t, s.DB.Tx(t.Context(), func(tx *sql.Tx) error {
			// As a backup does, and no node.
			if _, err := tx.ExecContext(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = 0"); err != nil {
				return err
			}
			var n int
			if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM connection_credentials`).Scan(&n); err != nil {
				return err
			}
			_, _, err := migrate.Up(t.Context(), s.DB)
			require.ErrorIs(t, err, migrate.ErrBusy)
			return nil
		}))
		state, err := migrate.Read(t.Context(), s.DB)
		require.NoError(t, err)
		require.EqualValues(t, beforeOrigins, state.Current)
		_, after, err := migrate.Up(t.Context(), s.DB)
		require.NoError(t, err)
		require.NoError(t, after.Check())
	})
}
