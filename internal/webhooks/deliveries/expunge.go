package deliveries

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/webhooks/events"
)

// errPayloadExpired is the error of an attempt to send a removed payload.
func errPayloadExpired() error {
	return apperr.New(apperr.CodePayloadExpired, "The event's payload has been removed; it cannot be sent")
}

// Expunge removes an event's payload permanently and cancels its open deliveries. An attempt that is on the wire ends
// by itself, and one that a worker of any node holds in memory may still begin within comparedFor; no retry follows.
// Expunging an event without a payload does nothing.
//
// Errors: not_found.
func (s *Service) Expunge(ctx context.Context, p access.Principal, eventUUID string) error {
	e, err := s.events.Get(ctx, p.View(), eventUUID)
	if err != nil || e.DuplicateOf != nil {
		return err
	}
	now := s.clock.Now()
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		// Deliveries are locked before their event, in the same order as everywhere.
		if _, err := cancelOpen(ctx, tx, s.store, &e, now); err != nil {
			return err
		}
		changed, err := s.events.Expunge(ctx, tx, &e, now)
		if err != nil || !changed {
			return err
		}
		if err := db.Bump(ctx, tx, expunged, ""); err != nil {
			return err
		}
		return audit.Record(ctx, tx, now, audit.Event{Team: p.Team, Environment: p.Environment, Actor: p,
			Action: "webhook_event.expunge", TargetType: "webhook_event", TargetID: eventUUID})
	})
	s.epochs.advance()
	// The rest of many deliveries follows in chunks, also after a call that was interrupted.
	for n := chunk; err == nil && n == chunk; {
		err = s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
			n, err = cancelOpen(ctx, tx, s.store, &e, now)
			return err
		})
	}
	return err
}

// cancelOpen cancels up to a chunk of the event's open deliveries and returns their number.
func cancelOpen(ctx context.Context, tx *sql.Tx, s *Store, e *events.Event, now time.Time) (int, error) {
	list, err := s.openOfEvent(ctx, tx, e)
	if err != nil {
		return 0, err
	}
	moves := make([]move, len(list))
	for i, d := range list {
		moves[i] = move{from: d, to: d.cancelled(now)}
	}
	return len(list), s.apply(ctx, tx, moves, clock.Millis(now))
}
