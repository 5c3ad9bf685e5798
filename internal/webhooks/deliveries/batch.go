package deliveries

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// Batch stores the deliveries of new events in one transaction, and hands over to the workers those that it has leased
// to this process. It holds nothing before Commit. It is used once, by one goroutine.
type Batch struct {
	s     *Service
	now   time.Time
	plans []*Plan
}

// Plan is one event's part of a batch.
type Plan struct {
	event   *events.Event
	payload *events.Payload
	matched []subscriptions.Matched
	list    []Delivery
	// stored is set when the transaction in progress inserts the deliveries.
	stored bool
}

// NewBatch returns an empty batch. Its deliveries are created at the time given.
func (s *Service) NewBatch(now time.Time) *Batch { return &Batch{s: s, now: now} }

// Add plans the deliveries of an event that has its UUID. Commit reads the event and its payload.
func (b *Batch) Add(e *events.Event, p *events.Payload, matched []subscriptions.Matched) *Plan {
	plan := &Plan{event: e, payload: p, matched: matched}
	b.plans = append(b.plans, plan)
	return plan
}

// Commit leases deliveries, runs write in a transaction, and then hands over the leased deliveries that write has
// inserted, by Insert. Deliveries that write has not inserted are not created. Like every function of a transaction,
// write can run more than once.
func (b *Batch) Commit(ctx context.Context, write func(tx *sql.Tx) error) error {
	claim, until := b.s.newLease(b.now)
	for _, p := range b.plans {
		b.planDeliveries(p, claim, until)
	}
	err := b.s.db.Tx(ctx, func(tx *sql.Tx) error {
		for _, p := range b.plans {
			p.stored = false
		}
		return write(tx)
	})
	b.s.doubts.Add(claim, err)
	b.handOver(err == nil)
	return err
}

// planDeliveries creates the deliveries of an event: leased to this process while it has room, pending beyond that, and
// held if the subscription is disabled.
func (b *Batch) planDeliveries(p *Plan, claim string, until time.Time) {
	p.list = make([]Delivery, 0, len(p.matched))
	for _, m := range p.matched {
		d := Delivery{Key: Key{EventUUID: p.event.UUID, SubscriptionID: m.ID}, ID: id.NewUUID(),
			Environment: p.event.Environment, Status: Pending, Generation: 1, Due: b.now, CreatedAt: b.now, UpdatedAt: b.now}
		switch {
		case !m.Enabled:
			d.Status = Held
		case b.s.dispatcher.reserve(m.ID):
			d = d.claimed(claim, until)
		}
		p.list = append(p.list, d)
	}
}

// Counters returns the counts of the plan's deliveries for its event. Commit's write calls it.
func (p *Plan) Counters() events.Counters {
	var c events.Counters
	for i := range p.list {
		switch p.list[i].Status {
		case Sending:
			c.Sending++
		case Pending:
			c.Pending++
		default:
			c.Held++
		}
	}
	return c
}

// Insert returns the statement that stores the deliveries of the plans, whose events count them. Commit's write calls
// it.
func (b *Batch) Insert(plans []*Plan) db.Statement {
	var list []Delivery
	for _, p := range plans {
		p.stored = true
		list = append(list, p.list...)
	}
	return Insert(list)
}

// handOver gives the stored leased deliveries to the workers, and frees the places of the others.
func (b *Batch) handOver(committed bool) {
	overflow := false
	for _, p := range b.plans {
		var e *events.Event
		var payload *events.Payload
		for _, d := range p.list {
			switch {
			case d.Status != Sending:
				overflow = overflow || d.Status == Pending
			case !committed || !p.stored:
				b.s.dispatcher.release(d.SubscriptionID)
			default:
				if e == nil {
					// Copies, so that a waiting delivery does not keep the whole request in memory.
					event := *p.event
					e, payload = &event, &events.Payload{Body: p.payload.Body, Encoding: p.payload.Encoding}
				}
				b.s.handOver(d, e, payload)
			}
		}
	}
	if committed && overflow {
		b.s.Wake()
	}
}
