package subscriptions

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/filters"
)

// row is a stored subscription: what is plain, and what is sealed.
type row struct {
	Subscription // without ForwardURL, Headers and Retiring
	// sealedURL, sealedSecret and sealedHeaders are nil in an update that keeps them.
	sealedURL, sealedSecret, sealedHeaders []byte
	// sealedRetiring is nil where no replaced secret signs; an update does not write it.
	sealedRetiring []byte
	updatedMs      int64
	deleted        bool
}

const columns = `id, environment_id, provider_config_key, connection_id, event_types, forward_url, signing_secret,
	signing_secret_hint, headers, description, enabled, disabled_reason, filter, payload_mode, retry_schedule, timeout_ms,
	metadata, retiring_secrets, created_ms, updated_ms, deleted_ms`

func scan(from interface{ Scan(dest ...any) error }) (row, error) {
	var r row
	var key, connection, reason, filter sql.NullString
	var types, schedule, metadata string
	var timeoutMs, createdMs int64
	var deletedMs sql.NullInt64
	err := from.Scan(&r.ID, &r.Environment, &key, &connection, &types, &r.sealedURL, &r.sealedSecret, &r.SecretHint,
		&r.sealedHeaders, &r.Description, &r.Enabled, &reason, &filter, &r.PayloadMode, &schedule, &timeoutMs, &metadata,
		&r.sealedRetiring, &createdMs, &r.updatedMs, &deletedMs)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, notFound()
	}
	if err != nil {
		return row{}, fmt.Errorf("read webhook subscription: %w", err)
	}
	r.ProviderConfigKey, r.ConnectionID, r.DisabledReason, r.Filter = key.String, connection.String, reason.String,
		filter.String
	r.Timeout, r.deleted = time.Duration(timeoutMs)*time.Millisecond, deletedMs.Valid
	r.CreatedAt, r.UpdatedAt = clock.FromMillis(createdMs), clock.FromMillis(r.updatedMs)
	err = errors.Join(decode(types, &r.EventTypes), decode(schedule, &r.RetrySchedule), decode(metadata, &r.Metadata))
	if err != nil {
		return row{}, fmt.Errorf("decode webhook subscription %s: %w", r.ID, err)
	}
	return r, nil
}

// find reads one subscription; a deleted one only when withDeleted is set.
func find(ctx context.Context, q db.Querier, v access.View, subscriptionID string, withDeleted bool) (row, error) {
	bound, args := visible(v, 3)
	r, err := scan(q.QueryRowContext(ctx, `SELECT `+columns+
		` FROM webhook_subscriptions WHERE environment_id = $1 AND id = $2`+bound,
		append([]any{string(v.Environment), subscriptionID}, args...)...))
	if err == nil && r.deleted && !withDeleted {
		return row{}, notFound()
	}
	return r, err
}

// visible is what restricts a query to the subscriptions that the view shows, beside their environment. One that takes
// the events of all connections is shown to whoever may see all of them.
func visible(v access.View, next int) (condition string, args []any) {
	condition, args = v.Connections.WhereCovers("connection_id", next)
	if condition != "" {
		condition = " AND " + condition
	}
	return condition, args
}

// readEntries reads what the index of the environment holds, in the order of the ids.
func readEntries(ctx context.Context, q db.Querier, env id.Environment,
	filter func(text string) *filters.Filter) ([]entry, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, enabled, provider_config_key, connection_id, event_types, filter
		FROM webhook_subscriptions WHERE environment_id = $1 AND deleted_ms IS NULL ORDER BY id`, string(env))
	if err != nil {
		return nil, fmt.Errorf("read webhook subscriptions: %w", err)
	}
	var entries []entry
	err = db.Each(rows, func(r *sql.Rows) error {
		e, err := scanEntry(r, filter)
		entries = append(entries, e)
		return err
	})
	return entries, err
}

func scanEntry(r *sql.Rows, filter func(text string) *filters.Filter) (entry, error) {
	var e entry
	var key, connection, text sql.NullString
	var encoded string
	if err := r.Scan(&e.ID, &e.Enabled, &key, &connection, &encoded, &text); err != nil {
		return entry{}, fmt.Errorf("read webhook subscription: %w", err)
	}
	e.scope = scope{key.String, connection.String}
	if text.Valid {
		e.Filter = filter(text.String)
	}
	var types []string
	if err := decode(encoded, &types); err != nil {
		return entry{}, fmt.Errorf("decode webhook subscription %s: %w", e.ID, err)
	}
	for _, t := range types {
		p, err := ParsePattern(t)
		if err != nil {
			return entry{}, fmt.Errorf("event type of webhook subscription %s: %w", e.ID, err)
		}
		e.patterns = append(e.patterns, p)
	}
	return e, nil
}

func insert(ctx context.Context, tx *sql.Tx, r row) error {
	plain, err := r.encode()
	if err != nil {
		return err
	}
	ms := clock.Millis(r.CreatedAt)
	_, err = tx.ExecContext(ctx, `INSERT INTO webhook_subscriptions (id, environment_id, provider_config_key,
			connection_id, event_types, forward_url, signing_secret, signing_secret_hint, headers, description, enabled,
			disabled_reason, filter, payload_mode, retry_schedule, timeout_ms, metadata, created_ms, updated_ms)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
		r.ID, string(r.Environment), nullable(r.ProviderConfigKey), nullable(r.ConnectionID), plain.types, r.sealedURL,
		r.sealedSecret, r.SecretHint, r.sealedHeaders, r.Description, r.Enabled, nullable(r.DisabledReason),
		nullable(r.Filter), string(r.PayloadMode), plain.schedule, r.Timeout.Milliseconds(), plain.metadata, ms, ms)
	if err != nil {
		return fmt.Errorf("insert webhook subscription: %w", err)
	}
	return nil
}

// update writes what r holds unless the subscription has changed since r was read; updated_ms is its version, so it
// rises with every change. The sealed columns that r leaves nil are not touched, because a rotation of the keyset may
// be writing them.
func update(ctx context.Context, tx *sql.Tx, r row, now time.Time) (updated bool, err error) {
	plain, err := r.encode()
	if err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, `UPDATE webhook_subscriptions SET provider_config_key = $4, connection_id = $5,
			event_types = $6, forward_url = COALESCE($7, forward_url), signing_secret = COALESCE($8, signing_secret),
			signing_secret_hint = $9, headers = COALESCE($10, headers), description = $11, enabled = $12,
			disabled_reason = $13, payload_mode = $14, retry_schedule = $15, timeout_ms = $16, metadata = $17,
			updated_ms = $18, filter = $19
		WHERE environment_id = $1 AND id = $2 AND updated_ms = $3 AND deleted_ms IS NULL`,
		string(r.Environment), r.ID, r.updatedMs, nullable(r.ProviderConfigKey), nullable(r.ConnectionID), plain.types,
		bytesOrNull(r.sealedURL), bytesOrNull(r.sealedSecret), r.SecretHint, bytesOrNull(r.sealedHeaders), r.Description,
		r.Enabled, nullable(r.DisabledReason), string(r.PayloadMode), plain.schedule, r.Timeout.Milliseconds(),
		plain.metadata, r.nextVersion(now), nullable(r.Filter))
	if err != nil {
		return false, fmt.Errorf("update webhook subscription: %w", err)
	}
	return affected(result)
}

// nextVersion is the present time, or the next millisecond where the subscription has changed in this one.
func (r *row) nextVersion(now time.Time) int64 { return max(clock.Millis(now), r.updatedMs+1) }

// markDeleted deletes the subscription softly: its past deliveries still name it.
func markDeleted(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string,
	now time.Time) (deleted bool, err error) {
	result, err := tx.ExecContext(ctx, `UPDATE webhook_subscriptions SET deleted_ms = $3, updated_ms = updated_ms + 1
		WHERE environment_id = $1 AND id = $2 AND deleted_ms IS NULL`, string(env), subscriptionID, clock.Millis(now))
	if err != nil {
		return false, fmt.Errorf("delete webhook subscription: %w", err)
	}
	return affected(result)
}

// Filter narrows a list. Values of one field mean any of them; empty fields do not narrow.
type Filter struct {
	ProviderConfigKeys []string
	ConnectionIDs      []string
	Enabled            []bool
}

func list(ctx context.Context, q db.Querier, v access.View, f Filter, p page.Request) ([]row, error) {
	bound, names := visible(v, 2)
	args := append([]any{string(v.Environment)}, names...)
	var where strings.Builder
	where.WriteString(bound)
	in := func(column string, values []any) {
		if len(values) > 0 {
			where.WriteString(` AND ` + column + ` IN ` + db.In(len(args)+1, len(values)))
			args = append(args, values...)
		}
	}
	in("provider_config_key", anys(f.ProviderConfigKeys))
	in("connection_id", anys(f.ConnectionIDs))
	in("enabled", anys(f.Enabled))
	if p.After != "" {
		fmt.Fprintf(&where, ` AND id %s $%d`, p.Compare(), len(args)+1)
		args = append(args, p.After)
	}
	rows, err := q.QueryContext(ctx, fmt.Sprintf(`SELECT %s FROM webhook_subscriptions
		WHERE environment_id = $1 AND deleted_ms IS NULL%s ORDER BY id %s LIMIT %d`,
		columns, where.String(), p.Direction(), p.Fetch()), args...)
	if err != nil {
		return nil, fmt.Errorf("list webhook subscriptions: %w", err)
	}
	var out []row
	err = db.Each(rows, func(from *sql.Rows) error {
		r, err := scan(from)
		out = append(out, r)
		return err
	})
	return out, err
}

// plain are the columns that hold JSON in clear.
type plain struct{ types, schedule, metadata string }

func (r *row) encode() (p plain, err error) {
	for into, v := range map[*string]any{&p.types: r.EventTypes, &p.schedule: r.RetrySchedule, &p.metadata: r.Metadata} {
		if *into, err = encode(v); err != nil {
			return p, fmt.Errorf("encode webhook subscription: %w", err)
		}
	}
	return p, nil
}

// encode returns v as compact JSON without HTML escapes, the form that is stored and measured.
func encode(v any) (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func decode(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(into)
}

func nullable(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

func bytesOrNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func anys[T any](values []T) []any {
	out := make([]any, len(values))
	for i, v := range values {
		out[i] = v
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

// holdsSubscriptions reports whether an environment has any subscription that was not deleted.
func holdsSubscriptions(ctx context.Context, q db.Querier, env id.Environment) (held bool, err error) {
	err = q.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM webhook_subscriptions
		WHERE environment_id = $1 AND deleted_ms IS NULL)`, string(env)).Scan(&held)
	if err != nil {
		return false, fmt.Errorf("look for subscriptions: %w", err)
	}
	return held, nil
}
