package subscriptions

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// row is a stored subscription with its sealed values.
type row struct {
	Subscription // without ForwardURL, Headers and Retiring
	// sealedRetiring is nil if no replaced secret signs.
	sealedURL, sealedSecret, sealedHeaders, sealedRetiring []byte
	// retiringUntil is when the last replaced secret stops signing.
	retiringUntil *time.Time
	deletedAt     *time.Time
}

// columns binds the columns of a row: those that only the service writes, and those of the writable fields.
func columns(r *row) db.Columns {
	c := db.Columns{
		db.Col("id", &r.ID),
		db.Col("environment_id", &r.Environment),
		db.Col(columnURL, &r.sealedURL),
		db.Col(columnSecret, &r.sealedSecret),
		db.Col(columnRetiring, &r.sealedRetiring),
		db.Col("retiring_until_ms", db.NullMillis(&r.retiringUntil)),
		db.Col(columnHeaders, &r.sealedHeaders),
		db.Col("disabled_reason", db.Null(&r.DisabledReason)),
		db.Col("created_ms", db.Millis(&r.CreatedAt)),
		db.Col("updated_ms", db.Millis(&r.UpdatedAt)),
		db.Col("deleted_ms", db.NullMillis(&r.deletedAt)),
	}
	for _, f := range fields(&Change{}, &r.Subscription) {
		c = append(c, f.column...)
	}
	return c
}

const table = "FROM webhook_subscriptions"

// find reads one subscription, and a deleted one only if withDeleted is set.
func find(ctx context.Context, q db.Querier, v access.View, subscriptionID string, withDeleted bool) (row, error) {
	return findAs(ctx, q, v, subscriptionID, withDeleted, "")
}

// lock is find for a subscription that is not deleted, and holds its row until the transaction ends. It returns
// precondition_failed if the request is for another version.
func (s *Service) lock(ctx context.Context, tx *sql.Tx, v access.View, subscriptionID string) (row, error) {
	r, err := findAs(ctx, tx, v, subscriptionID, false, s.cfg.DB.ForUpdate())
	if err != nil {
		return row{}, err
	}
	return r, etag.Check(ctx, r.Version())
}

func findAs(ctx context.Context, q db.Querier, v access.View, subscriptionID string, withDeleted bool,
	lock string) (row, error) {
	w := visible(v).And("id = ?", subscriptionID)
	r, found, err := db.One(ctx, q, columns, table, w, lock)
	switch {
	case err != nil:
		return row{}, fmt.Errorf("read webhook subscription: %w", err)
	case !found, r.deletedAt != nil && !withDeleted:
		return row{}, notFound()
	default:
		return r, nil
	}
}

// visible restricts a query to the subscriptions that the view shows. A subscription to the events of all connections
// is shown to a view of all connections only.
func visible(v access.View) *db.Where {
	w := new(db.Where).And("environment_id = ?", string(v.Environment))
	return w.Numbered(v.Connections.WhereCovers("connection_id", w.Next()))
}

// indexed is the part of a row that the index needs.
type indexed struct {
	id      string
	enabled bool
	scope   scope
	types   []string
	filter  string
}

func indexedColumns(r *indexed) db.Columns {
	return db.Columns{
		db.Col("id", &r.id),
		db.Col("enabled", &r.enabled),
		db.Col("provider_config_key", db.Null(&r.scope.providerConfigKey)),
		db.Col("connection_id", db.Null(&r.scope.connectionID)),
		db.Col("event_types", db.JSON(&r.types)),
		db.Col("filter", db.Null(&r.filter)),
	}
}

// readEntries reads the environment's entries of the index, in the order of the ids: those of the given ids if there
// are any, otherwise all.
func (d *Directory) readEntries(ctx context.Context, q db.Querier, env id.Environment,
	ids ...string) ([]entry, error) {
	w := new(db.Where).And("environment_id = ?", string(env)).And("deleted_ms IS NULL")
	db.AnyOf(w, "id", ids)
	rows, err := db.All(ctx, q, indexedColumns, table, w, "ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("read webhook subscriptions: %w", err)
	}
	entries := make([]entry, len(rows))
	for i, r := range rows {
		for _, text := range r.types {
			if violation := PatternViolation(text); violation != nil {
				return nil, fmt.Errorf("read webhook subscription %s: pattern: %w", r.id, violation)
			}
		}
		entries[i] = entry{Matched: Matched{ID: r.id, Enabled: r.enabled}, scope: r.scope,
			slots: slotsOf(d.types, r.types, r.scope)}
		if r.filter != "" {
			entries[i].Filter = d.filters.get(r.filter)
		}
	}
	return entries, nil
}

func insert(ctx context.Context, tx *sql.Tx, r row) error {
	if _, err := db.Insert(ctx, tx, "INSERT INTO webhook_subscriptions", columns(&r), ""); err != nil {
		return fmt.Errorf("insert webhook subscription: %w", err)
	}
	return nil
}

// write writes the columns of a locked subscription that differ from the row before. Unchanged sealed columns are not
// written, because a rotation of the keyset may be writing them.
func write(ctx context.Context, tx *sql.Tx, before, after row) error {
	changed, err := columns(&after).Changed(columns(&before))
	if err == nil {
		_, err = db.Update(ctx, tx, "UPDATE webhook_subscriptions", changed, new(db.Where).
			And("environment_id = ?", string(before.Environment)).And("id = ?", before.ID))
	}
	if err != nil {
		return fmt.Errorf("update webhook subscription: %w", err)
	}
	return nil
}

// markDeleted marks the subscription as deleted. Its past deliveries still name it.
func markDeleted(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string,
	now time.Time) (deleted bool, err error) {
	deleted, err = db.Changed(tx.ExecContext(ctx, `UPDATE webhook_subscriptions SET deleted_ms = $3,
		updated_ms = updated_ms + 1 WHERE environment_id = $1 AND id = $2 AND deleted_ms IS NULL`,
		string(env), subscriptionID, clock.Millis(now)))
	if err != nil {
		return false, fmt.Errorf("delete webhook subscription: %w", err)
	}
	return deleted, nil
}

// Filter restricts a list. Values of one field are alternatives. Empty fields do not restrict.
type Filter struct {
	ProviderConfigKeys []string
	ConnectionIDs      []string
	Enabled            []bool
}

func list(ctx context.Context, q db.Querier, v access.View, f Filter, p page.Request) ([]row, error) {
	w := visible(v).And("deleted_ms IS NULL")
	db.AnyOf(w, "provider_config_key", f.ProviderConfigKeys)
	db.AnyOf(w, "connection_id", f.ConnectionIDs)
	db.AnyOf(w, "enabled", f.Enabled)
	rows, err := db.All(ctx, q, columns, table, w, w.Page("id", p))
	if err != nil {
		return nil, fmt.Errorf("list webhook subscriptions: %w", err)
	}
	return rows, nil
}
