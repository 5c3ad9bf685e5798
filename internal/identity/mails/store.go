package mails

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// queued is a row of the queue.
type queued struct {
	id, kind string
	sealed   []byte
	// tries counts the one under way. It tells a worker whether the mail is still its own.
	tries int64
}

func insert(ctx context.Context, tx *sql.Tx, m queued, about string, now, expires time.Time) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO mails (id, kind, about, message, tries, due_ms, expires_ms) VALUES ($1, "+
		"$2, $3, $4, 0, $5, $6)",
		m.id, m.kind, about, m.sealed, clock.Millis(now), clock.Millis(expires))
	if err != nil {
		return fmt.Errorf("queue a mail: %w", err)
	}
	return nil
}

func drop(ctx context.Context, tx *sql.Tx, about string) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM mails WHERE about = $1", about); err != nil {
		return fmt.Errorf("take mails back: %w", err)
	}
	return nil
}

// count returns how many mails wait, and how many of them are due or of no use any more.
func count(ctx context.Context, q db.Querier, now time.Time) (waiting, due int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*), count(*) FILTER (WHERE due_ms <= $1 OR expires_ms <= $1) FROM mails",
		clock.Millis(now)).
		Scan(&waiting, &due)
	if err != nil {
		return 0, 0, fmt.Errorf("count mails: %w", err)
	}
	return waiting, due, nil
}

// claim takes the mail that has been due longest, for as long as a lease.
func (s *Service) claim(ctx context.Context, now time.Time) (m queued, ok bool, err error) {
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		m = queued{}
		err := tx.QueryRowContext(ctx, `UPDATE mails SET tries = tries + 1, due_ms = $2 WHERE id = (SELECT id FROM mails WHERE due_ms <= $1
			ORDER BY due_ms, id LIMIT 1`+s.cfg.DB.SkipLocked()+`) RETURNING id, kind, message, tries`,
			clock.Millis(now), clock.Millis(now.Add(lease))).Scan(&m.id, &m.kind, &m.sealed, &m.tries)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return queued{}, false, fmt.Errorf("take a mail: %w", err)
	}
	return m, m.id != "", nil
}

// finish removes a mail that this worker still holds.
func (s *Service) finish(ctx context.Context, m queued) error {
	return s.change(ctx, "DELETE FROM mails WHERE id = $1 AND tries = $2", m.id, m.tries)
}

// postpone gives a mail back that this worker still holds.
func (s *Service) postpone(ctx context.Context, m queued, due time.Time) error {
	return s.change(ctx, "UPDATE mails SET due_ms = $3 WHERE id = $1 AND tries = $2", m.id, m.tries, clock.Millis(due))
}

func (s *Service) change(ctx context.Context, text string, args ...any) error {
	err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, text, args...)
		return err
	})
	if err != nil {
		return fmt.Errorf("note what became of a mail: %w", err)
	}
	return nil
}

// removeExpired removes a few mails that are of no use any more and returns their kinds.
func (s *Service) removeExpired(ctx context.Context, now time.Time) (kinds []string, err error) {
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		kinds = nil
		//nolint:gosec // the text is ours
		rows, err := tx.QueryContext(ctx,
			"DELETE FROM mails WHERE id IN (SELECT id FROM mails WHERE expires_ms <= $1 LIMIT 100"+
				s.cfg.DB.SkipLocked()+") RETURNING kind", clock.Millis(now))
		if err != nil {
			return err
		}
		return db.Each(rows, func(r *sql.Rows) error {
			var kind string
			if err := r.Scan(&kind); err != nil {
				return err
			}
			kinds = append(kinds, kind)
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("remove old mails: %w", err)
	}
	return kinds, nil
}
