package setup

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/platform/db"
)

func insertSetupToken(ctx context.Context, tx *sql.Tx, tokenMAC []byte, nowMillis int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO setup_tokens (token_mac, created_ms) VALUES ($1, $2) ON CONFLICT "+
		"(token_mac) DO NOTHING",
		tokenMAC, nowMillis)
	if err != nil {
		return fmt.Errorf("store a set-up token: %w", err)
	}
	return nil
}

// trimSetupTokens keeps the newest.
func trimSetupTokens(ctx context.Context, tx *sql.Tx, keep int) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM setup_tokens WHERE token_mac NOT IN
		(SELECT token_mac FROM setup_tokens ORDER BY created_ms DESC, token_mac LIMIT $1)`, keep)
	if err != nil {
		return fmt.Errorf("remove old set-up tokens: %w", err)
	}
	return nil
}

func deleteSetupTokens(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM setup_tokens"); err != nil {
		return fmt.Errorf("remove set-up tokens: %w", err)
	}
	return nil
}

func readSetupTokens(ctx context.Context, q db.Querier) ([][]byte, error) {
	rows, err := q.QueryContext(ctx, "SELECT token_mac FROM setup_tokens")
	if err != nil {
		return nil, fmt.Errorf("read set-up tokens: %w", err)
	}
	var list [][]byte
	err = db.Each(rows, func(r *sql.Rows) error {
		var m []byte
		if err := r.Scan(&m); err != nil {
			return err
		}
		list = append(list, m)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read set-up tokens: %w", err)
	}
	return list, nil
}
