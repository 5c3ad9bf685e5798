package idempotency

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
)

const (
	table        = "idempotency_keys"
	recordColumn = "record"
)

// The states of a row.
const (
	stateRunning  = "running"
	stateEffected = "effected"
	stateDone     = "done"
)

// record is the sealed part of a row. The fingerprint is sealed because a plain hash would let someone guess a secret
// in the body; the response is sealed because it may show a secret once.
type record struct {
	Fingerprint []byte `json:"fingerprint"`
	// Rights are those of the caller; nil in rows of the previous release.
	Rights *rights `json:"rights,omitempty"`
	// The name in JSON is that of stored rows.
	Response *Response `json:"answer,omitempty"`
}

// entry is a row of the table.
type entry struct {
	record
	state       string
	leaseMillis int64
}

func place(rowID string) secretbox.AD {
	return secretbox.AD{Table: table, Column: recordColumn, RowID: rowID}
}

func (s *Store) seal(r *Run, response *Response) ([]byte, error) {
	plain, err := json.Marshal(record{r.fingerprint, r.rights, response})
	if err != nil {
		return nil, fmt.Errorf("encode the response of an idempotency key: %w", err)
	}
	return s.box.Seal(plain, place(r.id))
}

// claim claims the key for the run if it is free: unknown, expired, or abandoned by a process before any commit.
func (s *Store) claim(ctx context.Context, r *Run) (claimed bool, err error) {
	sealed, err := s.seal(r, nil)
	if err != nil {
		return false, err
	}
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		now := s.clock.Now()
		var got string
		err := tx.QueryRowContext(ctx, `INSERT INTO idempotency_keys (id, environment_id, claim_id, state, record, lease_ms,
				expires_ms)
			VALUES ($1, $2, $3, 'running', $4, $5, $6)
			ON CONFLICT (id) DO UPDATE SET claim_id = excluded.claim_id, state = excluded.state, record = excluded.record,
				lease_ms = excluded.lease_ms, expires_ms = excluded.expires_ms
			WHERE idempotency_keys.expires_ms <= $7 OR idempotency_keys.state = 'running' AND idempotency_keys.lease_ms <= $7
			RETURNING claim_id`,
			r.id, string(r.env), r.claim, sealed, clock.Millis(now.Add(Lease)), clock.Millis(now.Add(Lifetime)),
			clock.Millis(now)).Scan(&got)
		if errors.Is(err, sql.ErrNoRows) {
			claimed = false
			return nil
		}
		claimed = err == nil
		return err
	})
	if err != nil {
		return false, fmt.Errorf("claim an idempotency key: %w", err)
	}
	return claimed, nil
}

func (s *Store) read(ctx context.Context, env id.Environment, rowID string) (e entry, ok bool, err error) {
	var sealed []byte
	err = s.db.Read().QueryRowContext(ctx,
		"SELECT state, record, lease_ms FROM idempotency_keys WHERE id = $1 AND environment_id = $2", rowID,
		string(env)).Scan(&e.state, &sealed, &e.leaseMillis)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return entry{}, false, nil
	case err != nil:
		return entry{}, false, fmt.Errorf("read an idempotency key: %w", err)
	}
	plain, err := s.box.Open(sealed, place(rowID))
	if err != nil {
		return entry{}, false, err
	}
	if err := json.Unmarshal(plain, &e.record); err != nil {
		return entry{}, false, fmt.Errorf("decode the response of an idempotency key: %w", err)
	}
	return e, true, nil
}

// markEffected records that the run commits something, and reports whether it still holds its key.
func (s *Store) markEffected(ctx context.Context, tx *sql.Tx, r *Run) (held bool, err error) {
	return changed(tx.ExecContext(ctx, `UPDATE idempotency_keys SET state = 'effected'
		WHERE id = $1 AND environment_id = $2 AND claim_id = $3 AND state <> 'done'`, r.id, string(r.env), r.claim))
}

func (s *Store) finish(ctx context.Context, r *Run, response *Response) error {
	sealed, err := s.seal(r, response)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		held, err := changed(tx.ExecContext(ctx, `UPDATE idempotency_keys SET state = 'done', record = $4
			WHERE id = $1 AND environment_id = $2 AND claim_id = $3`, r.id, string(r.env), r.claim, sealed))
		if err == nil && !held {
			err = errLost
		}
		return err
	})
}

func (s *Store) release(ctx context.Context, r *Run) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := changed(tx.ExecContext(ctx, "DELETE FROM idempotency_keys WHERE id = $1 AND environment_id = $2 AND "+
			"claim_id = $3",
			r.id, string(r.env), r.claim))
		return err
	})
}

// fail frees the key if the run committed nothing, and otherwise ends its lease.
func (s *Store) fail(ctx context.Context, r *Run) error {
	return s.db.Tx(ctx, func(tx *sql.Tx) error {
		_, err := changed(tx.ExecContext(ctx, `DELETE FROM idempotency_keys
			WHERE id = $1 AND environment_id = $2 AND claim_id = $3 AND state = 'running'`, r.id, string(r.env), r.claim))
		if err != nil {
			return err
		}
		_, err = changed(tx.ExecContext(ctx, `UPDATE idempotency_keys SET lease_ms = 0
			WHERE id = $1 AND environment_id = $2 AND claim_id = $3`, r.id, string(r.env), r.claim))
		return err
	})
}

// expireBatch is the maximum number of rows that one transaction deletes.
const expireBatch = 500

// Expire deletes expired keys.
func (s *Store) Expire(ctx context.Context, now time.Time) error {
	for {
		var n int64
		err := s.db.Tx(ctx, func(tx *sql.Tx) error {
			old := "SELECT id FROM idempotency_keys WHERE expires_ms <= $1 ORDER BY expires_ms LIMIT $2" + s.db.SkipLocked()
			//nolint:gosec // the text is ours
			result, err := tx.ExecContext(ctx, "DELETE FROM idempotency_keys WHERE id IN ("+old+")", clock.Millis(now),
				expireBatch)
			if err != nil {
				return err
			}
			n, err = result.RowsAffected()
			return err
		})
		if err != nil {
			return fmt.Errorf("delete expired idempotency keys: %w", err)
		}
		if n < expireBatch {
			return nil
		}
	}
}

// changed reports whether a statement changed a row.
func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("update an idempotency key: %w", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("update an idempotency key: %w", err)
	}
	return n > 0, nil
}
