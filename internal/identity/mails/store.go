package mails

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/jobs"
)

// queued is a row of the queue.
type queued struct {
	id, kind string
	sealed   []byte
	expires  time.Time
}

// columns binds the columns of a mail that its sender reads. Those of the queue are in table.
func columns(m *queued) db.Columns {
	return db.Columns{
		db.Col("id", &m.id),
		db.Col("kind", &m.kind),
		db.Col("message", &m.sealed),
		db.Col("expires_ms", db.Millis(&m.expires)),
	}
}

func insert(ctx context.Context, tx *sql.Tx, m queued, about string, now time.Time) error {
	var attempts int64
	_, err := db.Insert(ctx, tx, "INSERT INTO mails", append(columns(&m), db.Col("about", &about),
		db.Col("tries", &attempts), db.Col("due_ms", db.Millis(&now))), "")
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

// errDropped means that a mail was dropped after its claim.
var errDropped = errors.New("the mail is no longer in the queue")

// find returns a mail of the queue.
func find(ctx context.Context, q db.Querier, mailID string) (queued, error) {
	m, ok, err := db.One(ctx, q, columns, "FROM mails", new(db.Where).And("id = ?", mailID), "")
	if err == nil && !ok {
		err = errDropped
	}
	if err != nil {
		return m, fmt.Errorf("read a mail: %w", err)
	}
	return m, nil
}

// hasExpired is the condition on a mail that has expired at $1 and that no process is sending: until the end of its
// lease, due_ms is in the future.
const hasExpired = "expires_ms <= $1 AND due_ms <= $1"

// countQueued returns how many mails wait, and how many of them have expired.
func countQueued(ctx context.Context, q db.Querier, now time.Time) (waiting, expired int64, err error) {
	err = q.QueryRowContext(ctx, "SELECT count(*), count(*) FILTER (WHERE "+hasExpired+") FROM mails",
		clock.Millis(now)).Scan(&waiting, &expired)
	if err != nil {
		return 0, 0, fmt.Errorf("count mails: %w", err)
	}
	return waiting, expired, nil
}

// limitWait makes a mail whose attempt has failed due when it expires, if it would be due later: then expire deletes
// it.
func limitWait(ctx context.Context, tx *sql.Tx, f jobs.Failure) error {
	// The kit sets columns to values, not to other columns.
	_, err := tx.ExecContext(ctx, "UPDATE mails SET due_ms = expires_ms WHERE id = $1 AND due_ms > expires_ms", f.Job.ID)
	if err != nil {
		return fmt.Errorf("limit the wait of a mail: %w", err)
	}
	return nil
}

// expireRows is how many mails one transaction deletes, at most.
const expireRows = 100

// deleteExpired deletes a few expired mails and returns their kinds.
func (s *Service) deleteExpired(ctx context.Context, now time.Time) (kinds []string, err error) {
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		kinds = nil
		//nolint:gosec // the text is ours
		rows, err := tx.QueryContext(ctx,
			"DELETE FROM mails WHERE id IN (SELECT id FROM mails WHERE "+hasExpired+" LIMIT $2"+
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
