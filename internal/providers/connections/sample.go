package connections

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/db"
)

// InboundOf returns a connection that the view shows, as the inbound endpoint finds it by its path token, or not_found.
func (s *Service) InboundOf(ctx context.Context, v access.View, providerConfigKey, connectionID string) (*Inbound,
	error) {
	c, err := s.Get(ctx, v, providerConfigKey, connectionID)
	if err != nil {
		return nil, err
	}
	return s.Lookup(ctx, c.PathToken)
}

// RecordSample records in the audit trail that the actor sends a sample of a webhook to the connection.
func RecordSample(ctx context.Context, d *db.DB, actor access.Principal, c *Connection, sampleID, eventType string,
	now time.Time) error {
	return d.Tx(ctx, func(tx *sql.Tx) error {
		return audit.Record(ctx, tx, now, audit.Event{
			Team: actor.Team, Environment: c.Environment, Actor: actor, Action: actionSendSample, TargetType: "connection",
			TargetID: c.UUID, Details: audit.State{"sample_id": sampleID, "event_type": eventType},
		})
	})
}
