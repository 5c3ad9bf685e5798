package signin

import (
	"context"
	"database/sql"
	"fmt"

	"sallyport/internal/identity/members"
	"sallyport/internal/platform/db"
)

// readIdentity returns the user who is that subject at an issuer.
func readIdentity(ctx context.Context, q db.Querier, issuer, subject string) (u members.User, ok bool, err error) {
	err = q.QueryRowContext(ctx, "SELECT user_id FROM user_identities WHERE issuer = $1 AND subject = $2", issuer,
		subject).Scan(&u.ID)
	if ok, err = db.Found("the user's identity", err); err != nil || !ok {
		return members.User{}, false, err
	}
	return members.ReadUser(ctx, q, u.ID)
}

func hasIdentity(ctx context.Context, q db.Querier, user, issuer string) (bool, error) {
	var n int
	return db.Found("the user's identities",
		q.QueryRowContext(ctx, "SELECT 1 FROM user_identities WHERE user_id = $1 AND issuer = $2", user, issuer).Scan(&n))
}

func insertIdentity(ctx context.Context, tx *sql.Tx, issuer, subject, user string, nowMillis int64) error {
	_, err := db.Insert(ctx, tx, "INSERT INTO user_identities", db.Columns{db.Col("issuer", &issuer),
		db.Col("subject", &subject), db.Col("user_id", &user), db.Col("created_ms", &nowMillis)}, "")
	if err != nil {
		return fmt.Errorf("store the user's identity: %w", err)
	}
	return nil
}
