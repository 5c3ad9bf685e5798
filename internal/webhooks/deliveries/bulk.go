package deliveries

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// SkipReason is the reason why a bulk replay skips a delivery or an event.
type SkipReason string

// The reasons. The first three concern a delivery, SkipNotFailed a delivery or an event, the others an event.
const (
	// SkipInFlight: an attempt is in progress.
	SkipInFlight SkipReason = "in_flight"
	// SkipSubscriptionDeleted: the subscription is gone.
	SkipSubscriptionDeleted SkipReason = "subscription_deleted"
	// SkipNotMatched: the subscription that the replay names does not match the event.
	SkipNotMatched SkipReason = "not_matched"
	// SkipNotFailed: nothing has failed, and the replay is not forced.
	SkipNotFailed SkipReason = "not_failed"
	// SkipPayloadExpired: the payload was removed.
	SkipPayloadExpired SkipReason = "payload_expired"
	// SkipDuplicate: the event is a duplicate, which is not forwarded.
	SkipDuplicate SkipReason = "duplicate"
	// SkipControl: the event is a ping or confirmation of the provider, which is not forwarded.
	SkipControl SkipReason = "control"
	// SkipNoDelivery: no subscription matched the event when it was received.
	SkipNoDelivery SkipReason = "no_delivery"
)

// Bulk is a part of a bulk replay: events of one environment, and which of their deliveries to start again.
type Bulk struct {
	// View shows the events, and the subscriptions to which they may be sent.
	access.View
	// Events are in the order of their uuids.
	Events []events.Event
	// After is the subscription up to which the first event's deliveries are done; empty if none are.
	After string
	// Criteria select among the deliveries of the events. Empty ones do not restrict.
	Criteria events.DeliveryCriteria
	// Force also starts deliveries that have not failed.
	Force bool
	// To is the subscription to send the events to, whether or not it received them before. Criteria do not apply to its
	// deliveries. Empty for the existing deliveries.
	To string
	// Limit is the maximum number of deliveries to start.
	Limit int
}

// Started names a delivery that was started, and the generation that began with it.
type Started struct {
	Key
	Generation int64
}

// BulkResult is the result of a Bulk.
type BulkResult struct {
	Started []Started
	// Skipped counts what was skipped, by reason: deliveries, and events that have no delivery to count.
	Skipped map[SkipReason]int64
	// Events is the number of events that are done.
	Events int
	// After is set when the event after them was begun: it is the last subscription whose delivery was looked at.
	After string
}

// BulkReplay is a Bulk with everything that is read before its transaction.
type BulkReplay struct {
	Bulk
	s *Service
	// targets holds the subscriptions of the deliveries; nil for one that is gone.
	targets map[string]*subscriptions.Target
	// matched holds the events that the subscription To matches as it is now.
	matched map[string]bool
}

// PrepareBulk reads what a bulk replay needs in addition to the deliveries themselves.
func (s *Service) PrepareBulk(ctx context.Context, b Bulk) (*BulkReplay, error) {
	r := &BulkReplay{Bulk: b, s: s, targets: map[string]*subscriptions.Target{}, matched: map[string]bool{}}
	ids := []string{b.To}
	if b.To == "" {
		rows, _, err := r.rows(ctx, s.db.Read(), "")
		if err != nil {
			return nil, err
		}
		ids = ids[:0]
		for i := range rows {
			ids = append(ids, rows[i].SubscriptionID)
		}
	}
	slices.Sort(ids)
	for _, sub := range slices.Compact(ids) {
		t, err := s.subs.Target(ctx, b.Environment, sub)
		if err != nil && !apperr.Is(err, apperr.CodeNotFound) {
			return nil, err
		}
		if err != nil || t.Deleted {
			t = nil
		}
		r.targets[sub] = t
	}
	if b.To != "" && r.targets[b.To] != nil {
		return r, r.matchEvents(ctx)
	}
	return r, nil
}

// matchEvents finds the events that the subscription To matches.
func (r *BulkReplay) matchEvents(ctx context.Context) error {
	sub, err := r.s.subs.Get(ctx, r.View, r.To)
	if apperr.Is(err, apperr.CodeNotFound) {
		r.targets[r.To] = nil
		return nil
	}
	if err != nil {
		return err
	}
	var asked []events.Event
	for i := range r.Events {
		e := &r.Events[i]
		rules, err := r.s.subs.TypeRules(ctx, e.Environment, OriginOf(e))
		if err != nil {
			return err
		}
		if eventSkip(e) != "" || sub.Explain(rules, e.ProviderConfigKey, e.ConnectionID, e.AllTypes()...).Failed != "" {
			continue
		}
		if r.matched[e.UUID] = sub.Filter == ""; !r.matched[e.UUID] {
			asked = append(asked, *e)
		}
	}
	return r.filterEvents(ctx, sub.Filter, asked)
}

// maxFilterBodies limits the bodies that are in memory for a filter at a time, in bytes, unless a single one is larger.
const maxFilterBodies = 4 << 20

// filterEvents finds the events that the filter matches.
func (r *BulkReplay) filterEvents(ctx context.Context, text string, list []events.Event) error {
	if len(list) == 0 {
		return nil
	}
	f := filters.New(text)
	for len(list) > 0 {
		n, size := 1, list[0].BodySize
		for n < len(list) && size+list[n].BodySize <= maxFilterBodies {
			size += list[n].BodySize
			n++
		}
		payloads, err := r.s.events.Payloads(ctx, r.Environment, list[:n])
		if err != nil {
			return err
		}
		for i := range list[:n] {
			e := &list[i]
			if p, ok := payloads[e.UUID]; ok {
				r.matched[e.UUID] = f.Eval(filters.NewEvent(e, &p)).Matches
			}
		}
		list = list[n:]
	}
	return nil
}

// Gone reports whether the subscription To no longer exists.
func (r *BulkReplay) Gone() bool { return r.To != "" && r.targets[r.To] == nil }

// Preview returns the result that Start would have now, and changes nothing.
func (r *BulkReplay) Preview(ctx context.Context, now time.Time) (BulkResult, error) {
	rows, more, err := r.rows(ctx, r.s.db.Read(), "")
	if err != nil {
		return BulkResult{}, err
	}
	c, err := r.choose(rows, more, now)
	return c.result, err
}

// Start begins a new generation of the deliveries in the caller's transaction, and creates missing ones. Due must
// follow the commit. After an error for which Changed is true, retry from PrepareBulk on.
func (r *BulkReplay) Start(ctx context.Context, tx *sql.Tx, now time.Time) (BulkResult, error) {
	rows, more, err := r.rows(ctx, tx, r.s.store.lock())
	if err != nil {
		return BulkResult{}, err
	}
	c, err := r.choose(rows, more, now)
	if err != nil {
		return BulkResult{}, err
	}
	if err := r.s.store.apply(ctx, tx, c.moves, clock.Millis(now)); err != nil {
		return BulkResult{}, err
	}
	return c.result, r.s.store.create(ctx, tx, c.made, clock.Millis(now))
}

// Changed reports whether err says that a delivery has changed since it was read.
func Changed(err error) bool { return errors.Is(err, errStale) }

// bulkRows is the maximum number of deliveries that a part of a bulk replay looks at.
const bulkRows = 150

// rows returns the deliveries in the order of events and subscriptions, and whether more follow.
func (r *BulkReplay) rows(ctx context.Context, q db.Querier, lock string) (rows []Delivery, more bool, err error) {
	var args []any
	for i := range r.Events {
		if e := &r.Events[i]; eventSkip(e) == "" {
			args = append(args, e.UUID)
		}
	}
	if len(args) == 0 {
		return nil, false, nil
	}
	// A power of two of them, so that few texts are planned.
	for n := len(args); n&(n-1) != 0; n++ {
		args = append(args, args[0])
	}
	shown, bound := shownWhere(r.View, "d.", len(args)+1)
	condition := "d.event_uuid IN " + db.In(1, len(args)) + " AND " + shown
	args = append(args, bound...)
	switch {
	case r.To != "":
		args = append(args, r.To)
		condition += " AND d.subscription_id = $" + strconv.Itoa(len(args))
	case !r.Force:
		condition += " AND d.status IN ('dead', 'retry_wait', 'sending')"
	}
	if r.After != "" {
		args = append(args, r.Events[0].UUID, r.After)
		condition += " AND (d.event_uuid <> $" + strconv.Itoa(len(args)-1) + " OR d.subscription_id > $" +
			strconv.Itoa(len(args)) + ")"
	}
	rows, err = r.s.store.query(ctx, q, condition+" ORDER BY d.event_uuid, d.subscription_id LIMIT "+
		strconv.Itoa(bulkRows+1)+lock, args...)
	if len(rows) > bulkRows {
		return rows[:bulkRows], true, err
	}
	return rows, false, err
}
