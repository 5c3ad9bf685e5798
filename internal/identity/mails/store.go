package mails

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// queued is a row of the queue.
type queued struct {
	id, kind string
	sealed   []byte
	expires  time.Time
}

func insert(ctx context.Context, tx *sql.Tx, m queued, about string, now time.Time) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO mails (id, kind, about, message, tries, due_ms, expires_ms) VALUES ($1, "+
		"$2, $3, $4, 0, $5, $6)",
		m.id, m.kind, about, m.sealed, clock.Millis(now), clock.Millis(m.expires))
	if err != nil {
		return fmt.Errorf("queue a mail: %w", err)
	}
	return nil
}

func deleteAbout(ctx context.Context, tx *sql.Tx, about string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM mails WHERE about = $1", about); err != nil {
		return fmt.Errorf("delete mails: %w", err)
	}
	return nil
}

// find returns a mail of the queue. It is gone when it was dropped after its claim.
func find(ctx context.Context, q db.Querier, mailID string) (queued, error) {
	m := queued{id: mailID}
	var expires int64
	err := q.QueryRowContext(ctx, "SELECT kind, message, expires_ms FROM mails WHERE id = $1", mailID).
		Scan(&m.kind, &m.sealed, &expires)
	m.expires = clock.FromMillis(expires)
	if err != nil {
		return m, fmt.Errorf("read a mail: %w", err)
	}
	return m, nil
}

// countQueued returns how many mails wait, and how many of them have expired.
func countQueued(ctx context.Context, q db.Querier, now time.Time) (waiting, expired int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*), count(*) FILTER (WHERE expires_ms <= $1) FROM mails",
		clock.Millis(now)).Scan(&waiting, &expired)
	if err != nil {
		return 0, 0, fmt.Errorf("count mails: %w", err)
	}
	return waiting, expired, nil
}

// expireRows is how many mails one transaction deletes, at most.
const expireRows = 100

// deleteExpired deletes a few expired mails and returns their kinds.
func (s *Service) deleteExpired(ctx context.Context, now time.Time) (kinds []string, err error) {
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		kinds = nil
		//nolint:gosec // the text is ours
		rows, err := tx.QueryContext(ctx,
			"DELETE FROM mails WHERE id IN (SELECT id FROM mails WHERE expires_ms <= $1 LIMIT $2"+
				s.cfg.DB.SkipLocked()+") RETURNING kind", clock.Millis(now), expireRows)
		if err != nil {
			return err
		}
		return db.Each(rows, func(r *sql.Rows) error {
			var kind string
			err := r.Scan(&kind)
			kinds = append(kinds, kind)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("delete expired mails: %w", err)
	}
	return kinds, nil
}
