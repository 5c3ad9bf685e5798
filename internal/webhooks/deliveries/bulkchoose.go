package deliveries

import (
	"slices"
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// choice says what to do with the deliveries that were read.
type choice struct {
	result BulkResult
	moves  []move
	// made holds deliveries to create.
	made []Delivery
}

func (c *choice) skip(why SkipReason) { c.result.Skipped[why]++ }

// choose goes through the events and their deliveries until the limit or, if more deliveries follow, the last of the
// rows.
func (r *BulkReplay) choose(rows []Delivery, more bool, now time.Time) (choice, error) {
	c := choice{result: BulkResult{Skipped: map[SkipReason]int64{}, After: r.After}}
	for i := range r.Events {
		e := &r.Events[i]
		if why := eventSkip(e); why != "" {
			c.skip(why)
		} else {
			var own []Delivery
			own, rows = ofEvent(rows, e.UUID)
			done, err := r.chooseOf(&c, e, own, more && len(rows) == 0, now)
			if err != nil || !done {
				return c, err
			}
		}
		c.result.Events, c.result.After = i+1, ""
	}
	return c, nil
}

// ofEvent cuts the event's deliveries off the front of rows.
func ofEvent(rows []Delivery, event string) (own, rest []Delivery) {
	n := 0
	for n < len(rows) && rows[n].EventUUID == event {
		n++
	}
	return rows[:n], rows[n:]
}

// chooseOf treats one event's deliveries and reports whether it has reached their end; cut is set when more may follow.
func (r *BulkReplay) chooseOf(c *choice, e *events.Event, own []Delivery, cut bool,
	now time.Time) (done bool, err error) {
	if len(c.result.Started) >= r.Limit {
		return false, nil
	}
	if r.To != "" {
		r.chooseTo(c, e, own, now)
		return true, nil
	}
	// An event that was begun before has had something to count.
	had := c.result.After != ""
	for i := range own {
		if len(c.result.Started) >= r.Limit {
			return false, nil
		}
		d := &own[i]
		c.result.After = d.SubscriptionID
		target, known := r.targets[d.SubscriptionID]
		switch {
		case !d.fits(r.Criteria) || !r.selects(d):
			continue
		case !known:
			return false, errStale
		case target == nil:
			c.skip(SkipSubscriptionDeleted)
		case d.Status == Sending:
			c.skip(SkipInFlight)
		default:
			c.move(*d, d.replayed(now, r.sends(target)))
		}
		had = true
	}
	switch {
	case cut:
		return false, nil
	case had:
	case r.Force:
		c.skip(SkipNoDelivery)
	default:
		c.skip(SkipNotFailed)
	}
	return true, nil
}

// chooseTo treats the event's delivery to the subscription To, which may be missing.
func (r *BulkReplay) chooseTo(c *choice, e *events.Event, own []Delivery, now time.Time) {
	target := r.targets[r.To]
	switch {
	case target == nil:
		c.skip(SkipSubscriptionDeleted)
	case len(own) == 0 && !r.matched[e.UUID]:
		c.skip(SkipNotMatched)
	case len(own) == 0:
		c.made = append(c.made, createdByReplay(e, r.To, now, r.sends(target)))
		d := &c.made[len(c.made)-1]
		c.result.Started = append(c.result.Started, Started{d.Key, d.Generation})
	case own[0].Status == Sending:
		c.skip(SkipInFlight)
	case !r.selects(&own[0]):
		c.skip(SkipNotFailed)
	default:
		c.move(own[0], own[0].replayed(now, r.sends(target)))
	}
}

// sends reports whether the subscription's deliveries are sent now and not held.
func (r *BulkReplay) sends(t *subscriptions.Target) bool {
	return t.Enabled && !r.s.breakers.isOpen(t.ID)
}

func (c *choice) move(from, to Delivery) {
	c.moves = append(c.moves, move{from: from, to: to})
	c.result.Started = append(c.result.Started, Started{to.Key, to.Generation})
}

// selects reports whether the replay is about deliveries in this one's state, or in the state in which its attempt in
// progress began.
func (r *BulkReplay) selects(d *Delivery) bool {
	return r.Force || d.Status == Dead || d.Status == RetryWait || d.Status == Sending && d.failing()
}

// eventSkip returns why nothing of the event can be sent; empty if something can.
func eventSkip(e *events.Event) SkipReason {
	switch {
	case e.DuplicateOf != nil:
		return SkipDuplicate
	case e.Control:
		return SkipControl
	case e.PayloadExpired:
		return SkipPayloadExpired
	default:
		return ""
	}
}

// fits reports whether the delivery meets the criteria, as Filter selects.
func (d *Delivery) fits(c events.DeliveryCriteria) bool {
	return (len(c.SubscriptionIDs) == 0 || slices.Contains(c.SubscriptionIDs, d.SubscriptionID)) &&
		(len(c.HTTPStatuses) == 0 || d.LastHTTPStatus != nil && slices.Contains(c.HTTPStatuses, *d.LastHTTPStatus)) &&
		(len(c.ErrorCodes) == 0 || d.LastFailure != nil && slices.Contains(c.ErrorCodes, d.LastFailure.Code))
}

// createdByReplay returns the delivery of an event to a subscription that did not receive it. Matching creates the
// first generation, so this one begins with the second: it is a replay to its receiver, and yields like one.
func createdByReplay(e *events.Event, subscriptionID string, now time.Time, enabled bool) Delivery {
	d := Delivery{Key: Key{e.UUID, subscriptionID}, ID: id.NewUUID(), Environment: e.Environment, Generation: 1,
		CreatedAt: now, UpdatedAt: now}
	return d.replayed(now, enabled)
}
