package tokens

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// measureInterval is how often the age of the oldest renewal is measured.
const measureInterval = 10 * time.Second

// Module returns what the renewal of tokens brings to the process.
func (s *Service) Module() module.Module {
	return module.Module{
		Name:     "providers/tokens",
		Tables:   []module.Table{{Name: "token_refreshes", Outlives: "its rows are parts of connections, which are counted"}},
		Services: []module.Service{{Name: "token-refresh", Part: role.Working, Start: s.start, Drain: s.drain, Stop: s.stop}},
		Jobs: []jobs.Periodic{{Name: "measure-token-refreshes", Part: role.Working,
			Run: jobs.Every(measureInterval, s.measure), Failure: "cannot look for the oldest token refresh"}},
		ShiftTimes: shiftTimes,
		Metrics:    s.metrics.collectors(),
	}
}

// shiftTimes moves leases and failed exchanges after the clock was set. When tokens expire does not depend on it.
func shiftTimes(ctx context.Context, tx *sql.Tx, by time.Duration) error {
	_, err := tx.ExecContext(ctx, `UPDATE token_refreshes SET lease_until_ms = lease_until_ms + $1,
		attempted_ms = attempted_ms + $1`, by.Milliseconds())
	if err != nil {
		return fmt.Errorf("move the leases of token refreshes: %w", err)
	}
	return nil
}
