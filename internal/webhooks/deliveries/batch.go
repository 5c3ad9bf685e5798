package deliveries

import (
	"context"
	"database/sql"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// Batch stores the deliveries of new events in one transaction, and hands over to the workers those that it has leased
// to this process. It holds nothing before Commit. It is used once, by one goroutine.
type Batch struct {
	s     *Service
	now   time.Time
	plans []*Plan
	// known is what is known before the transaction begins of the content that it stores.
	known content
}

// Plan is one event's part of a batch.
type Plan struct {
	event   *events.Event
	payload *events.Payload
	matched []subscriptions.Matched
	list    []Delivery
	// rest is nil if the list holds all deliveries.
	rest *fanout
	// stored is set when the transaction in progress inserts the deliveries.
	stored bool
}

// NewBatch returns an empty batch. Its deliveries are created at the time given.
func (s *Service) NewBatch(now time.Time) *Batch {
	return &Batch{s: s, now: now, known: content{since: s.clock.Now(), epoch: s.epochs.now()}}
}

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
	from := clock.MomentOf(b.s.clock)
	claim, until := b.s.claimer.newLease(b.s.clock.Now())
	for _, p := range b.plans {
		if err := b.planDeliveries(p, claim, until); err != nil {
			b.handOver(false, from)
			return err
		}
	}
	err := b.s.db.Tx(ctx, func(tx *sql.Tx) error {
		for _, p := range b.plans {
			p.stored = false
		}
		return write(tx)
	})
	if !b.s.store.hints.Elsewhere() { // otherwise nothing was leased
		b.s.claimer.doubts.Add(claim, err)
	}
	b.handOver(err == nil, from)
	return err
}

// planDeliveries creates the deliveries of an event: leased to this process while it has room, pending beyond that, and
// held if the subscription is disabled or its breaker open. The rest of many is left to a worker.
func (b *Batch) planDeliveries(p *Plan, claim string, until time.Time) (err error) {
	first := b.s.breakers.holding(p.matched)
	if first, p.rest, err = splitFanout(p.event.Environment, p.event.UUID, first, firstDeliveries, b.now); err != nil {
		return err
	}
	p.list = make([]Delivery, 0, len(first))
	for _, m := range first {
		d := newDelivery(p.event.Environment, p.event.UUID, m, b.now)
		if d.Status == Pending && !b.s.claimer.isUncertain() &&
			b.s.dispatcher.reserve(d.Environment, m.ID, b.s.backlog.isBehind(m.ID)) {
			d = d.claimed(claim, until)
		}
		p.list = append(p.list, d)
	}
	return nil
}

// Counters returns the counts of the plan's deliveries for its event. Commit's write calls it.
func (p *Plan) Counters() events.Counters {
	var c events.Counters
	if p.rest != nil {
		c = p.rest.counters
	}
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

// Insert returns the statements that store the deliveries of the plans, whose events count them. Commit's write calls
// it.
func (b *Batch) Insert(plans []*Plan) []db.Statement {
	var list []Delivery
	var rest []*fanout
	for _, p := range plans {
		p.stored = true
		list = append(list, p.list...)
		if p.rest != nil {
			rest = append(rest, p.rest)
		}
	}
	return append([]db.Statement{Insert(list)}, fanoutStatements(rest)...)
}

// handOver gives the stored leased deliveries to the workers, and frees the places of the others. The contents of
// stored deliveries that are pending are kept for their claim.
func (b *Batch) handOver(committed bool, leased clock.Moment) {
	for _, p := range b.plans {
		stored := committed && p.stored
		if stored && p.rest != nil {
			b.s.fannedOut()
		}
		known := content{}
		if stored {
			known = b.keep(p)
		}
		for _, d := range p.list {
			switch {
			case d.Status == Sending && !stored:
				b.s.claimer.release(d.Environment, d.SubscriptionID)
			case d.Status == Pending && stored:
				b.s.waiting(d.Environment, d.Due, d.SubscriptionID)
			case d.Status == Sending:
				b.s.handOver(d, leased, known)
			}
		}
	}
}

// keep returns the content of a stored event, and keeps it for those of its deliveries that wait in the table.
func (b *Batch) keep(p *Plan) content {
	waiting, open := 0, false
	for i := range p.list {
		status := p.list[i].Status
		open = open || status == Sending || status == Pending
		if status == Pending {
			waiting++
		}
	}
	if !open {
		return content{}
	}
	// Copies, so that a waiting delivery does not keep the whole request in memory.
	known, event := b.known, *p.event
	payload := *p.payload
	known.event, known.payload = &event, &payload
	if waiting > 0 && !b.s.store.hints.Elsewhere() {
		b.s.kept.put(known, waiting, b.now)
	}
	return known
}
