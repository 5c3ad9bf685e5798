package deliveries

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/platform/clock"
)

// Depth describes the queue of deliveries.
type Depth struct {
	// Due counts the deliveries that are due, up to DepthLimit.
	Due int64
	// Oldest is the due time of the oldest of them; zero if there is none.
	Oldest time.Time
}

// DepthLimit is the maximum that Depth counts, so that measuring a long queue stays cheap.
const DepthLimit = 100_000

// Depth describes the queue at the time given.
func (s *Store) Depth(ctx context.Context, now time.Time) (Depth, error) {
	var d Depth
	var oldest sql.NullInt64
	due := func(status Status) string {
		return `SELECT * FROM (SELECT d.due_ms FROM deliveries d WHERE ` + whereDue + ` AND d.status = '` + string(status) +
			`' AND d.due_ms <= $1 ORDER BY d.due_ms LIMIT ` + strconv.Itoa(DepthLimit) + `) ` + string(status)
	}
	err := s.db.Read().QueryRowContext(ctx,
		`SELECT COUNT(*), MIN(q.due_ms) FROM (`+due(Pending)+` UNION ALL `+due(RetryWait)+`) q`,
		clock.Millis(now)).Scan(&d.Due, &oldest)
	if err != nil {
		return Depth{}, fmt.Errorf("measure the queue: %w", err)
	}
	d.Due = min(d.Due, DepthLimit)
	if oldest.Valid {
		d.Oldest = clock.FromMillis(oldest.Int64)
	}
	return d, nil
}
