package executions

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"fmt"

	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/canon"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

// claim claims the idempotency key of an execution, and stores the execution with it. It returns the earlier execution
// if the key has one.
//
// Errors: idempotency_mismatch.
func (s *Service) claim(ctx context.Context, c *gateway.Call, x *extension) (*Execution, error) {
	p := &c.Request.Principal
	x.keyHash = s.mac("execution key", string(c.Environment()), string(p.Kind), p.ID,
		c.Request.ConfigKey+"/"+c.Target.Name, x.key)
	fingerprint := s.mac("execution fingerprint", x.keyHash, c.Request.ConfigKey, c.Connected.UUID, c.Request.Version,
		string(canon.Append(nil, c.Input.Value())))
	row, err := s.row(begun(c, x), c)
	if err != nil {
		return nil, err
	}
	now := s.cfg.Clock.Now()
	var claimed bool
	var earlier, earlierPrint string
	err = s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		var err error
		claimed, err = db.Changed(tx.ExecContext(ctx, `INSERT INTO execution_keys
			(key_hash, environment_id, execution_id, fingerprint, expires_ms) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (key_hash) DO UPDATE SET execution_id = excluded.execution_id, fingerprint = excluded.fingerprint,
			expires_ms = excluded.expires_ms WHERE execution_keys.expires_ms <= $6`, x.keyHash, string(c.Environment()), c.ID,
			fingerprint, clock.Millis(now.Add(keyLifetime)), clock.Millis(now)))
		if err != nil {
			return fmt.Errorf("claim an idempotency key: %w", err)
		}
		if claimed {
			_, err = s.cfg.DB.Exec(ctx, tx, storeExecutions, row)
			return err //nolint:wrapcheck // it says what failed
		}
		earlier, earlierPrint, err = s.readKey(ctx, tx, c.Environment(), x.keyHash)
		return err
	})
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // it says what failed
	case claimed:
		return nil, nil //nolint:nilnil // no earlier one
	case subtle.ConstantTimeCompare([]byte(fingerprint), []byte(earlierPrint)) == 0:
		return nil, apperr.New(apperr.CodeIdempotencyMismatch,
			"The Idempotency-Key was sent before with another connection, version or input")
	}
	e, err := s.Get(ctx, Reader{View: wholeView(c), Kind: p.Kind, ID: p.ID}, earlier)
	if apperr.Is(err, apperr.CodeNotFound) {
		return nil, apperr.New(apperr.CodeIdempotencyOutcomeUnknown,
			"The execution of the first request with this Idempotency-Key is not kept any more")
	}
	return e, err
}

// release makes a key free again whose execution has ended before anything was sent, so that another request can use
// it. An execution that was refused before it was decided on has no record, as one without a key.
func (s *Service) release(ctx context.Context, c *gateway.Call, x *extension) error {
	err := s.cfg.DB.Tx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM execution_keys WHERE key_hash = $1 AND execution_id = $2`, x.keyHash, c.ID)
		if err == nil && c.Ended.IsZero() {
			_, err = tx.ExecContext(ctx, `DELETE FROM executions WHERE id = $1 AND lease_ms > 0`, c.ID)
		}
		return err //nolint:wrapcheck // wrapped below
	})
	if err != nil {
		return fmt.Errorf("release an idempotency key: %w", err)
	}
	return nil
}

// mac hashes texts under the secret of the installation: a plain hash would let someone guess an input.
func (s *Service) mac(purpose string, parts ...string) string {
	var text []byte
	for _, part := range parts {
		text = fmt.Appendf(text, "%d:%s,", len(part), part)
	}
	return hex.EncodeToString(s.cfg.Pepper.MAC(purpose, text))
}
