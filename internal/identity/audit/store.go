package audit

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/db"
)

// sealChunk is how many events one transaction numbers.
const sealChunk = 500

// Store reads the trail and numbers it.
type Store struct {
	db *db.DB
	// searchTime and window limit a search. They are fields for the tests.
	searchTime time.Duration
	window     int64
}

// Config configures a Store.
type Config struct{ DB *db.DB }

// New returns a Store.
func New(c Config) *Store { return &Store{db: c.DB, searchTime: searchTime, window: searchWindow} }

// Seal numbers the events that were committed since the last call, each trail from 1 and without gaps. An event that is
// seen here was committed before, and numbers are given by one transaction after another, so nothing appears behind a
// number that was read. It does nothing while another process does it.
func (s *Store) Seal(ctx context.Context) error {
	for {
		var waiting bool
		if err := s.db.Read().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM audit_events WHERE seq IS NULL)`).Scan(
			&waiting); err != nil {
			return fmt.Errorf("look for audit events without a number: %w", err)
		}
		if !waiting {
			return nil
		}
		n, err := s.seal(ctx)
		if err != nil {
			return fmt.Errorf("number audit events: %w", err)
		}
		if n < sealChunk {
			return nil
		}
	}
}

func (s *Store) seal(ctx context.Context) (n int64, err error) {
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		if held, err := s.db.TryAdvisoryLock(ctx, tx, db.LockSeal); err != nil || !held {
			return err
		}
		// A statement of its own: it must see what the holder of the lock before has committed.
		res, err := tx.ExecContext(ctx, `UPDATE audit_events AS a SET seq = n.seq FROM (
			SELECT w.id, (SELECT COALESCE(MAX(m.seq), 0) FROM audit_events m
				WHERE COALESCE(m.environment_id, m.team_id, '') = w.trail AND m.seq IS NOT NULL)
				+ ROW_NUMBER() OVER (PARTITION BY w.trail ORDER BY w.id) AS seq
			FROM (SELECT id, COALESCE(environment_id, team_id, '') AS trail FROM audit_events WHERE seq IS NULL ORDER BY id
			LIMIT $1) w) n
			WHERE a.id = n.id`, sealChunk)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	return n, err
}
