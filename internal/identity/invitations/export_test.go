package invitations

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/platform/id"
)

// Times that tests depend on.
const (
	ResendInterval  = resendInterval
	KeepInvitations = keepInvitations
)

// Put stores an invitation, as Invite does.
func (s *Service) Put(ctx context.Context, tx *sql.Tx, team id.Team, i Invitation, tokenMAC []byte,
	now time.Time) error {
	return putInvitation(ctx, s.db, tx, team, i, tokenMAC, now)
}
