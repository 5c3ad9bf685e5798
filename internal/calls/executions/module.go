package executions

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
)

const (
	// recoverInterval is how often executions are looked for whose process has ended, and expireInterval how often what is
	// too old is deleted.
	recoverInterval = 5 * time.Second
	expireInterval  = time.Minute
	// chunk is how many rows one transaction changes.
	chunk = 200
)

// Module returns what executions bring to the process, without their operations.
func (s *Service) Module() module.Module {
	return module.Module{
		Name: "calls/executions",
		Tables: []module.Table{{Name: table, Outlives: "they expire within 30 days"},
			{Name: "execution_keys", Outlives: "they expire within a day"}},
		Sealed: []secretbox.Column{{Table: table, Column: "input", IDColumn: "id"},
			{Table: table, Column: "output", IDColumn: "id"}},
		Jobs: []jobs.Periodic{
			{Name: "recover-executions", Part: role.Working, Run: jobs.Every(recoverInterval, s.endAbandoned),
				Failure: "cannot end executions whose process has ended"},
			{Name: "expire-executions", Part: role.Working, Run: jobs.Every(expireInterval, s.expire),
				Failure: "cannot delete old executions"},
		},
	}
}

// endAbandoned ends executions whose process has ended between the request and the response. The provider may have
// acted, which is not known, so they are never made again.
func (s *Service) endAbandoned(ctx context.Context) error {
	for {
		var n int
		err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
			now := s.cfg.Clock.Now()
			lost, err := db.All(ctx, tx, shown, "FROM executions",
				new(db.Where).And("lease_ms > 0").And("lease_ms < ?", clock.Millis(now)),
				"ORDER BY lease_ms LIMIT "+strconv.Itoa(chunk)+s.cfg.DB.SkipLocked())
			if err != nil {
				return fmt.Errorf("find executions whose process has ended: %w", err)
			}
			n = len(lost)
			return s.endLost(ctx, tx, lost, now)
		})
		if err != nil || n < chunk {
			return err //nolint:wrapcheck // it says what failed
		}
	}
}

func (s *Service) endLost(ctx context.Context, tx *sql.Tx, lost []Execution, now time.Time) error {
	if len(lost) == 0 {
		return nil
	}
	ids := make([]string, len(lost))
	for i := range lost {
		e := &lost[i]
		ids[i] = e.ID
		effect := apperr.EffectNone
		if e.State.Writes {
			effect = apperr.EffectUnknown
		}
		e.Status, e.ErrorCode, e.FinishedAt, e.LeaseUntil = Failed, string(apperr.CodeOutcomeUnknown), now, time.Time{}
		e.State.Error = &Failure{Code: apperr.CodeOutcomeUnknown, Source: apperr.SourceGateway, Effect: effect,
			Message:   "The gateway ended before the response came; the provider may have acted",
			Retryable: !e.State.Writes}
		_, err := db.Update(ctx, tx, "UPDATE executions",
			shown(e).Only("status", "error_code", "finished_ms", "lease_ms", "state"),
			new(db.Where).And("id = ?", e.ID).And("lease_ms > 0"))
		if err != nil {
			return fmt.Errorf("end an execution whose process has ended: %w", err)
		}
	}
	return s.cfg.Calls().MarkUnknown(ctx, tx, ids) //nolint:wrapcheck // it says what failed
}

// expire deletes outputs, keys and executions that have expired, in short transactions.
func (s *Service) expire(ctx context.Context) error {
	ctx = db.WithTurn(ctx, db.TurnJob)
	now := s.cfg.Clock.Now()
	limit := ` LIMIT ` + strconv.Itoa(chunk)
	// On PostgreSQL a row can change between the inner and the outer statement, so that both have the condition.
	for _, statement := range []struct {
		text string
		arg  any
	}{
		{`UPDATE executions SET output = NULL, output_until_ms = 0 WHERE output_until_ms > 0 AND output_until_ms < $1
			AND id IN (SELECT id FROM executions WHERE output_until_ms > 0 AND output_until_ms < $1
			ORDER BY output_until_ms` + limit + `)`, clock.Millis(now)},
		{`DELETE FROM execution_keys WHERE expires_ms < $1
			AND key_hash IN (SELECT key_hash FROM execution_keys WHERE expires_ms < $1
			ORDER BY expires_ms` + limit + `)`, clock.Millis(now)},
		{`DELETE FROM executions WHERE id IN (SELECT id FROM executions WHERE id < $1 ORDER BY id` + limit + `)`,
			id.FirstUUID(now.Add(-keep))},
	} {
		for {
			var n int64
			err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
				var err error
				n, err = db.Affected(tx.ExecContext(ctx, statement.text, statement.arg))
				return err
			})
			if err != nil {
				return fmt.Errorf("delete old executions: %w", err)
			}
			if n < chunk {
				break
			}
		}
	}
	return nil
}
