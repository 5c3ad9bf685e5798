package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// ReplayRequest selects the deliveries of an event to send again.
type ReplayRequest struct {
	// SubscriptionIDs restricts the replay; empty means every delivery of the event.
	SubscriptionIDs []string
	// Force also replays deliveries that have not failed.
	Force bool
}

// Replay starts a new generation of an event's deliveries that are dead or wait for a retry and, with Force, of those
// that succeeded, wait or were cancelled. It skips the deliveries of subscriptions that are gone. It returns the
// event's deliveries after the change.
//
// Errors: not_found; payload_expired if the payload was removed; delivery_in_flight while one of the selected
// deliveries is being sent; nothing_to_replay.
func (s *Service) Replay(ctx context.Context, p access.Principal, eventUUID string,
	req ReplayRequest) ([]Delivery, error) {
	e, err := s.events.Get(ctx, p.View(), eventUUID)
	if err != nil {
		return nil, err
	}
	if e.PayloadExpired {
		return nil, errPayloadExpired()
	}
	all, err := s.store.ByEvents(ctx, p.Environment, []string{eventUUID})
	if err != nil {
		return nil, err
	}
	enabled, err := s.enabledTargets(ctx, p.Environment, all[eventUUID], req.SubscriptionIDs)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now()
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		n, err := s.restartDeliveries(ctx, tx, eventUUID, now, enabled, func(d Delivery) bool {
			return req.Force || d.Status == Dead || d.Status == RetryWait
		}, true)
		if err != nil {
			return err
		}
		// A removal before this point is seen here; a later one finds the restarted deliveries.
		expunged, err := s.events.Expunged(ctx, tx, p.Environment, []string{eventUUID})
		if err != nil {
			return err
		}
		if len(expunged) > 0 {
			return errPayloadExpired()
		}
		if n == 0 {
			return errNothingToReplay(req.Force)
		}
		return audit.Record(ctx, tx, now, audit.Event{Team: p.Team, Environment: p.Environment, Actor: p,
			Action: "webhook_event.replay", TargetType: "webhook_event", TargetID: eventUUID,
			Details: audit.State{"deliveries": n, "force": req.Force, "subscription_ids": req.SubscriptionIDs}})
	})
	if errors.Is(err, errStale) {
		return nil, apperr.New(apperr.CodeDeliveryInFlight, "A delivery of the event is being sent; try again")
	}
	if err != nil {
		return nil, err
	}
	s.wake.Signal()
	all, err = s.store.ByEvents(ctx, p.Environment, []string{eventUUID})
	return all[eventUUID], err
}

func errNothingToReplay(force bool) error {
	if force {
		return apperr.New(apperr.CodeNothingToReplay,
			"The event has no delivery that can be replayed; its subscriptions were deleted, or it matched none")
	}
	return apperr.New(apperr.CodeNothingToReplay, "No delivery of the event has failed; force replays the others")
}

// enabledTargets returns, for the selected deliveries whose subscription still exists, whether it is enabled. A
// subscription to which the event has no delivery is a validation error.
func (s *Service) enabledTargets(ctx context.Context, env id.Environment, list []Delivery,
	only []string) (map[string]bool, error) {
	var violations apperr.Violations
	for i, sub := range only {
		if !slices.ContainsFunc(list, func(d Delivery) bool { return d.SubscriptionID == sub }) {
			violations.Add(fmt.Sprintf("subscription_ids[%d]", i), "exists", "the event has no delivery to this subscription")
		}
	}
	if err := violations.Err(); err != nil {
		return nil, err
	}
	enabled := map[string]bool{}
	for _, d := range list {
		if len(only) > 0 && !slices.Contains(only, d.SubscriptionID) {
			continue
		}
		t, err := s.subs.Target(ctx, env, d.SubscriptionID)
		if apperr.Is(err, apperr.CodeNotFound) || err == nil && t.Deleted {
			continue
		}
		if err != nil {
			return nil, err
		}
		enabled[d.SubscriptionID] = t.Enabled
	}
	return enabled, nil
}

// restartDeliveries increments the generation of the event's deliveries that may be restarted and whose subscription is
// in enabled, and returns their number.
func (s *Service) restartDeliveries(ctx context.Context, tx *sql.Tx, eventUUID string, now time.Time,
	enabled map[string]bool, may func(Delivery) bool, refuseSending bool,
) (int, error) {
	list, err := s.store.query(ctx, tx, "d.event_uuid = $1 ORDER BY d.subscription_id"+s.store.lock(), eventUUID)
	if err != nil {
		return 0, err
	}
	var moves []move
	for _, d := range list {
		on, ok := enabled[d.SubscriptionID]
		if !ok {
			continue
		}
		if d.Status == Sending {
			if refuseSending {
				return 0, apperr.New(apperr.CodeDeliveryInFlight,
					"A delivery of the event is being sent; try again when it has ended")
			}
			continue
		}
		if may(d) {
			moves = append(moves, move{from: d, to: d.replayed(now, on)})
		}
	}
	return len(moves), s.store.apply(ctx, tx, moves, clock.Millis(now))
}

// redeliverInterval is the shortest time between two restarts of an event's dead deliveries by resent webhooks.
const redeliverInterval = 5 * time.Minute

// Redeliver restarts the dead deliveries of an event that its provider has sent again. It returns how many it
// restarted: none within redeliverInterval of the last time.
func (s *Service) Redeliver(ctx context.Context, env id.Environment, eventUUID string) (int, error) {
	now := s.clock.Now()
	all, err := s.store.ByEvents(ctx, env, []string{eventUUID})
	if err != nil {
		return 0, err
	}
	dead := slices.DeleteFunc(all[eventUUID], func(d Delivery) bool { return d.Status != Dead })
	if len(dead) == 0 {
		return 0, nil
	}
	e, err := s.events.Get(ctx, access.Whole(env), eventUUID)
	if err != nil || e.PayloadExpired {
		return 0, err
	}
	enabled, err := s.enabledTargets(ctx, env, dead, nil)
	if err != nil {
		return 0, err
	}
	n := 0
	err = s.db.Tx(ctx, func(tx *sql.Tx) error {
		ok, err := s.events.MarkRedelivered(ctx, tx, env, eventUUID, now, now.Add(-redeliverInterval))
		if err != nil || !ok {
			return err
		}
		n, err = s.restartDeliveries(ctx, tx, eventUUID, now, enabled, func(d Delivery) bool {
			return d.Status == Dead
		}, false)
		if err != nil || n == 0 {
			return err
		}
		return audit.Record(ctx, tx, now, audit.Event{Environment: env, Actor: access.System("ingest"),
			Action: "webhook_event.redeliver", TargetType: "webhook_event", TargetID: eventUUID,
			Details: audit.State{"deliveries": n}})
	})
	if errors.Is(err, errStale) {
		return 0, nil
	}
	if n > 0 {
		s.wake.Signal()
	}
	return n, err
}
