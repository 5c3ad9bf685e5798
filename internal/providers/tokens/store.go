package tokens

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// row says when the tokens of a connection are renewed, and who is doing it.
type row struct {
	connectionUUID string
	environment    id.Environment
	// endpoint names the hosts of the token endpoint, so that one that hangs has its share only.
	endpoint string
	// due is when a worker renews them; nil for never. attempted is when the last exchange ended; nil for never.
	due, attempted *time.Time
	// notBefore is until when requests do not have them renewed, because the last exchange has failed; nil for any time.
	notBefore *time.Time
	// revision is that of the credentials.
	revision int64
	// lease is the name of the exchange in progress; empty for none. It ends at leaseUntil, and is about leaseRevision of
	// the credentials.
	lease         string
	leaseUntil    time.Time
	leaseRevision int64
	// interrupted is the revision of which an exchange began whose outcome is not known; 0 for none.
	interrupted int64
}

// isInterrupted reports whether the provider may have replaced the tokens in an exchange whose outcome is not known.
func (r *row) isInterrupted() bool { return r.interrupted != 0 && r.interrupted == r.revision }

func columns(r *row) db.Columns {
	return db.Columns{
		db.Col("connection_uuid", &r.connectionUUID),
		db.Col("environment_id", &r.environment),
		db.Col("endpoint", &r.endpoint),
		db.Col("due_ms", db.NullMillis(&r.due)),
		db.Col("attempted_ms", db.NullMillis(&r.attempted)),
		db.Col("not_before_ms", db.NullMillis(&r.notBefore)),
		db.Col("revision", &r.revision),
		db.Col("lease", &r.lease),
		db.Col("lease_until_ms", db.Millis(&r.leaseUntil)),
		db.Col("lease_revision", &r.leaseRevision),
		db.Col("interrupted_revision", &r.interrupted),
	}
}

const table = "FROM token_refreshes"

func owned(env id.Environment, connectionUUID string) *db.Where {
	return new(db.Where).And("connection_uuid = ?", connectionUUID).And("environment_id = ?", string(env))
}

func find(ctx context.Context, q db.Querier, env id.Environment, connectionUUID string) (row, bool, error) {
	r, found, err := db.One(ctx, q, columns, table, owned(env, connectionUUID), "")
	if err != nil {
		return row{}, false, fmt.Errorf("read a renewal of tokens: %w", err)
	}
	return r, found, nil
}

// NextRenewals returns when something is done about the tokens of connections of an environment, by UUID. Those of
// which nothing is done by itself are not in the result.
func NextRenewals(ctx context.Context, q db.Querier, env id.Environment,
	connectionUUIDs []string) (map[string]time.Time, error) {
	w := new(db.Where).And("environment_id = ?", string(env)).And("due_ms IS NOT NULL")
	rows, err := db.All(ctx, q, columns, table, db.AnyOf(w, "connection_uuid", connectionUUIDs), "")
	if err != nil {
		return nil, fmt.Errorf("read when tokens are renewed: %w", err)
	}
	out := make(map[string]time.Time, len(rows))
	for i := range rows {
		out[rows[i].connectionUUID] = *rows[i].due
	}
	return out, nil
}

// schedule stores when the tokens of a connection are renewed. An exchange in progress goes on; when its lease ends,
// the tokens are looked at, because it may have been about the same grant.
func schedule(ctx context.Context, tx *sql.Tx, r *row) error {
	_, err := db.Insert(ctx, tx, "INSERT INTO token_refreshes", columns(r), `ON CONFLICT (connection_uuid) DO UPDATE SET
		endpoint = excluded.endpoint, due_ms = CASE WHEN token_refreshes.lease <> '' AND
			COALESCE(excluded.due_ms, token_refreshes.lease_until_ms) >= token_refreshes.lease_until_ms
			THEN token_refreshes.lease_until_ms ELSE excluded.due_ms END,
		attempted_ms = NULL, not_before_ms = NULL, lease_revision = excluded.revision,
		revision = excluded.revision, interrupted_revision = 0
		WHERE token_refreshes.environment_id = excluded.environment_id`)
	if err != nil {
		return fmt.Errorf("schedule a renewal of tokens: %w", err)
	}
	return nil
}

// resume stores an earlier time at which something is done about the tokens of a connection: due, or now if an exchange
// of them was interrupted, which may have replaced them. An exchange in progress goes on.
func resume(ctx context.Context, tx *sql.Tx, env id.Environment, connectionUUID string, due *time.Time,
	now time.Time) error {
	earlier := func(at time.Time, where *db.Where) error {
		r := row{due: &at}
		if _, err := db.Update(ctx, tx, "UPDATE token_refreshes", columns(&r).Only("due_ms"), where.
			And("(due_ms IS NULL OR due_ms > ?)", clock.Millis(at))); err != nil {
			return fmt.Errorf("store when tokens are renewed: %w", err)
		}
		return nil
	}
	if err := earlier(now, owned(env, connectionUUID).And("interrupted_revision <> 0").
		And("interrupted_revision = revision")); err != nil || due == nil {
		return err
	}
	return earlier(*due, owned(env, connectionUUID))
}

// take takes the lease of those of the connections that no exchange in progress has, and returns their rows. An
// exchange that has not released an earlier lease counts as interrupted, which is a reason for one exchange although
// the endpoint is to be left alone: its tokens may be dead. With onlyDue, rows that are not due any more are left. The
// connections are of an environment; those of a worker, which has their rows, are of any. They are due at the latest
// when the lease ends: if the process ends before it has stored an outcome, a worker finds out whether the provider has
// replaced the tokens. Releasing the lease stores another time.
func take(ctx context.Context, tx *sql.Tx, env id.Environment, uuids []string, lease string, now, until time.Time,
	onlyDue bool) ([]row, error) {
	w := new(db.Where)
	set := "UPDATE token_refreshes SET lease = " + w.Arg(lease) + ", lease_until_ms = " + w.Arg(clock.Millis(until)) +
		", due_ms = CASE WHEN due_ms <= " + w.Arg(clock.Millis(until)) + " THEN due_ms ELSE " + w.Arg(clock.Millis(until)) +
		` END,
		interrupted_revision = CASE WHEN lease <> '' THEN lease_revision ELSE interrupted_revision END,
		not_before_ms = CASE WHEN lease <> '' THEN NULL ELSE not_before_ms END,
		lease_revision = revision`
	db.AnyOf(w, "connection_uuid", uuids).And("lease_until_ms <= ?", clock.Millis(now))
	if env != "" {
		w.And("environment_id = ?", string(env))
	}
	if onlyDue {
		w.And("due_ms <= ?", clock.Millis(now))
	}
	var none row
	rows, err := db.Query(ctx, tx, columns, set+w.Text()+" RETURNING "+columns(&none).Names(), w.Args()...)
	if err != nil {
		return nil, fmt.Errorf("take leases of renewals: %w", err)
	}
	return rows, nil
}

// release ends a lease and stores what comes next. It reports false if another one has been taken since.
func release(ctx context.Context, q db.Querier, r *row) (bool, error) {
	held := r.lease
	next := *r
	next.lease, next.leaseUntil = "", time.UnixMilli(0)
	changed, err := db.Update(ctx, q, "UPDATE token_refreshes", columns(&next).Only("endpoint", "due_ms", "attempted_ms",
		"not_before_ms", "revision", "lease", "lease_until_ms", "interrupted_revision"),
		owned(r.environment, r.connectionUUID).And("lease = ?", held))
	if err != nil {
		return false, fmt.Errorf("release the lease of a renewal: %w", err)
	}
	return changed, nil
}

// suspect makes the tokens of a connection that others have renewed since a lease be renewed again, because they may be
// dead.
func suspect(ctx context.Context, tx *sql.Tx, held *row, now time.Time) error {
	_, err := tx.ExecContext(ctx, `UPDATE token_refreshes SET due_ms = $1, interrupted_revision = revision
		WHERE connection_uuid = $2 AND environment_id = $3 AND revision > $4`, clock.Millis(now), held.connectionUUID,
		string(held.environment), held.revision)
	if err != nil {
		return fmt.Errorf("have tokens renewed that may be dead: %w", err)
	}
	return nil
}

// listDue returns up to limit connections that are due and that no one renews: of each environment up to
// perEnvironment, those of its endpoints in turns, and the environments in turns. So many of one keep no other waiting,
// whether they are of one endpoint or of thousands.
func listDue(ctx context.Context, q db.Querier, now time.Time, limit int) ([]row, error) {
	var none row
	names := columns(&none).Names()
	rows, err := db.Query(ctx, q, columns, `SELECT `+names+` FROM (SELECT `+names+`,
			ROW_NUMBER() OVER (PARTITION BY environment_id ORDER BY turn, due_ms) AS place
			FROM (SELECT `+names+`, ROW_NUMBER() OVER (PARTITION BY environment_id, endpoint ORDER BY due_ms) AS turn
				FROM token_refreshes WHERE due_ms <= $1 AND lease_until_ms <= $1) AS waiting
			WHERE turn <= $2) AS placed
		WHERE place <= $3 ORDER BY place, due_ms LIMIT $4`, clock.Millis(now), perEndpoint, 2*perEnvironment, limit)
	if err != nil {
		return nil, fmt.Errorf("list renewals that are due: %w", err)
	}
	return rows, nil
}

// oldestDue returns the age of the renewal that has been due longest; 0 if none is.
func oldestDue(ctx context.Context, q db.Querier, now time.Time) (time.Duration, error) {
	var due sql.NullInt64
	err := q.QueryRowContext(ctx, "SELECT min(due_ms) FROM token_refreshes WHERE due_ms IS NOT NULL").Scan(&due)
	if err != nil {
		return 0, fmt.Errorf("look for the oldest renewal: %w", err)
	}
	if !due.Valid {
		return 0, nil
	}
	return max(now.Sub(clock.FromMillis(due.Int64)), 0), nil
}
