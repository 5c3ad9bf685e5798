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
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// SkipReason says why a bulk replay leaves something as it is. The set is closed: SkipReasons lists it.
type SkipReason string

// The reasons. The first three are about a delivery, SkipNotFailed about a delivery or an event, the others about an
// event.
const (
	// SkipInFlight: a try is under way.
	SkipInFlight SkipReason = "in_flight"
	// SkipSubscriptionDeleted: there is nobody left to send to.
	SkipSubscriptionDeleted SkipReason = "subscription_deleted"
	// SkipNotMatched: the subscription that the replay names does not take the event.
	SkipNotMatched SkipReason = "not_matched"
	// SkipNotFailed: nothing has failed, and the replay is not forced.
	SkipNotFailed SkipReason = "not_failed"
	// SkipPayloadExpired: there is nothing left to send.
	SkipPayloadExpired SkipReason = "payload_expired"
	// SkipDuplicate: the event repeats another, and goes to nobody.
	SkipDuplicate SkipReason = "duplicate"
	// SkipControl: the event is the provider's ping or confirmation, and goes to nobody.
	SkipControl SkipReason = "control"
	// SkipNoDelivery: no subscription took the event when it came.
	SkipNoDelivery SkipReason = "no_delivery"
)

// SkipReasons returns every reason.
func SkipReasons() []SkipReason {
	return []SkipReason{SkipInFlight, SkipSubscriptionDeleted, SkipNotMatched, SkipNotFailed, SkipPayloadExpired,
		SkipDuplicate, SkipControl, SkipNoDelivery}
}

// Bulk is a part of a bulk replay: events of one environment, and which of their deliveries to start again.
type Bulk struct {
	Environment id.Environment
	// Events are in the order of their uuids.
	Events []events.Event
	// After is the subscription up to which the first event was treated before; empty where it was not begun.
	After string
	// Criteria, as far as they are not empty, select among the deliveries of the events.
	Criteria events.DeliveryCriteria
	// Force starts deliveries that have not failed, too.
	Force bool
	// To is the subscription that the events go to instead of those that they went to, whether it took them before or not.
	// Criteria do not apply to its deliveries. Empty for the deliveries that there are.
	To string
	// Limit is how many deliveries to start at most.
	Limit int
}

// Started names a delivery that was started, and the generation that began with it.
type Started struct {
	Key
	Generation int64
}

// BulkResult is what became of a Bulk.
type BulkResult struct {
	Started []Started
	// Skipped counts what was left, by reason: deliveries, and events as one where they have none to count.
	Skipped map[SkipReason]int64
	// Events is how many of the events are done with.
	Events int
	// After, where it is not empty, says that the event behind them was begun: it is the last subscription whose delivery
	// was looked at.
	After string
}

// BulkReplay is a Bulk with what has to be known before its transaction.
type BulkReplay struct {
	Bulk
	s *Service
	// targets holds the subscriptions that the deliveries go to; nil for one that is gone.
	targets map[string]*subscriptions.Target
	// taken holds the events that the subscription To takes as it is now.
	taken map[string]bool
}

// PrepareBulk reads what a bulk replay needs beside the deliveries themselves.
func (s *Service) PrepareBulk(ctx context.Context, b Bulk) (*BulkReplay, error) {
	r := &BulkReplay{Bulk: b, s: s, targets: map[string]*subscriptions.Target{}, taken: map[string]bool{}}
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
		return r, r.match(ctx)
	}
	return r, nil
}

// match finds the events that the subscription To takes.
func (r *BulkReplay) match(ctx context.Context) error {
	sub, err := r.s.subs.Get(ctx, access.Whole(r.Environment), r.To)
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
		if eventSkip(e) != "" || sub.Explain(e.ProviderConfigKey, e.ConnectionID, e.AllTypes()...).Failed != "" {
			continue
		}
		if r.taken[e.UUID] = sub.Filter == ""; !r.taken[e.UUID] {
			asked = append(asked, *e)
		}
	}
	return r.filter(ctx, sub.Filter, asked)
}

// maxFilterBodies bounds the bodies that are in memory for a filter at a time, in bytes, beyond a single one.
const maxFilterBodies = 4 << 20

// filter finds those of the events that the filter takes.
func (r *BulkReplay) filter(ctx context.Context, text string, list []events.Event) error {
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
				r.taken[e.UUID] = f.Eval(filters.NewEvent(e, &p)).Matches
			}
		}
		list = list[n:]
	}
	return nil
}

// Gone reports whether the events were to go to a subscription that is not there any more.
func (r *BulkReplay) Gone() bool { return r.To != "" && r.targets[r.To] == nil }

// Preview returns what Start would do now, and changes nothing.
func (r *BulkReplay) Preview(ctx context.Context, now time.Time) (BulkResult, error) {
	rows, more, err := r.rows(ctx, r.s.db.Read(), "")
	if err != nil {
		return BulkResult{}, err
	}
	c, err := r.choose(rows, more, now)
	return c.result, err
}

// Start begins a new generation of the deliveries in the caller's transaction, and makes those that there are not. Wake
// must follow the commit. A failure for which Changed reports true is to be tried again from PrepareBulk on.
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

// Changed reports whether err says that a delivery has changed between what was read and the change that builds on it.
func Changed(err error) bool { return errors.Is(err, errStale) }

// bulkRows is how many deliveries a part of a bulk replay looks at, at most.
const bulkRows = 150

// rows returns the deliveries in question in the order of events and subscriptions, and whether there are more behind
// them.
func (r *BulkReplay) rows(ctx context.Context, q db.Querier, lock string) (rows []Delivery, more bool, err error) {
	args := []any{string(r.Environment)}
	for i := range r.Events {
		if e := &r.Events[i]; eventSkip(e) == "" {
			args = append(args, e.UUID)
		}
	}
	if len(args) == 1 {
		return nil, false, nil
	}
	// A power of two of them, so that few texts are ever planned.
	for n := len(args) - 1; n&(n-1) != 0; n++ {
		args = append(args, args[1])
	}
	condition := "d.environment_id = $1 AND d.event_uuid IN " + db.In(2, len(args)-1)
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
