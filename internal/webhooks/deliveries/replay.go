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
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// ReplayRequest selects the deliveries of an event to send again.
type ReplayRequest struct {
	// SubscriptionIDs restricts the replay; empty means every delivery of the event that the caller may see.
	SubscriptionIDs []string
	// Force also replays deliveries that have not failed.
	Force bool
}

// Replay starts a new generation of an event's deliveries that are dead or wait for a retry and, with Force, of those
// that succeeded, wait or were cancelled. It skips the deliveries of subscriptions that are gone, and those that
// the caller may not see. It returns the event's other deliveries after the change.
//
// More deliveries than one transaction changes are started in parts, in the order of their subscriptions. An error
// before the end of the first part means that nothing has changed. The rest does not depend on the client's
// connection; a delivery whose attempt has begun meanwhile is left as it is. If a later part cannot be stored, or the
// process ends, the parts before it stay started, and a replay without Force starts the others.
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
	all, err := s.store.ByEvents(ctx, p.View(), []string{eventUUID})
	if err != nil {
		return nil, err
	}
	enabled, err := s.enabledTargets(ctx, p.Environment, all[eventUUID], req.SubscriptionIDs)
	if err != nil {
		return nil, err
	}
	may := func(d *Delivery) bool { return req.Force || d.Status == Dead || d.Status == RetryWait }
	var selected []string
	for i := range all[eventUUID] {
		d := &all[eventUUID][i]
		if _, ok := enabled[d.SubscriptionID]; !ok {
			continue
		}
		if d.Status == Sending {
			return nil, errInFlight()
		}
		if may(d) {
			selected = append(selected, d.SubscriptionID)
		}
	}
	r := &restart{s: s, environment: p.Environment, event: eventUUID, now: s.clock.Now(), enabled: enabled, may: may,
		refuse: true}
	_, err = r.run(ctx, selected, func(tx *sql.Tx, n int) error {
		if n == 0 {
			return errNothingToReplay(req.Force)
		}
		return audit.Record(ctx, tx, r.now, audit.Event{Team: p.Team, Environment: p.Environment, Actor: p,
			Action: "webhook_event.replay", TargetType: "webhook_event", TargetID: eventUUID,
			Details: audit.State{"deliveries": n, "force": req.Force, "subscription_ids": req.SubscriptionIDs}})
	})
	if errors.Is(err, errStale) {
		return nil, errInFlight()
	}
	if err != nil {
		return nil, err
	}
	all, err = s.store.ByEvents(ctx, p.View(), []string{eventUUID})
	return all[eventUUID], err
}

func errInFlight() error {
	return apperr.New(apperr.CodeDeliveryInFlight,
		"A delivery of the event is being sent; try again when it has ended")
}

func errNothingToReplay(force bool) error {
	if force {
		return apperr.New(apperr.CodeNothingToReplay,
			"The event has no delivery that can be replayed; its subscriptions were deleted, or it matched none")
	}
	return apperr.New(apperr.CodeNothingToReplay, "No delivery of the event has failed; force replays the others")
}

// enabledTargets returns, for the selected deliveries whose subscription still exists, whether their replays are sent
// now: it is enabled, and its breaker is closed. A subscription to which the event has no delivery is a validation
// error.
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
		enabled[d.SubscriptionID] = t.Enabled && !s.breakers.isOpen(d.SubscriptionID)
	}
	return enabled, nil
}

// restart starts a new generation of some of an event's deliveries.
type restart struct {
	s           *Service
	environment id.Environment
	event       string
	now         time.Time
	// enabled says of each subscription whether its deliveries are sent now.
	enabled map[string]bool
	// may reports whether a delivery, as it is in the transaction that changes it, is started.
	may func(*Delivery) bool
	// refuse refuses everything while a delivery of the first transaction is being sent.
	refuse bool
}

// run starts the deliveries to the subscriptions, in transactions of a few each, and returns how many it has started.
// The first transaction calls first with the number of all that are to be started; an error of first undoes it. The
// context ends only what comes before its commit.
func (r *restart) run(ctx context.Context, subscriptionIDs []string,
	first func(tx *sql.Tx, n int) error) (started int, err error) {
	lasting := context.WithoutCancel(ctx)
	for begun := false; !begun || len(subscriptionIDs) > 0; begun = true {
		some := subscriptionIDs[:min(len(subscriptionIDs), r.s.store.moves.Limit())]
		subscriptionIDs = subscriptionIDs[len(some):]
		n := 0
		if err := r.s.db.Tx(ctx, func(tx *sql.Tx) (err error) {
			if n, err = r.startSome(ctx, tx, some, r.refuse && !begun); err != nil || begun {
				return err
			}
			return first(tx, n+len(subscriptionIDs))
		}); err != nil {
			return started, err
		}
		started += n
		r.s.Due(r.environment, some...)
		ctx = lasting //nolint:fatcontext // it is the same each time
	}
	return started, nil
}

// startSome starts those of the deliveries to a few subscriptions that may be started, and returns their number. With
// refuse set it fails with errStale if one is being sent.
func (r *restart) startSome(ctx context.Context, tx *sql.Tx, subscriptionIDs []string, refuse bool) (int, error) {
	args := []any{r.event}
	for _, sub := range subscriptionIDs {
		args = append(args, sub)
	}
	// A power of two of them, so that few texts are planned.
	for n := len(subscriptionIDs); n&(n-1) != 0; n++ {
		args = append(args, subscriptionIDs[0])
	}
	var moves []move
	if len(subscriptionIDs) > 0 {
		list, err := r.s.store.query(ctx, tx, "d.event_uuid = $1 AND d.subscription_id IN "+db.In(2, len(args)-1)+
			" ORDER BY d.subscription_id"+r.s.store.lock(), args...)
		if err != nil {
			return 0, err
		}
		for i := range list {
			d := &list[i]
			switch {
			case d.Status == Sending && refuse:
				return 0, errStale
			case d.Status != Sending && r.may(d):
				moves = append(moves, move{from: *d, to: d.replayed(r.now, r.enabled[d.SubscriptionID])})
			}
		}
	}
	if err := r.s.store.apply(ctx, tx, moves, clock.Millis(r.now)); err != nil {
		return 0, err
	}
	// A removal before this point is seen here; a later one finds the started deliveries.
	expunged, err := r.s.events.Expunged(ctx, tx, r.environment, []string{r.event})
	if err != nil {
		return 0, err
	}
	if len(expunged) > 0 {
		return 0, errPayloadExpired()
	}
	return len(moves), nil
}

// redeliverInterval is the shortest time between two restarts of an event's dead deliveries by resent webhooks.
const redeliverInterval = 5 * time.Minute

// Redeliver restarts the dead deliveries of an event that its provider has sent again, in parts as Replay does. It
// returns how many it restarted: none within redeliverInterval of the last time.
func (s *Service) Redeliver(ctx context.Context, env id.Environment, eventUUID string) (int, error) {
	now := s.clock.Now()
	if may, err := s.events.MayRedeliver(ctx, env, eventUUID, now.Add(-redeliverInterval)); err != nil || !may {
		return 0, err
	}
	dead, err := s.store.query(ctx, s.db.Read(), "d.event_uuid = $1 AND d.environment_id = $2 AND d.status = $3 "+
		"ORDER BY d.subscription_id", eventUUID, string(env), string(Dead))
	if err != nil || len(dead) == 0 {
		return 0, err
	}
	e, err := s.events.Get(ctx, access.Whole(env), eventUUID)
	if err != nil || e.PayloadExpired {
		return 0, err
	}
	enabled, err := s.enabledTargets(ctx, env, dead, nil)
	if err != nil {
		return 0, err
	}
	ids := make([]string, 0, len(dead))
	for i := range dead {
		if _, ok := enabled[dead[i].SubscriptionID]; ok {
			ids = append(ids, dead[i].SubscriptionID)
		}
	}
	r := &restart{s: s, environment: env, event: eventUUID, now: now, enabled: enabled,
		may: func(d *Delivery) bool { return d.Status == Dead }}
	ctx = db.WithOwner(ctx, string(env))
	n, err := r.run(ctx, ids, func(tx *sql.Tx, n int) error {
		ok, err := s.events.MarkRedelivered(ctx, tx, env, eventUUID, now, now.Add(-redeliverInterval))
		switch {
		case err != nil || n == 0:
			return err
		case !ok:
			return errStale
		}
		return audit.Record(ctx, tx, now, audit.Event{Environment: env, Actor: access.System("ingest"),
			Action: "webhook_event.redeliver", TargetType: "webhook_event", TargetID: eventUUID,
			Details: audit.State{"deliveries": n}})
	})
	if errors.Is(err, errStale) || apperr.Is(err, apperr.CodePayloadExpired) {
		return n, nil
	}
	return n, err
}
