package apikeys

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/platform/db"
)

// storedUse is a key's last use as the columns hold it.
type storedUse struct {
	KeyUse
	atMillis *int64 // nil for none
}

func useColumns(u *storedUse) db.Columns {
	return db.Columns{
		db.Col("last_used_ms", &u.atMillis),
		db.Col("last_used_ip", db.Null(&u.IP)),
		db.Col("last_used_agent", db.Null(&u.UserAgent)),
		db.Col("last_used_route", db.Null(&u.Route)),
	}
}

// use returns the last use, or nil.
func (u storedUse) use() *KeyUse {
	if u.atMillis == nil {
		return nil
	}
	use := u.KeyUse
	use.AtMillis = *u.atMillis
	return &use
}

// writeLastUse writes down a use, unless another node has done so within the last minute.
func writeLastUse(ctx context.Context, tx *sql.Tx, keyID string, u KeyUse) error {
	stored := storedUse{KeyUse: u, atMillis: &u.AtMillis}
	_, err := db.Update(ctx, tx, "UPDATE api_keys", useColumns(&stored), new(db.Where).And("id = ?", keyID).
		And("(last_used_ms IS NULL OR last_used_ms <= ?)", u.AtMillis-usePrecision.Milliseconds()/2))
	if err != nil {
		return fmt.Errorf("store the last use of an API key: %w", err)
	}
	return nil
}

func usageColumns(r *useRow) db.Columns {
	return db.Columns{
		db.Col("api_key_id", &r.keyID),
		db.Col("hour_ms", &r.hourMillis),
		db.Col("route", &r.route),
		db.Col("outcome", &r.outcome),
		db.Col("requests", &r.requests),
	}
}

var storeUsage = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO api_key_usage (" + usageColumns(new(useRow)).Names() + ")",
	Types:  []string{"text", "bigint", "text", "text", "bigint"},
	After: "ON CONFLICT (api_key_id, hour_ms, route, outcome) DO UPDATE SET " +
		"requests = api_key_usage.requests + excluded.requests",
}

func addUsage(ctx context.Context, d *db.DB, tx *sql.Tx, rows []useRow) error {
	var args []any
	for i := range rows {
		row, err := usageColumns(&rows[i]).Args()
		if err != nil {
			return fmt.Errorf("encode the usage of an API key: %w", err)
		}
		args = append(args, row...)
	}
	if _, err := d.Exec(ctx, tx, storeUsage, args); err != nil {
		return fmt.Errorf("store the usage of API keys: %w", err)
	}
	return nil
}

// readUsage returns what was counted of a key from one time to before another, by buckets, oldest first; hourMillis is
// where a bucket begins.
func readUsage(ctx context.Context, q db.Querier, keyID string, fromMillis, toMillis,
	bucketMillis int64) ([]useRow, error) {
	rows, err := db.Query(ctx, q, usageColumns, `SELECT u.api_key_id,
			u.hour_ms - u.hour_ms % CAST($4 AS bigint) AS start_ms, u.route, u.outcome, CAST(SUM(u.requests) AS bigint)
		FROM api_key_usage u WHERE u.api_key_id = $1 AND u.hour_ms >= $2 AND u.hour_ms < $3
		GROUP BY u.api_key_id, start_ms, u.route, u.outcome ORDER BY start_ms, u.route, u.outcome`,
		keyID, fromMillis, toMillis, bucketMillis)
	if err != nil {
		return nil, fmt.Errorf("read the usage of an API key: %w", err)
	}
	return rows, nil
}

// expiredRows is how many rows one transaction deletes, at most.
const expiredRows = 500

// expireUsage deletes counts of before a time, and reports whether there may be more.
func expireUsage(ctx context.Context, tx *sql.Tx, beforeMillis int64) (more bool, err error) {
	res, err := tx.ExecContext(ctx, `DELETE FROM api_key_usage WHERE (api_key_id, hour_ms, route, outcome) IN
		(SELECT api_key_id, hour_ms, route, outcome FROM api_key_usage WHERE hour_ms < $1 ORDER BY hour_ms LIMIT $2)`,
		beforeMillis, expiredRows)
	if err != nil {
		return false, fmt.Errorf("delete old usage: %w", err)
	}
	n, err := res.RowsAffected()
	return n == expiredRows, err
}
