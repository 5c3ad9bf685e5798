package imports

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
)

// errChanged is the error of a change to an import that has changed since it was read.
var errChanged = errors.New("the import has changed since it was read")

const (
	tableName = "catalog_imports"
	table     = "FROM " + tableName
)

// columns binds the columns of a row, except those of the queue: claim_id, lease_ms, attempts and leases_lost.
func columns(m *Import) db.Columns {
	return append(described(m), db.Col("definition", &m.definition), db.Col("outcome", optional(&m.Outcome)))
}

// described are the columns that lists need.
func described(m *Import) db.Columns {
	return db.Columns{
		db.Col("id", &m.ID),
		db.Col("environment_id", &m.Environment),
		db.Col("slug", &m.Slug),
		db.Col("extends", &m.Extends),
		db.Col("display_name", &m.DisplayName),
		db.Col("status", &m.Status),
		db.Col("source", &m.Source),
		db.Col("url", &m.URL),
		db.Col("base_url", &m.BaseURL),
		db.Col("headers", db.JSON(&m.Headers)),
		db.Col("probe", &m.Probe),
		db.Col("includes", db.JSON(&m.Include)),
		db.Col("excludes", db.JSON(&m.Exclude)),
		db.Col("trusted", &m.Trusted),
		db.Col("document", optional(&m.Document)),
		db.Col("failure", optional(&m.Failure)),
		db.Col("stored_bytes", &m.StoredBytes),
		db.Col("actions", &m.Actions),
		db.Col("progress", optional(&m.Progress)),
		db.Col("created_by_type", &m.CreatedBy.Kind),
		db.Col("created_by_id", &m.CreatedBy.ID),
		db.Col("created_by_name", &m.CreatedBy.Name),
		db.Col("due_ms", db.Millis(&m.due)),
		db.Col("version", &m.version),
		db.Col("created_ms", db.Millis(&m.CreatedAt)),
		db.Col("updated_ms", db.Millis(&m.UpdatedAt)),
		db.Col("started_ms", db.NullMillis(&m.StartedAt)),
		db.Col("finished_ms", db.NullMillis(&m.FinishedAt)),
		db.Col("activated_ms", db.NullMillis(&m.ActivatedAt)),
	}
}

// changing returns the columns that change after the creation. finished_ms is the queue's while it holds the import.
func changing(m *Import) db.Columns {
	return columns(m).Only("status", "document", "outcome", "definition", "failure", "stored_bytes", "actions",
		"due_ms", "version", "updated_ms", "started_ms", "activated_ms")
}

// optional binds a value that is stored as JSON, and as an empty text while it is not there.
func optional[T any](field *T) any {
	return db.Text(func() (string, error) {
		text, err := db.EncodeJSON(field)
		if text == "null" {
			text = ""
		}
		return text, err
	}, func(text string) error {
		if text == "" {
			return nil
		}
		return db.DecodeJSON(text, field)
	})
}

func insert(ctx context.Context, tx *sql.Tx, m *Import) error {
	var claim string
	var lease int64
	c := append(columns(m), db.Col("claim_id", &claim), db.Col("lease_ms", &lease))
	if _, err := db.Insert(ctx, tx, "INSERT INTO "+tableName, c, ""); err != nil {
		return fmt.Errorf("store an import: %w", err)
	}
	return nil
}

// update stores a changed import. It returns errChanged if the import is not as it was read.
func update(ctx context.Context, tx *sql.Tx, m *Import, further ...db.Column) error {
	w := of(m.Environment).And("id = ?", m.ID).And("version = ?", m.version)
	m.version++
	changed, err := db.Update(ctx, tx, "UPDATE "+tableName, append(changing(m), further...), w)
	switch {
	case err != nil:
		return fmt.Errorf("change an import: %w", err)
	case !changed:
		return errChanged
	default:
		return nil
	}
}

func of(env id.Environment) *db.Where { return new(db.Where).And("environment_id = ?", string(env)) }

// shown are the imports that users see.
func shown(env id.Environment) *db.Where { return of(env).And("status <> ?", string(receiving)) }

// find returns an import of the environment, or not_found. lock is the suffix that keeps the row unchanged until the
// transaction ends.
func find(ctx context.Context, q db.Querier, env id.Environment, importID, lock string) (Import, error) {
	if !id.Is(id.PrefixImport, importID) {
		return Import{}, notFound()
	}
	m, found, err := db.One(ctx, q, columns, table, shown(env).And("id = ?", importID), lock)
	switch {
	case err != nil:
		return Import{}, fmt.Errorf("read an import: %w", err)
	case !found:
		return Import{}, notFound()
	default:
		return m, nil
	}
}

func notFound() error { return apperr.NotFound("import") }

// findActive returns the active import of a provider, if there is one.
func findActive(ctx context.Context, q db.Querier, env id.Environment, slug, lock string) (Import, bool, error) {
	m, found, err := db.One(ctx, q, columns, table, of(env).And("slug = ?", slug).And("status = ?", string(Active)), lock)
	if err != nil {
		return Import{}, false, fmt.Errorf("read the active import of a provider: %w", err)
	}
	return m, found, nil
}

// Filter narrows a list. An empty field matches everything.
type Filter struct {
	Providers []string
	Statuses  []Status
}

func list(ctx context.Context, q db.Querier, env id.Environment, f Filter, p page.Request) ([]Import, error) {
	w := shown(env)
	db.AnyOf(w, "slug", f.Providers)
	db.AnyOf(w, "status", f.Statuses)
	rows, err := db.All(ctx, q, described, table, w, w.Page("id", p))
	if err != nil {
		return nil, fmt.Errorf("read imports: %w", err)
	}
	return rows, nil
}

// use is what the imports of an environment take.
type use struct {
	imports, unfinished, active, bytes int64
	// receiving are imports whose document is on its way.
	receiving int64
	// actions are those of active imports.
	actions int64
}

func useOf(ctx context.Context, q db.Querier, env id.Environment) (u use, err error) {
	err = q.QueryRowContext(ctx, `SELECT COUNT(*),
		COALESCE(SUM(CASE WHEN status IN ('queued', 'running') THEN 1 ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN status = 'active' THEN 1 ELSE 0 END), 0), COALESCE(SUM(stored_bytes), 0),
		COALESCE(SUM(CASE WHEN status = 'active' THEN actions ELSE 0 END), 0),
		COALESCE(SUM(CASE WHEN status = 'receiving' AND updated_ms > 0 THEN 1 ELSE 0 END), 0)
		FROM catalog_imports WHERE environment_id = $1`, string(env)).Scan(&u.imports, &u.unfinished, &u.active, &u.bytes,
		&u.actions, &u.receiving)
	if err != nil {
		return use{}, fmt.Errorf("count imports: %w", err)
	}
	return u, nil
}

// active is a row of what the caches hold.
type active struct {
	environment id.Environment
	id, slug    string
	extends     bool
	definition  string
	actions     int64
}

func activeColumns(a *active) db.Columns {
	return db.Columns{db.Col("environment_id", &a.environment), db.Col("id", &a.id), db.Col("slug", &a.slug),
		db.Col("extends", &a.extends), db.Col("definition", &a.definition), db.Col("actions", &a.actions)}
}

// listActive returns the active imports of environments; of all of them if none is named.
func listActive(ctx context.Context, q db.Querier, envs ...id.Environment) ([]active, error) {
	w := new(db.Where).And("status = ?", string(Active))
	db.AnyOf(w, "environment_id", envs)
	rows, err := db.All(ctx, q, activeColumns, table, w, "")
	if err != nil {
		return nil, fmt.Errorf("read the active imports: %w", err)
	}
	return rows, nil
}

// holdActive reports whether the environment has an active import that defines the provider, and keeps it from being
// removed until the transaction ends.
func holdActive(ctx context.Context, tx *sql.Tx, engine db.Engine, env id.Environment, slug string) (bool, error) {
	query := "SELECT id FROM catalog_imports WHERE environment_id = $1 AND slug = $2 AND status = 'active' AND NOT extends"
	if engine == db.Postgres { // SQLite has one writer
		query += " FOR SHARE"
	}
	var importID string
	found, err := db.Found("the active import of a provider", tx.QueryRowContext(ctx, query, string(env), slug).Scan(
		&importID))
	return found, err
}

// dropReplaced hides the replaced imports of a provider that are older than the newest ones to be kept, so that no one
// can activate them, and returns their ids.
func dropReplaced(ctx context.Context, tx *sql.Tx, env id.Environment, slug string, kept int) ([]string, error) {
	rows, err := tx.QueryContext(ctx, `UPDATE catalog_imports SET status = 'receiving', updated_ms = 0,
		version = version + 1 WHERE environment_id = $1 AND status = 'replaced' AND id IN (SELECT id FROM catalog_imports
		WHERE environment_id = $1 AND slug = $2 AND status = 'replaced' ORDER BY activated_ms DESC, id DESC
		LIMIT 1000 OFFSET $3) RETURNING id`, string(env), slug, kept)
	if err != nil {
		return nil, fmt.Errorf("drop replaced imports: %w", err)
	}
	var ids []string
	err = db.Each(rows, func(r *sql.Rows) error {
		var importID string
		err := r.Scan(&importID)
		ids = append(ids, importID)
		return err
	})
	return ids, err
}

// stale returns imports that are to be deleted: those that failed or were cancelled before a time, and those whose
// document was never received whole.
func stale(ctx context.Context, q db.Querier, failed, received time.Time, limit int) ([]Import, error) {
	return tidyList(ctx, q, "(finished_ms IS NOT NULL AND finished_ms < ? AND status IN ('failed', 'cancelled') "+
		"OR status = 'receiving' AND updated_ms < ?)", limit, clock.Millis(failed), clock.Millis(received))
}

// tidyList returns the first imports that meet a condition.
func tidyList(ctx context.Context, q db.Querier, condition string, limit int, args ...any) ([]Import, error) {
	rows, err := db.All(ctx, q, described, table, new(db.Where).And(condition, args...),
		fmt.Sprintf("ORDER BY id LIMIT %d", limit))
	if err != nil {
		return nil, fmt.Errorf("read imports that need less: %w", err)
	}
	return rows, nil
}

// countUnfinished counts the imports that have not ended, by status.
func countUnfinished(ctx context.Context, q db.Querier) (map[Status]int64, error) {
	rows, err := q.QueryContext(ctx, `SELECT status, COUNT(*) FROM catalog_imports WHERE finished_ms IS NULL
		GROUP BY status`)
	if err != nil {
		return nil, fmt.Errorf("count unfinished imports: %w", err)
	}
	out := map[Status]int64{}
	err = db.Each(rows, func(r *sql.Rows) error {
		var status Status
		var n int64
		err := r.Scan(&status, &n)
		out[status] = n
		return err
	})
	return out, err
}

// holdsImports reports whether an environment has any import.
func holdsImports(ctx context.Context, q db.Querier, env id.Environment) (bool, error) {
	u, err := useOf(ctx, q, env)
	return u.imports > 0, err
}
