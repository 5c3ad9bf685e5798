package deliveries

import (
	"slices"
	"time"

	"sallyport/internal/webhooks/events"
)

// modelled is a delivery as docs/arch/states.md describes it. It shares no rule with the product: nothing here calls a
// transition of Delivery.
type modelled struct {
	status                     Status
	generation, inGeneration   int64
	attempts, lost, superseded int64
	// due is when a delivery that waits is due, and when the lease of one that is being sent ends.
	due time.Time
	// claim names the lease of a delivery that is being sent.
	claim   string
	last    ending
	created time.Time
	// successes counts those of each generation.
	successes map[int64]int
}

// modelledEvent is an event with its deliveries.
type modelledEvent struct {
	deliveries map[string]*modelled
	// unstored holds the subscriptions whose deliveries are still to be stored, and whether they were enabled.
	unstored    map[string]bool
	expunged    bool
	duplicateOf string
	redelivered time.Time
}

func (d *modelled) waits() bool { return d.status == Pending || d.status == RetryWait }
func (d *modelled) open() bool  { return d.waits() || d.status == Held }

func (d *modelled) become(s Status, due time.Time) { d.status, d.due, d.claim = s, due, "" }

// wait lets the delivery wait for what it waited for before it was leased or held.
func (d *modelled) wait(due time.Time) {
	if d.inGeneration > 0 {
		d.become(RetryWait, due)
		return
	}
	d.become(Pending, due)
}

// lease gives the delivery to a worker.
func (d *modelled) lease(claim string, until time.Time) {
	d.status, d.claim, d.due = Sending, claim, until
}

// loseLease ends the lease without an outcome. The fifth in a row ends the delivery.
func (d *modelled) loseLease(now time.Time) {
	d.lost++
	if d.lost < 5 {
		d.wait(now)
		return
	}
	d.die(now)
}

func (d *modelled) die(now time.Time) {
	d.become(Dead, now)
	d.last = wentWrong
}

// end records an attempt.
func (d *modelled) end(ok, permanent bool, schedule []time.Duration, now time.Time) {
	d.attempts++
	d.inGeneration++
	d.lost = 0
	switch {
	case ok:
		d.successes[d.generation]++
		d.become(Succeeded, now)
		d.last = wentWell
	case permanent || int(d.inGeneration) > len(schedule):
		d.die(now)
	default:
		d.become(RetryWait, now.Add(schedule[d.inGeneration-1]))
		d.last = wentWrong
	}
}

// restart begins a new generation.
func (d *modelled) restart(enabled bool, now time.Time) {
	d.generation++
	d.inGeneration, d.lost = 0, 0
	d.become(Held, now)
	if enabled {
		d.become(Pending, now)
	}
}

// cancelExpunged cancels what is open of an event whose payload is gone. It follows every step.
func (e *modelledEvent) cancelExpunged(now time.Time) {
	for _, d := range e.deliveries {
		if e.expunged && d.open() {
			d.become(Cancelled, now)
		}
	}
}

// counters are the event's, by the states of its deliveries and of those that are still to be stored.
func (e *modelledEvent) counters() (c events.Counters) {
	for _, d := range e.deliveries {
		switch d.status {
		case Pending:
			c.Pending++
		case Sending:
			c.Sending++
		case RetryWait:
			c.RetryWait++
		case Held:
			if d.last == wentWrong {
				c.HeldFailed++
			} else {
				c.Held++
			}
		case Succeeded:
			c.Succeeded++
		case Dead:
			c.Dead++
		case Cancelled:
			c.Cancelled++
		}
		if d.last != notTried {
			c.Attempted++
		}
	}
	for _, enabled := range e.unstored {
		if enabled {
			c.Pending++
		} else {
			c.Held++
		}
	}
	return c
}

// status is the event's, by the table.
func (e *modelledEvent) status() events.Status {
	var states []Status
	attempted, heldFailed := false, false
	for _, d := range e.deliveries {
		states = append(states, d.status)
		attempted = attempted || d.last != notTried
		heldFailed = heldFailed || d.status == Held && d.last == wentWrong
	}
	for _, enabled := range e.unstored {
		if enabled {
			states = append(states, Pending)
		}
	}
	is := func(s Status) bool { return slices.Contains(states, s) }
	switch {
	case !attempted && !is(Sending):
		return events.Received
	case is(Sending) || is(Pending):
		return events.Forwarding
	case is(RetryWait) || heldFailed:
		return events.Failed
	case is(Dead):
		return events.DeadLetter
	case is(Succeeded):
		return events.Forwarded
	default:
		return events.Failed
	}
}
