package storing

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
)

// forgetAfter is how long the row of a node that is gone is kept.
const forgetAfter = 24 * time.Hour

// writeRow writes this node's row. Nodes have a row each, so that one that stops in the middle delays no other.
func (m *Monitor) writeRow(ctx context.Context, failing bool) error {
	filler := []byte{}
	if failing {
		filler = make([]byte, fillerSize)
		if _, err := rand.Read(filler); err != nil { // nothing that the database could compress
			return err
		}
	}
	now := m.cfg.Clock.Now()
	var shown *int64
	if m.cfg.DueTimes != nil {
		shown = new(clock.Millis(m.cfg.DueTimes.Now()))
	}
	return m.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO store_probes (node, probed_ms, filler, shown_ms)
			VALUES ($1, $2, $3, $4) ON CONFLICT (node) DO UPDATE SET probed_ms = excluded.probed_ms,
			filler = excluded.filler, shown_ms = excluded.shown_ms`, m.cfg.Node, clock.Millis(now), filler,
			shown); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM store_probes WHERE probed_ms < $1", clock.Millis(now.Add(-forgetAfter)))
		return err
	})
}

// SetBack returns by how much the clock of due times was set back while no process ran, as far as is known: how far it
// is behind what it showed last. It can have been set back by more, by as much as the time that has passed since. 0 if
// it is not behind.
func (m *Monitor) SetBack(ctx context.Context) (time.Duration, error) {
	if m.cfg.DueTimes == nil {
		return 0, nil
	}
	var last sql.NullInt64
	if err := m.cfg.DB.Read().QueryRowContext(ctx, "SELECT MAX(shown_ms) FROM store_probes").Scan(&last); err != nil {
		return 0, fmt.Errorf("read what the clock showed last: %w", err)
	}
	if !last.Valid {
		return 0, nil
	}
	return max(0, clock.FromMillis(last.Int64).Sub(m.cfg.DueTimes.Now())), nil
}

// shiftTimes moves what the clock showed last, after it was set: the times that are moved with it are not moved again.
func (m *Monitor) shiftTimes(ctx context.Context, tx *sql.Tx, by time.Duration) error {
	if _, err := tx.ExecContext(ctx, "UPDATE store_probes SET shown_ms = shown_ms + $1", by.Milliseconds()); err != nil {
		return fmt.Errorf("shift the time of probes: %w", err)
	}
	return nil
}
