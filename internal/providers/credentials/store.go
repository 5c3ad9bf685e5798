package credentials

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

// SealedColumns returns the columns that this package seals, for the rotation of the keyset.
func SealedColumns() []secretbox.Column {
	return []secretbox.Column{{Table: "connection_credential_values", Column: "value", IDColumn: "id"}}
}

// place is where a value is sealed for: another connection's, or another name, does not open it.
func place(connectionUUID, name string) secretbox.AD {
	return secretbox.AD{Table: "connection_credential_values", Column: "value", RowID: valueID(connectionUUID, name)}
}

func valueID(connectionUUID, name string) string { return connectionUUID + "/" + name }

func setColumns(s *Set) db.Columns {
	return db.Columns{
		db.Col("connection_uuid", &s.ConnectionUUID),
		db.Col("environment_id", &s.Environment),
		db.Col("auth_mode", &s.Mode),
		db.Col("fields", db.JSON(&s.Fields)),
		db.Col("hosts", db.JSON(&s.Hosts)),
		db.Col("base_url", &s.BaseURL),
		db.Col("client_id", &s.ClientID),
		db.Col("scopes_requested", db.JSON(&s.ScopesRequested)),
		db.Col("scopes_granted", db.JSON(&s.ScopesGranted)),
		db.Col("fingerprint", &s.Fingerprint),
		db.Col("revision", &s.Revision),
		db.Col("stored_ms", db.Millis(&s.StoredAt)),
		db.Col("expires_ms", db.NullMillis(&s.ExpiresAt)),
		db.Col("refreshed_ms", db.NullMillis(&s.RefreshedAt)),
		db.Col("refresh_failures", &s.RefreshFailures),
		db.Col("refresh_error", &s.RefreshError),
	}
}

// owned are the conditions of the row of a connection in its environment.
func owned(env id.Environment, connectionUUID string) *db.Where {
	return new(db.Where).And("connection_uuid = ?", connectionUUID).And("environment_id = ?", string(env))
}

// replace stores the description in place of any other of the connection, whose values it deletes. It returns the
// revision of the result.
func replace(ctx context.Context, tx *sql.Tx, s *Set) (revision int64, err error) {
	if _, err := tx.ExecContext(ctx, `DELETE FROM connection_credential_values WHERE connection_uuid IN
		(SELECT connection_uuid FROM connection_credentials WHERE connection_uuid = $1 AND environment_id = $2)`,
		s.ConnectionUUID, string(s.Environment)); err != nil {
		return 0, fmt.Errorf("delete credentials: %w", err)
	}
	c := setColumns(s)
	args, err := c.Args()
	if err != nil {
		return 0, fmt.Errorf("encode credentials: %w", err)
	}
	err = tx.QueryRowContext(ctx, "INSERT INTO connection_credentials ("+c.Names()+") VALUES "+db.In(1, len(c))+`
		ON CONFLICT (connection_uuid) DO UPDATE SET auth_mode = excluded.auth_mode, fields = excluded.fields,
			hosts = excluded.hosts, base_url = excluded.base_url, client_id = excluded.client_id,
			scopes_requested = excluded.scopes_requested, scopes_granted = excluded.scopes_granted,
			fingerprint = excluded.fingerprint, revision = connection_credentials.revision + 1,
			stored_ms = excluded.stored_ms, expires_ms = excluded.expires_ms, refreshed_ms = NULL, refresh_failures = 0,
			refresh_error = ''
		WHERE connection_credentials.environment_id = excluded.environment_id RETURNING revision`, args...).Scan(&revision)
	if err != nil {
		return 0, fmt.Errorf("store credentials: %w", err)
	}
	return revision, nil
}

// update stores a changed description, if the stored one has that revision.
func update(ctx context.Context, q db.Querier, s *Set, revision int64) (bool, error) {
	changed, err := db.Update(ctx, q, "UPDATE connection_credentials",
		setColumns(s).Only("fields", "hosts", "fingerprint", "revision", "scopes_granted", "expires_ms",
			"refreshed_ms", "refresh_failures", "refresh_error"),
		owned(s.Environment, s.ConnectionUUID).And("revision = ?", revision))
	if err != nil {
		return false, fmt.Errorf("renew credentials: %w", err)
	}
	return changed, nil
}

// assign stores the OAuth client of credentials that have none.
func assign(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID, clientID string) (bool, error) {
	s := Set{ClientID: clientID}
	assigned, err := db.Update(ctx, tx, "UPDATE connection_credentials", setColumns(&s).Only("client_id"),
		owned(env, connectionUUID).And("client_id = ''"))
	if err != nil {
		return false, fmt.Errorf("store the client of credentials: %w", err)
	}
	return assigned, nil
}

// maxErrorBytes bounds the message of a refresh that failed.
const maxErrorBytes = 500

func addFailure(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID string, revision int64,
	message string) error {
	if len(message) > maxErrorBytes {
		message = strings.ToValidUTF8(message[:maxErrorBytes], "")
	}
	w := owned(env, connectionUUID).And("revision = ?", revision)
	//nolint:gosec // the text is of constants and placeholders
	_, err := tx.ExecContext(ctx, "UPDATE connection_credentials SET refresh_failures = refresh_failures + 1, "+
		"refresh_error = "+w.Arg(message)+w.Text(), w.Args()...)
	if err != nil {
		return fmt.Errorf("record a failed refresh: %w", err)
	}
	return nil
}

// sealedValue is a stored value.
type sealedValue struct {
	id, connectionUUID, name string
	value                    []byte
}

func valueColumns(v *sealedValue) db.Columns {
	return db.Columns{
		db.Col("id", &v.id),
		db.Col("connection_uuid", &v.connectionUUID),
		db.Col("name", &v.name),
		db.Col("value", &v.value),
	}
}

// putValues stores sealed values in place of any others of their names.
func putValues(ctx context.Context, q db.Querier, values []sealedValue) error {
	if len(values) == 0 {
		return nil
	}
	var names string
	var rows []string
	var args []any
	for i := range values {
		c := valueColumns(&values[i])
		of, err := c.Args()
		if err != nil {
			return fmt.Errorf("encode credentials: %w", err)
		}
		names = c.Names()
		rows = append(rows, db.In(len(args)+1, len(of)))
		args = append(args, of...)
	}
	if _, err := q.ExecContext(ctx, "INSERT INTO connection_credential_values ("+names+") VALUES "+
		strings.Join(rows, ", ")+" ON CONFLICT (id) DO UPDATE SET value = excluded.value", args...); err != nil {
		return fmt.Errorf("store credentials: %w", err)
	}
	return nil
}

// joined is a description with one of its values, and the version of the collection at which both were read.
type joined struct {
	Set
	name    string
	value   []byte
	version int64
}

func joinedColumns(j *joined) db.Columns {
	return append(setColumns(&j.Set), db.Col("name", db.Null(&j.name)), db.Col("value", &j.value),
		db.VersionColumn(collection, &j.version))
}

// readSealed returns the credentials of a UUID, of any environment, with their values, for the cache.
func readSealed(ctx context.Context, q db.Querier, connectionUUID string) (*Sealed, int64, error) {
	found, version, err := readEach(ctx, q, connectionUUID)
	if err == nil && len(found) == 0 {
		err = notFound()
	}
	return found[connectionUUID], version, err
}

// readEach is readSealed for several, and leaves out those that are not stored. One statement reads descriptions and
// values, so that they belong together even if a change commits meanwhile.
func readEach(ctx context.Context, q db.Querier, connectionUUIDs ...string) (found map[string]*Sealed, version int64,
	err error) {
	rows, err := db.All(ctx, q, joinedColumns, `FROM connection_credentials
		LEFT JOIN (SELECT connection_uuid AS owner, name, value FROM connection_credential_values) AS stored
		ON owner = connection_uuid`, db.AnyOf(new(db.Where), "connection_uuid", connectionUUIDs), "")
	if err != nil {
		return nil, 0, fmt.Errorf("read credentials: %w", err)
	}
	found = make(map[string]*Sealed, len(connectionUUIDs))
	for i := range rows {
		row := &rows[i]
		s := found[row.ConnectionUUID]
		if s == nil {
			s = &Sealed{Set: row.Set, values: map[string][]byte{}}
			found[row.ConnectionUUID] = s
		}
		if row.name != "" {
			s.values[row.name] = row.value
		}
		version = row.version
	}
	return found, version, nil
}

// sets returns the descriptions of the credentials of connections, by UUID.
func sets(ctx context.Context, q db.Querier, env id.Environment, connectionUUIDs []string) (map[string]Set, error) {
	out := make(map[string]Set, len(connectionUUIDs))
	if len(connectionUUIDs) == 0 {
		return out, nil
	}
	w := new(db.Where).And("environment_id = ?", string(env))
	list, err := db.All(ctx, q, setColumns, "FROM connection_credentials", db.AnyOf(w, "connection_uuid", connectionUUIDs),
		"")
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	for i := range list {
		out[list[i].ConnectionUUID] = list[i]
	}
	return out, nil
}

// roundMillis returns a time as it is stored.
func roundMillis(t time.Time) time.Time { return clock.FromMillis(clock.Millis(t)) }

// sorted returns a sorted copy without duplicates; never nil.
func sorted(list []string) []string {
	list = slices.AppendSeq([]string{}, slices.Values(list))
	slices.Sort(list)
	return slices.Compact(list)
}
