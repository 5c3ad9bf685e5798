// Package deliveries sends events to subscriptions: queue, attempts, retries, replays and tests. See README.md.
package deliveries

import (
	"time"

	"sallyport/internal/platform/id"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/webhooks/events"
)

// Status is the state of a delivery.
type Status string

// The states of a delivery.
const (
	// Pending waits for a worker.
	Pending Status = "pending"
	// Sending is leased to a worker.
	Sending Status = "sending"
	// RetryWait waits for the time of its next try.
	RetryWait Status = "retry_wait"
	// Held waits for its subscription to be enabled.
	Held Status = "held"
	// Succeeded got a 2xx answer.
	Succeeded Status = "succeeded"
	// Dead has used up its tries or was refused for good.
	Dead Status = "dead"
	// Cancelled will not be sent, because its subscription is gone or its event's payload was expunged.
	Cancelled Status = "cancelled"
)

// Statuses returns every state.
func Statuses() []Status {
	return []Status{Pending, Sending, RetryWait, Held, Succeeded, Dead, Cancelled}
}

// Open reports whether the delivery waits for something and is with no worker.
func (s Status) Open() bool { return s == Pending || s == RetryWait || s == Held }

// maxLeasesLost is how many leases in a row may end without an outcome: a delivery that kills its worker each time must
// not do so for ever.
const maxLeasesLost = 5

// Key names a delivery.
type Key struct {
	EventUUID      string
	SubscriptionID string
}

// Failure is why a try failed, in our own words: the text of a transport error carries URLs and is never stored.
type Failure struct {
	Code       string    `json:"code"`
	Message    string    `json:"message"`
	HTTPStatus *int      `json:"http_status,omitempty"`
	At         time.Time `json:"at"`
	// Overcome says that a success came after it. It is set when that success is replayed: until then the state says so.
	Overcome bool `json:"-"`
	// Died says that the delivery has died since its last success, of this failure or of one before.
	Died bool `json:"-"`
}

// Delivery is one event on its way to one subscription.
type Delivery struct {
	Key
	ID          string
	Environment id.Environment
	Status      Status
	// Generation counts from 1; every replay and redelivery raises it and restarts the schedule.
	Generation int64
	// ClaimID names the lease of a delivery that is Sending; empty otherwise.
	ClaimID string
	// Due is the time of the next try, and for a delivery that is Sending the end of its lease.
	Due time.Time
	// GenerationAttempts counts the tries recorded in this generation, AttemptCount those of all.
	GenerationAttempts int64
	AttemptCount       int64
	// LeasesLost counts the leases in a row that ended without an outcome.
	LeasesLost     int64
	LastHTTPStatus *int
	LastFailure    *Failure
	CreatedAt      time.Time
	UpdatedAt      time.Time
	CompletedAt    *time.Time
}

// claimed returns d leased under the claim until the time given.
func (d Delivery) claimed(claim string, until time.Time) Delivery {
	d.Status, d.ClaimID, d.Due = Sending, claim, until
	return d
}

// returned returns d given back unsent: its worker stops in good order.
func (d Delivery) returned(now time.Time) Delivery {
	d.Status, d.ClaimID, d.Due = Pending, "", now
	return d
}

// leaseLost returns d after its worker vanished. Whether the request went out is not known, so it is sent again.
func (d Delivery) leaseLost(now time.Time) Delivery {
	d.LeasesLost++
	if d.LeasesLost >= maxLeasesLost {
		d.LastFailure = &Failure{Code: CodeWorkerLost, Message: "The worker was lost five times while sending", At: now}
		return d.ended(Dead, now)
	}
	return d.returned(now)
}

// attempted returns d after an attempt with the given outcome. schedule holds the waits between attempts, random is the
// number for their jitter.
func (d Delivery) attempted(o Outcome, schedule []time.Duration, random float64) Delivery {
	d.GenerationAttempts++
	d.AttemptCount++
	d.LeasesLost = 0
	d.LastHTTPStatus = o.HTTPStatus
	if o.Failure == nil {
		return d.ended(Succeeded, o.At)
	}
	failure := *o.Failure
	failure.Died = d.died()
	d.LastFailure = &failure
	if o.Permanent || d.GenerationAttempts > int64(len(schedule)) {
		return d.ended(Dead, o.At)
	}
	wait := max(jobs.Jitter(schedule[d.GenerationAttempts-1], jitterShare, random), o.RetryAfter)
	d.Status, d.ClaimID, d.Due = RetryWait, "", o.At.Add(wait)
	return d
}

// held returns d waiting for its subscription.
func (d Delivery) held(now time.Time) Delivery {
	d.Status, d.ClaimID, d.Due = Held, "", now
	return d
}

// cancelled returns d given up because its subscription or its payload is gone.
func (d Delivery) cancelled(now time.Time) Delivery { return d.ended(Cancelled, now) }

// withoutPayload returns d, which nothing can be sent of any more: cancelled where somebody asked for that, else dead.
func (d Delivery) withoutPayload(e *events.Event, now time.Time) Delivery {
	if e.ExpungedAt != nil {
		return d.cancelled(now)
	}
	return d.expired(now)
}

// expired returns d given up because the payload's time is over.
func (d Delivery) expired(now time.Time) Delivery {
	d.LastFailure = &Failure{Code: CodePayloadExpired,
		Message: "The payload's time was over before the event could be forwarded", At: now}
	if d.Status == Held {
		d.LastFailure = &Failure{Code: CodeHeldExpired,
			Message: "The subscription was disabled for longer than the payload lived", At: now}
	}
	return d.ended(Dead, now)
}

// replayed returns d in a new generation, due at once, or held where the subscription is disabled.
func (d Delivery) replayed(now time.Time, enabled bool) Delivery {
	if d.Status == Succeeded && d.LastFailure != nil {
		overcome := *d.LastFailure
		overcome.Overcome = true
		d.LastFailure = &overcome
	}
	d.Generation++
	d.GenerationAttempts, d.LeasesLost, d.CompletedAt = 0, 0, nil
	if !enabled {
		return d.held(now)
	}
	return d.returned(now)
}

func (d Delivery) ended(s Status, at time.Time) Delivery {
	if s == Dead && d.LastFailure != nil {
		died := *d.LastFailure
		died.Died = true
		d.LastFailure = &died
	}
	d.Status, d.ClaimID, d.Due, d.CompletedAt = s, "", at, &at
	return d
}

// failing reports, for a delivery that is not Succeeded, whether it failed or died since its last success, in whatever
// generation.
func (d Delivery) failing() bool { return d.LastFailure != nil && !d.LastFailure.Overcome }

// died reports whether the delivery has died since its last success.
func (d Delivery) died() bool { return d.failing() && d.LastFailure.Died }

// counters returns what d adds to its event's counters.
func (d Delivery) counters() events.Counters {
	var c events.Counters
	switch d.Status {
	case Pending:
		c.Pending = 1
	case Sending:
		c.Sending = 1
	case RetryWait:
		c.RetryWait = 1
	case Held:
		if d.failing() {
			c.HeldFailed = 1
		} else {
			c.Held = 1
		}
	case Succeeded:
		c.Succeeded = 1
	case Dead:
		c.Dead = 1
	case Cancelled:
		c.Cancelled = 1
	}
	if d.AttemptCount > 0 || d.LastFailure != nil {
		c.Tried = 1
	}
	return c
}

// jitterShare is the share by which a wait may differ from the schedule, either way.
const jitterShare = 0.2
