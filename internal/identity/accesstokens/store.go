package accesstokens

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
)

type storedSigningKey struct {
	id         string
	sealed     []byte
	fromMillis int64
}

func readSigningKeys(ctx context.Context, q db.Querier) ([]storedSigningKey, error) {
	rows, err := q.QueryContext(ctx, "SELECT id, private_key, signs_from_ms FROM signing_keys ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("read the signing keys: %w", err)
	}
	var keys []storedSigningKey
	err = db.Each(rows, func(r *sql.Rows) error {
		var k storedSigningKey
		if err := r.Scan(&k.id, &k.sealed, &k.fromMillis); err != nil {
			return err
		}
		keys = append(keys, k)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the signing keys: %w", err)
	}
	return keys, nil
}

func insertSigningKey(ctx context.Context, tx *sql.Tx, k storedSigningKey, now time.Time) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO signing_keys (id, private_key, created_ms, signs_from_ms) VALUES ($1, "+
		"$2, $3, $4)",
		k.id, k.sealed, clock.Millis(now), k.fromMillis)
	if err != nil {
		return fmt.Errorf("store the signing key: %w", err)
	}
	return nil
}

func deleteSigningKeys(ctx context.Context, tx *sql.Tx, ids []string) error {
	for _, keyID := range ids {
		if _, err := tx.ExecContext(ctx, "DELETE FROM signing_keys WHERE id = $1", keyID); err != nil {
			return fmt.Errorf("remove a signing key: %w", err)
		}
	}
	return nil
}
