package accesstokens

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"sallyport/internal/platform/db"
)

type storedSigningKey struct {
	id         string
	sealed     []byte
	fromMillis int64
}

func signingKeyColumns(k *storedSigningKey) db.Columns {
	return db.Columns{
		db.Col("id", &k.id),
		db.Col("private_key", &k.sealed),
		db.Col("signs_from_ms", &k.fromMillis),
	}
}

func readSigningKeys(ctx context.Context, q db.Querier) ([]storedSigningKey, error) {
	keys, err := db.All(ctx, q, signingKeyColumns, "FROM signing_keys", new(db.Where), "ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("read the signing keys: %w", err)
	}
	return keys, nil
}

func insertSigningKey(ctx context.Context, tx *sql.Tx, k storedSigningKey, now time.Time) error {
	_, err := db.Insert(ctx, tx, "INSERT INTO signing_keys", append(signingKeyColumns(&k),
		db.Col("created_ms", db.Millis(&now))), "")
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
