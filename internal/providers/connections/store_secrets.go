package connections

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"fmt"
	"time"
	"unicode/utf8"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/verification"
)

// A hint shows hintCharacters of a secret that has at least hintMinimum. A hint of a shorter one would reveal too much.
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

// secretStore stores the webhook secrets of connections, sealed.
type secretStore struct{ box *secretbox.Box }

// secretRow is a stored webhook secret.
type secretRow struct {
	WebhookSecret
	connectionUUID string
	sealed         []byte
}

func secretColumns(r *secretRow) db.Columns {
	return db.Columns{
		db.Col("id", &r.ID),
		db.Col("connection_uuid", &r.connectionUUID),
		db.Col("label", &r.Label),
		db.Col("hint", &r.Hint),
		db.Col("value", &r.sealed),
		db.Col("created_ms", db.Millis(&r.CreatedAt)),
		db.Col("last_matched_ms", db.NullMillis(&r.LastMatchedAt)),
	}
}

// insert stores a secret of a connection.
func (s secretStore) insert(ctx context.Context, tx *sql.Tx, connectionUUID string, v WebhookSecret,
	value secretbox.Secret) error {
	sealed, err := s.box.Seal([]byte(value.Reveal()), secretPlace(v.ID))
	if err != nil {
		return fmt.Errorf("seal webhook secret: %w", err)
	}
	row := secretRow{WebhookSecret: v, connectionUUID: connectionUUID, sealed: sealed}
	if _, err := db.Insert(ctx, tx, "INSERT INTO connection_secrets", secretColumns(&row), ""); err != nil {
		return fmt.Errorf("insert webhook secret: %w", err)
	}
	return nil
}

// replace deletes every secret of the connection and, unless cleared, stores the new one.
func (s secretStore) replace(ctx context.Context, tx *sql.Tx, connectionUUID string,
	secret patch.Field[secretbox.Secret], now time.Time) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM connection_secrets WHERE connection_uuid = $1`,
		connectionUUID); err != nil {
		return fmt.Errorf("delete webhook secrets: %w", err)
	}
	if secret.Null {
		return nil
	}
	v := WebhookSecret{ID: id.New(id.PrefixSecret), Hint: hint(secret.Value), CreatedAt: now}
	return s.insert(ctx, tx, connectionUUID, v, secret.Value)
}

// open returns the decrypted webhook secrets of a connection, oldest first.
func (s secretStore) open(ctx context.Context, q querier, connectionUUID string) ([]verification.Secret, error) {
	rows, err := readSecrets(ctx, q, connectionUUID)
	if err != nil {
		return nil, err
	}
	out := make([]verification.Secret, 0, len(rows))
	for _, row := range rows {
		plain, err := s.box.Open(row.sealed, secretPlace(row.ID))
		if err != nil {
			return nil, fmt.Errorf("open webhook secret %s: %w", row.ID, err)
		}
		out = append(out, verification.Secret{ID: row.ID, Value: secretbox.Secret(plain)})
	}
	return out, nil
}

// listSecrets describes the webhook secrets of a connection, oldest first.
func listSecrets(ctx context.Context, q querier, connectionUUID string) ([]WebhookSecret, error) {
	rows, err := readSecrets(ctx, q, connectionUUID)
	if err != nil {
		return nil, err
	}
	out := make([]WebhookSecret, len(rows))
	for i := range rows {
		out[i] = rows[i].WebhookSecret
	}
	return out, nil
}

func readSecrets(ctx context.Context, q querier, connectionUUID string) ([]secretRow, error) {
	rows, err := db.All(ctx, q, secretColumns, "FROM connection_secrets",
		new(db.Where).And("connection_uuid = ?", connectionUUID), "ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("read webhook secrets: %w", err)
	}
	return rows, nil
}

// enrol adds a captured secret to those of the connection. One that is stored already stays as it is.
func (s secretStore) enrol(ctx context.Context, tx *sql.Tx, connectionUUID string, value secretbox.Secret,
	now time.Time) (WebhookSecret, error) {
	known, err := s.open(ctx, tx, connectionUUID)
	if err != nil {
		return WebhookSecret{}, err
	}
	for _, v := range known {
		if subtle.ConstantTimeCompare([]byte(v.Value.Reveal()), []byte(value.Reveal())) == 1 {
			return findSecret(ctx, tx, connectionUUID, v.ID)
		}
	}
	if len(known) >= MaxSecrets {
		return WebhookSecret{}, ErrNotEnrolled
	}
	out := WebhookSecret{ID: id.New(id.PrefixSecret), Label: "captured from a handshake", Hint: hint(value),
		CreatedAt: now}
	return out, s.insert(ctx, tx, connectionUUID, out, value)
}
