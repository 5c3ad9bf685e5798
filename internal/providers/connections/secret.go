package connections

import (
	"context"
	"database/sql"
	"fmt"
	"time"
	"unicode/utf8"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
)

// A hint shows hintCharacters of a secret that has at least hintMinimum; of a shorter one it would give too much away.
const (
	hintCharacters = 4
	hintMinimum    = 16
)

// SealedColumns returns the columns that this package seals, for the rotation of the keyset.
func SealedColumns() []secretbox.Column {
	return []secretbox.Column{
		{Table: "connection_secrets", Column: "value", IDColumn: "id"},
		{Table: "webhook_enrolments", Column: "value", IDColumn: "connection_uuid"},
	}
}

func secretPlace(secretID string) secretbox.AD {
	return secretbox.AD{Table: "connection_secrets", Column: "value", RowID: secretID}
}

func hint(v secretbox.Secret) string {
	text := v.Reveal()
	if utf8.RuneCountInString(text) < hintMinimum {
		return ""
	}
	from := len(text)
	for range hintCharacters {
		_, size := utf8.DecodeLastRuneInString(text[:from])
		from -= size
	}
	return text[from:]
}

// replaceSecrets deletes every secret of the connection and, unless cleared, stores the new one.
func (s *Service) replaceSecrets(ctx context.Context, tx *sql.Tx, connectionUUID string,
	secret patch.Field[secretbox.Secret], now time.Time) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM connection_secrets WHERE connection_uuid = $1`,
		connectionUUID); err != nil {
		return fmt.Errorf("delete webhook secrets: %w", err)
	}
	if secret.Null {
		return nil
	}
	v := WebhookSecret{ID: id.New(id.PrefixSecret), Hint: hint(secret.Value), CreatedAt: now}
	return s.insertSecret(ctx, tx, connectionUUID, v, secret.Value)
}

type secretRow struct {
	id     string
	sealed []byte
}

func findSecrets(ctx context.Context, q querier, connectionUUID string) ([]secretRow, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, value FROM connection_secrets WHERE connection_uuid = $1 ORDER BY id`,
		connectionUUID)
	if err != nil {
		return nil, fmt.Errorf("read webhook secrets: %w", err)
	}
	var out []secretRow
	err = db.Each(rows, func(r *sql.Rows) error {
		var row secretRow
		if err := r.Scan(&row.id, &row.sealed); err != nil {
			return fmt.Errorf("read webhook secrets: %w", err)
		}
		out = append(out, row)
		return nil
	})
	return out, err
}
