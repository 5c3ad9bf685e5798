package connections

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

type querier = db.Querier

// columns are those of scan. The newest secret's hint is null where no secret is stored.
const columns = `c.uuid, c.environment_id, c.provider, c.provider_config_key, c.connection_id, c.path_token,
	c.status, c.status_reason, c.tags, c.metadata, c.webhook, c.created_ms, c.updated_ms,
	(SELECT a.alias FROM webhook_aliases a WHERE a.connection_uuid = c.uuid),
	(SELECT s.hint FROM connection_secrets s WHERE s.connection_uuid = c.uuid ORDER BY s.id DESC LIMIT 1)`

func scan(row interface{ Scan(dest ...any) error }) (Connection, error) {
	var c Connection
	var tags, metadata, webhook string
	var createdMs, updatedMs int64
	var alias, hint sql.NullString
	err := row.Scan(&c.UUID, &c.Environment, &c.Provider, &c.ProviderConfigKey, &c.ConnectionID, &c.PathToken,
		&c.Status, &c.StatusReason, &tags, &metadata, &webhook, &createdMs, &updatedMs, &alias, &hint)
	if errors.Is(err, sql.ErrNoRows) {
		return Connection{}, notFound()
	}
	if err != nil {
		return Connection{}, fmt.Errorf("read connection: %w", err)
	}
	for _, column := range []struct {
		text string
		into any
	}{{tags, &c.Tags}, {metadata, &c.Metadata}, {webhook, &c.Webhook}} {
		d := json.NewDecoder(strings.NewReader(column.text))
		d.UseNumber()
		if err := d.Decode(column.into); err != nil {
			return Connection{}, fmt.Errorf("decode connection %s: %w", c.UUID, err)
		}
	}
	if alias.Valid {
		c.Alias = &alias.String
	}
	c.HasSecret, c.SecretHint = hint.Valid, hint.String
	c.CreatedAt, c.UpdatedAt = clock.FromMillis(createdMs), clock.FromMillis(updatedMs)
	return c, nil
}

func find(ctx context.Context, q querier, env id.Environment, key, connectionID string) (Connection, error) {
	return scan(q.QueryRowContext(ctx, `SELECT `+columns+` FROM connections c
		WHERE c.environment_id = $1 AND c.provider_config_key = $2 AND c.connection_id = $3`, string(env), key, connectionID))
}

func findInbound(ctx context.Context, q querier, segment string, byAlias bool) (Connection, error) {
	where := `c.path_token = $1`
	if byAlias {
		where = `c.uuid = (SELECT w.connection_uuid FROM webhook_aliases w WHERE w.alias = $1)`
	}
	return scan(q.QueryRowContext(ctx, `SELECT `+columns+` FROM connections c WHERE `+where, segment))
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

type encoded struct{ tags, metadata, webhook string }

func (c *Connection) encode() (e encoded, err error) {
	e.tags, err = encode(c.Tags)
	if err == nil {
		e.metadata, err = encode(c.Metadata)
	}
	if err == nil {
		e.webhook, err = encode(c.Webhook)
	}
	if err != nil {
		return e, fmt.Errorf("encode connection: %w", err)
	}
	return e, nil
}

// insert stores the connection unless its environment has one of that id.
func insert(ctx context.Context, tx *sql.Tx, c *Connection) (inserted bool, err error) {
	e, err := c.encode()
	if err != nil {
		return false, err
	}
	r, err := tx.ExecContext(ctx, `INSERT INTO connections (uuid, environment_id, provider, provider_config_key,
			connection_id, path_token, status, status_reason, tags, metadata, webhook, created_ms, updated_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
		ON CONFLICT (environment_id, provider_config_key, connection_id) DO NOTHING`,
		c.UUID, string(c.Environment), c.Provider, c.ProviderConfigKey, c.ConnectionID, c.PathToken, string(c.Status),
		c.StatusReason, e.tags, e.metadata, e.webhook, clock.Millis(c.CreatedAt), clock.Millis(c.UpdatedAt))
	if err != nil {
		return false, fmt.Errorf("insert connection: %w", err)
	}
	return affected(r)
}

// update writes what can change on the connection's own row.
func update(ctx context.Context, tx *sql.Tx, c *Connection) error {
	e, err := c.encode()
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE connections SET path_token = $3, status = $4, status_reason = $5, tags = $6,
			metadata = $7, webhook = $8, updated_ms = $9
		WHERE environment_id = $1 AND uuid = $2`,
		string(c.Environment), c.UUID, c.PathToken, string(c.Status), c.StatusReason, e.tags, e.metadata, e.webhook,
		clock.Millis(c.UpdatedAt))
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

// Filter narrows a list. Values of one field mean any of them; empty fields do not narrow.
type Filter struct {
	ProviderConfigKeys []string
	Statuses           []Status
	// Prefix is what the connection id begins with.
	Prefix string
}

// ofID returns the environment's connections of an id.
func ofID(ctx context.Context, q querier, env id.Environment, connectionID string) ([]Connection, error) {
	return query(ctx, q, ` AND c.connection_id = $2 ORDER BY c.uuid`, string(env), connectionID)
}

func list(ctx context.Context, q querier, v access.View, f Filter, p page.Request) ([]Connection, error) {
	args := []any{string(v.Environment)}
	var where strings.Builder
	if condition, names := v.Connections.Where("c.connection_id", 2); condition != "" {
		where.WriteString(" AND " + condition)
		args = append(args, names...)
	}
	in := func(column string, values []any) {
		if len(values) > 0 {
			where.WriteString(` AND ` + column + ` IN ` + db.In(len(args)+1, len(values)))
			args = append(args, values...)
		}
	}
	in("c.provider_config_key", anys(f.ProviderConfigKeys))
	in("c.status", anys(f.Statuses))
	if f.Prefix != "" {
		// Not LIKE: SQLite's ignores case, and an id may hold its wildcard.
		fmt.Fprintf(&where, ` AND substr(c.connection_id, 1, %d) = $%d`, len(f.Prefix), len(args)+1)
		args = append(args, f.Prefix)
	}
	if p.After != "" {
		fmt.Fprintf(&where, ` AND c.uuid %s $%d`, p.Compare(), len(args)+1)
		args = append(args, p.After)
	}
	return query(ctx, q, fmt.Sprintf(`%s ORDER BY c.uuid %s LIMIT %d`, where.String(), p.Direction(), p.Fetch()), args...)
}

// query returns the connections of an environment, the first argument, that the conditions behind its own select.
func query(ctx context.Context, q querier, conditions string, args ...any) ([]Connection, error) {
	rows, err := q.QueryContext(ctx, `SELECT `+columns+` FROM connections c WHERE c.environment_id = $1`+conditions,
		args...)
	if err != nil {
		return nil, fmt.Errorf("list connections: %w", err)
	}
	out := []Connection{}
	err = db.Each(rows, func(r *sql.Rows) error {
		c, err := scan(r)
		out = append(out, c)
		return err
	})
	return out, err
}

func anys[T ~string](values []T) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

func affected(r sql.Result) (bool, error) {
	n, err := r.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("count changed rows: %w", err)
	}
	return n > 0, nil
}
