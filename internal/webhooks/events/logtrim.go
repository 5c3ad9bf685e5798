package events

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// trimChunk is how many records one transaction deletes.
const trimChunk = 500

// Trim deletes the records whose readers have missed too much: what follows is more than LogMessages, or begins more
// than LogAge ago. The newest record of each environment stays, so that a reader who has missed nothing is recognised.
// Records are deleted from the oldest on: if one is left, all after it are. Several processes may trim at the same
// time.
func (s *LogStore) Trim(ctx context.Context, now time.Time) error {
	if err := s.Sequence(ctx); err != nil {
		return err
	}
	environments, err := s.environments(ctx)
	if err != nil {
		return err
	}
	for _, env := range environments {
		if err := s.trim(ctx, env, now); err != nil {
			return fmt.Errorf("trim the log: %w", err)
		}
	}
	return nil
}

// environments returns the environments with records. It steps through the index from one to the next.
func (s *LogStore) environments(ctx context.Context) ([]id.Environment, error) {
	rows, err := s.db.Read().QueryContext(ctx, `WITH RECURSIVE hop (environment_id) AS (
		SELECT (SELECT l.environment_id FROM webhook_event_log l WHERE l.position IS NOT NULL ORDER BY l.environment_id
		LIMIT 1)
		UNION ALL
		SELECT (SELECT l.environment_id FROM webhook_event_log l WHERE l.position IS NOT NULL
			AND l.environment_id > hop.environment_id
			ORDER BY l.environment_id LIMIT 1) FROM hop WHERE hop.environment_id IS NOT NULL)
		SELECT environment_id FROM hop WHERE environment_id IS NOT NULL`)
	if err != nil {
		return nil, fmt.Errorf("find environments in the log: %w", err)
	}
	var list []id.Environment
	if err := db.Each(rows, func(r *sql.Rows) error {
		var env id.Environment
		err := r.Scan(&env)
		list = append(list, env)
		return err
	}); err != nil {
		return nil, fmt.Errorf("find environments in the log: %w", err)
	}
	return list, nil
}

func (s *LogStore) trim(ctx context.Context, env id.Environment, now time.Time) error {
	cut, err := s.lastSurplus(ctx, env, now)
	if err != nil || cut == 0 {
		return err
	}
	for ctx.Err() == nil {
		var deleted int64
		err := s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
			deleted, err = db.Affected(tx.ExecContext(ctx, `DELETE FROM webhook_event_log WHERE position IN (SELECT l.position
				FROM webhook_event_log l
				WHERE l.environment_id = $1 AND l.position <= $2 ORDER BY l.position LIMIT $3)`, string(env), cut, trimChunk))
			return err
		})
		if err != nil || deleted < trimChunk {
			return err
		}
	}
	return ctx.Err()
}

// lastSurplus returns the position of the newest record to delete, or 0.
func (s *LogStore) lastSurplus(ctx context.Context, env id.Environment, now time.Time) (int64, error) {
	var cut int64
	// The sum of the record and those after it, minus the record, is what follows it.
	err := s.db.Read().QueryRowContext(ctx, `SELECT q.position
			FROM (SELECT l.position, LEAD(l.at_ms) OVER (ORDER BY l.position) AS next_ms,
			SUM(l.messages) OVER (ORDER BY l.position DESC ROWS UNBOUNDED PRECEDING) - l.messages AS later
		FROM webhook_event_log l WHERE l.environment_id = $1 AND l.position IS NOT NULL) q
		WHERE q.later > $2 OR q.next_ms < $3 ORDER BY q.position DESC LIMIT 1`,
		string(env), LogMessages, clock.Millis(now.Add(-LogAge))).Scan(&cut)
	_, err = db.Found("the end of what may go", err)
	return cut, err
}
