package subscriptions

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/db"
)

// record completes a change inside its transaction: it writes the audit event and lets other
// processes know what has changed.
func (s *Service) record(ctx context.Context, tx *sql.Tx, now time.Time, e audit.Event) error {
	e.TargetType = "webhook_subscription"
	if err := audit.Record(ctx, tx, now, e); err != nil {
		return err
	}
	return db.Bump(ctx, tx, collection, changeKey(e.Environment, e.TargetID))
}
