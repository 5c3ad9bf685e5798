package apikeys

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"sallyport/internal/platform/db"
)

// writeLastUse writes down a use, unless another node has done so within the last minute.
func writeLastUse(ctx context.Context, tx *sql.Tx, keyID string, u KeyUse) error {
	_, err := tx.ExecContext(ctx, `UPDATE api_keys SET last_used_ms = $2, last_used_ip = $3, last_used_agent = $4,
			last_used_route = $5
		WHERE id = $1 AND (last_used_ms IS NULL OR last_used_ms <= $6)`, keyID, u.AtMillis, u.IP, u.UserAgent, u.Route,
		u.AtMillis-usePrecision.Milliseconds()/2)
	if err != nil {
		return fmt.Errorf("store the last use of an API key: %w", err)
	}
	return nil
}

func addUsage(ctx context.Context, tx *sql.Tx, rows []useRow) error {
	var text strings.Builder
	text.WriteString("INSERT INTO api_key_usage (api_key_id, hour_ms, route, outcome, requests) VALUES ")
	args := make([]any, 0, 5*len(rows))
	for i, r := range rows {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString("(")
		for j := range 5 {
			if j > 0 {
				text.WriteString(", ")
			}
			text.WriteString("$" + strconv.Itoa(len(args)+j+1))
		}
		text.WriteString(")")
		args = append(args, r.keyID, r.hourMillis, string(r.route), string(r.outcome), r.requests)
	}
	text.WriteString(` ON CONFLICT (api_key_id, hour_ms, route, outcome)
		DO UPDATE SET requests = api_key_usage.requests + excluded.requests`)
	if _, err := tx.ExecContext(ctx, text.String(), args...); err != nil {
		return fmt.Errorf("store the usage of API keys: %w", err)
	}
	return nil
}

// readUsage returns what was counted of a key from one time to before another, by buckets, oldest first; hourMillis is
// where a bucket begins.
func readUsage(ctx context.Context, q db.Querier, keyID string, fromMillis, toMillis,
	bucketMillis int64) ([]useRow, error) {
	rows, err := q.QueryContext(ctx, `SELECT u.hour_ms - u.hour_ms % CAST($4 AS bigint) AS start_ms, u.route, u.outcome,
			CAST(SUM(u.requests) AS bigint)
		FROM api_key_usage u WHERE u.api_key_id = $1 AND u.hour_ms >= $2 AND u.hour_ms < $3
		GROUP BY start_ms, u.route, u.outcome ORDER BY start_ms, u.route, u.outcome`,
		keyID, fromMillis, toMillis, bucketMillis)
	if err != nil {
		return nil, fmt.Errorf("read the usage of an API key: %w", err)
	}
	var out []useRow
	err = db.Each(rows, func(r *sql.Rows) error {
		row := useRow{keyID: keyID}
		err := r.Scan(&row.hourMillis, &row.route, &row.outcome, &row.requests)
		out = append(out, row)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the usage of an API key: %w", err)
	}
	return out, nil
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
