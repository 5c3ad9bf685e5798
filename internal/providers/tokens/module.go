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
		Name:   "providers/tokens",
		Tables: []module.Table{{Name: "token_refreshes", Outlives: "its rows are parts of connections, which are counted"}},
		Services: []module.Service{{Name: "token-exchanges", Start: s.startJoining, Stop: s.stop},
			{Name: "token-refresh", Part: role.Working, Start: s.start, Drain: s.drain, Stop: s.drain}},
		Jobs: []jobs.Periodic{{Name: "measure-token-refreshes", Part: role.Working,
			Run: jobs.Every(measureInterval, s.measure), Failure: "cannot look for the oldest token refresh"}},
		ShiftTimes: shiftTimes,
		Metrics:    s.metrics.collectors(),
	}
}

// shiftTimes moves leases and exchanges after the clock was set. Renewals become due earlier if it was set back:
// whether it was right when a token came is not known.
func shiftTimes(ctx context.Context, tx *sql.Tx, by time.Duration) error {
	_, err := tx.ExecContext(ctx, `UPDATE token_refreshes SET lease_until_ms = lease_until_ms + $1,
		attempted_ms = attempted_ms + $1, not_before_ms = not_before_ms + $1, due_ms = due_ms + $2`,
		by.Milliseconds(), min(by, 0).Milliseconds())
	if err != nil {
		return fmt.Errorf("move the leases of token refreshes: %w", err)
	}
	return nil
}
