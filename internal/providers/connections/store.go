package connections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/probes"
)

type querier = db.Querier

// storedColumns binds the columns of a connection's own row.
func storedColumns(c *Connection) db.Columns {
	return db.Columns{
		db.Col("uuid", &c.UUID),
		db.Col("environment_id", &c.Environment),
		db.Col("provider", &c.Provider),
		db.Col("provider_config_key", &c.ProviderConfigKey),
		db.Col("connection_id", &c.ConnectionID),
		db.Col("owner_user_id", &c.OwnerUserID),
		db.Col("path_token", &c.PathToken),
		db.Col("status", &c.Status),
		db.Col("status_reason", &c.StatusReason),
		db.Col("enabled_status", &c.EnabledStatus),
		db.Col("enabled_reason", &c.EnabledReason),
		db.Col("auth_mode", &c.AuthMode),
		db.Col("connection_config", db.JSON(&c.Config)),
		db.Col("account_id", &c.Account.ID),
		db.Col("account_label", &c.Account.Label),
		db.Col("tags", db.JSON(&c.Tags)),
		db.Col("metadata", db.JSON(&c.Metadata)),
		db.Col("webhook", db.JSON(&c.Webhook)),
		db.Col("created_ms", db.Millis(&c.CreatedAt)),
		db.Col("updated_ms", db.Millis(&c.UpdatedAt)),
	}
}

// columns are those of a connection with its alias and the hint of its newest secret, which is null where no secret is
// stored.
func columns(c *Connection) db.Columns {
	return append(storedColumns(c),
		db.Col("(SELECT a.alias FROM webhook_aliases a WHERE a.connection_uuid = c.uuid)", &c.Alias),
		db.Col("(SELECT s.hint FROM connection_secrets s WHERE s.connection_uuid = c.uuid ORDER BY s.id DESC LIMIT 1)",
			secretHint{c}))
}

// secretHint reads the hint of a connection's secret.
type secretHint struct{ c *Connection }

// Scan implements sql.Scanner.
func (h secretHint) Scan(src any) error {
	var hint sql.NullString
	err := hint.Scan(src)
	h.c.HasSecret, h.c.SecretHint = hint.Valid, hint.String
	return err
}

const table = "FROM connections c"

// read returns the connection that meets the conditions, or not_found.
func read(ctx context.Context, q querier, w *db.Where) (Connection, error) {
	return readAs(ctx, q, columns, w)
}

// readAs is read for a row with other columns.
func readAs[T any](ctx context.Context, q querier, columns func(*T) db.Columns, w *db.Where) (T, error) {
	row, found, err := db.One(ctx, q, columns, table, w, "")
	switch {
	case err != nil:
		return row, fmt.Errorf("read connection: %w", err)
	case !found:
		return row, notFound()
	default:
		return row, nil
	}
}

func find(ctx context.Context, q querier, env id.Environment, key, connectionID string) (Connection, error) {
	return read(ctx, q, new(db.Where).And("environment_id = ?", string(env)).And("provider_config_key = ?", key).
		And("connection_id = ?", connectionID))
}

// versioned is a connection and the version of the collection in which it was read.
type versioned struct {
	Connection
	version int64
}

func versionedColumns(c *versioned) db.Columns {
	return append(columns(&c.Connection), db.VersionColumn(Collection, &c.version))
}

// findInbound reads a connection of any environment.
func findInbound(ctx context.Context, q querier, uuid string) (versioned, error) {
	return readAs(ctx, q, versionedColumns, new(db.Where).And("uuid = ?", uuid))
}

// findNamed returns the UUID of the connection that a path segment names, or not_found. It is one statement, because
// anyone can send unknown segments.
func findNamed(ctx context.Context, q querier, segment string, byAlias bool) (uuid string, err error) {
	query := "SELECT uuid FROM connections WHERE path_token = $1"
	if byAlias {
		query = "SELECT connection_uuid FROM webhook_aliases WHERE alias = $1 AND connection_uuid IS NOT NULL"
	}
	err = q.QueryRowContext(ctx, query, segment).Scan(&uuid)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", notFound()
	case err != nil:
		return "", fmt.Errorf("find the connection of a path: %w", err)
	default:
		return uuid, nil
	}
}

// lock finds the connection and keeps other changes to it waiting until the transaction ends. Both engines lock a row
// by writing it.
func lock(ctx context.Context, tx *sql.Tx, env id.Environment, key, connectionID string) (Connection, error) {
	_, err := tx.ExecContext(ctx, `UPDATE connections SET updated_ms = updated_ms
		WHERE environment_id = $1 AND provider_config_key = $2 AND connection_id = $3`, string(env), key, connectionID)
	if err != nil {
		return Connection{}, fmt.Errorf("lock connection: %w", err)
	}
	return find(ctx, tx, env, key, connectionID)
}

// lockStatus keeps other changes to a connection waiting until the transaction ends, and returns of it what nearly
// every renewal of tokens needs: its status and its version.
func (a accounts) lockStatus(ctx context.Context, tx *sql.Tx, env id.Environment, uuid string) (Connection, error) {
	bind := func(c *Connection) db.Columns { return storedColumns(c).Only("enabled_status", "updated_ms") }
	c, found, err := db.One(ctx, db.Prepared(a.svc.db, tx), bind, "FROM connections",
		new(db.Where).And("uuid = ?", uuid).And("environment_id = ?", string(env)), a.svc.db.ForUpdate())
	switch {
	case err != nil:
		return c, fmt.Errorf("lock connection: %w", err)
	case !found:
		return c, notFound()
	}
	return c, nil
}

// insert stores the connection unless its environment has one of that id.
func insert(ctx context.Context, tx *sql.Tx, c *Connection) (inserted bool, err error) {
	inserted, err = db.Insert(ctx, tx, "INSERT INTO connections", storedColumns(c),
		"ON CONFLICT (environment_id, provider_config_key, connection_id) DO NOTHING")
	if err != nil {
		return false, fmt.Errorf("insert connection: %w", err)
	}
	return inserted, nil
}

// update writes the columns of the connection's own row that can change.
func update(ctx context.Context, tx *sql.Tx, c *Connection) error {
	_, err := db.Update(ctx, tx, "UPDATE connections", storedColumns(c).Only("path_token", "status", "status_reason",
		"enabled_status", "enabled_reason", "auth_mode", "connection_config", "account_id", "account_label", "tags",
		"metadata", "webhook",
		"updated_ms"),
		new(db.Where).And("environment_id = ?", string(c.Environment)).And("uuid = ?", c.UUID))
	if err != nil {
		return fmt.Errorf("update connection: %w", err)
	}
	return nil
}

// remove deletes the connection's row, and with it its secrets.
func remove(ctx context.Context, tx *sql.Tx, env id.Environment, uuid string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM connections WHERE environment_id = $1 AND uuid = $2`, string(env), uuid)
	if err != nil {
		return fmt.Errorf("delete connection: %w", err)
	}
	return nil
}

// Filter narrows a list. A field with several values matches any of them; an empty field matches everything.
type Filter struct {
	ProviderConfigKeys []string
	Statuses           []Status
	// Health are outcomes of the last test. A connection that was never tested has none.
	Health []probes.Status
	// Owners are the ids of users to whom connections belong.
	Owners []string
	// AuthModes are names of entries of the definition's auth, or NoAuth.
	AuthModes []string
	// Tags are labels with their values, all of which the connection has to have.
	Tags []Tag
	// Prefix is the beginning of the connection id.
	Prefix string
}

// Tag is one label of a connection.
type Tag struct{ Key, Value string }

// ofID returns the environment's connections of an id.
func ofID(ctx context.Context, q querier, env id.Environment, connectionID string) ([]Connection, error) {
	return readAll(ctx, q, new(db.Where).And("environment_id = ?", string(env)).And("connection_id = ?", connectionID),
		"ORDER BY uuid")
}

func list(ctx context.Context, q querier, v access.View, f Filter, p page.Request) ([]Connection, error) {
	w, tail, err := f.where(v, p)
	if err != nil {
		return nil, err
	}
	return readAll(ctx, q, w, tail)
}

// where returns the conditions of a page of a list, and the end of its statement.
func (f *Filter) where(v access.View, p page.Request) (*db.Where, string, error) {
	w := new(db.Where).And("environment_id = ?", string(v.Environment))
	w.Numbered(v.Connections.Where("connection_id", w.Next()))
	db.AnyOf(w, "provider_config_key", f.ProviderConfigKeys)
	db.AnyOf(w, "status", f.Statuses)
	db.AnyOf(w, "auth_mode", f.AuthModes)
	if db.AnyOf(w, "owner_user_id", f.Owners); len(f.Owners) > 0 {
		w.And("owner_user_id <> ''") // the index is of these
	}
	if len(f.Health) > 0 {
		w.And("uuid IN (SELECT h.connection_uuid FROM connection_health h WHERE " + w.Embed(func(own *db.Where) {
			db.AnyOf(own.And("h.environment_id = ?", string(v.Environment)), "h.status", f.Health)
		}) + ")")
	}
	for _, tag := range f.Tags {
		// The stored object is compact JSON, and keys have no quotes, so the text of a member is found nowhere else in it.
		member, err := db.EncodeJSON(map[string]string{tag.Key: tag.Value})
		if err != nil {
			return nil, "", fmt.Errorf("encode a tag: %w", err)
		}
		w.And("replace(tags, ?, '') <> tags", member[1:len(member)-1])
	}
	if f.Prefix != "" {
		// Not LIKE: SQLite's ignores case, and an id may hold its wildcard.
		w.And(fmt.Sprintf("substr(connection_id, 1, %d) = ?", len(f.Prefix)), f.Prefix)
	}
	return w, w.Page("uuid", p), nil
}

func readAll(ctx context.Context, q querier, w *db.Where, tail string) ([]Connection, error) {
	list, err := db.All(ctx, q, columns, table, w, tail)
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	return list, nil
}

// hasOwned reports whether a user has more than so many connections of the environment.
func hasOwned(ctx context.Context, q db.Querier, env id.Environment, user string, count int) (bool, error) {
	var one int
	found, err := db.Found("connections of a member", q.QueryRowContext(ctx, `SELECT 1 FROM connections
		WHERE environment_id = $1 AND owner_user_id = $2 AND owner_user_id <> '' ORDER BY uuid LIMIT 1 OFFSET $3`,
		string(env), user, count).Scan(&one))
	return found, err
}

// hasPending reports whether the environment has more than so many pending connections.
func hasPending(ctx context.Context, q db.Querier, env id.Environment, count int) (bool, error) {
	var one int
	found, err := db.Found("pending connections", q.QueryRowContext(ctx, `SELECT 1 FROM connections
		WHERE environment_id = $1 AND status = $2 ORDER BY uuid LIMIT 1 OFFSET $3`, string(env), string(Pending),
		count).Scan(&one))
	return found, err
}
