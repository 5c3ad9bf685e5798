package members

import (
	"context"
	"database/sql"

	"sallyport/internal/platform/id"
)

// HasLastingOwner reports whether a team has an owner whose role does not end by itself.
func HasLastingOwner(ctx context.Context, tx *sql.Tx, team id.Team) (bool, error) {
	return hasLastingOwner(ctx, tx, team)
}
