// Package deliveries sends events to subscriptions: queue, attempts, retries, replays and tests. See README.md.
package deliveries

import (
	"time"

	"sallyport/internal/platform/httpapi/oas"
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
	// RetryWait waits for the time of its next attempt.
	RetryWait Status = "retry_wait"
	// Held waits for its subscription to be enabled.
	Held Status = "held"
	// Succeeded got a 2xx response.
	Succeeded Status = "succeeded"
	// Dead has used up its attempts or was refused permanently.
	Dead Status = "dead"
	// Cancelled is not sent, because its subscription is gone or its event's payload was expunged.
	Cancelled Status = "cancelled"
)

// statuses returns every state.
func statuses() []Status {
	return []Status{Pending, Sending, RetryWait, Held, Succeeded, Dead, Cancelled}
}

// Schema returns the schema with the states, for the API.
func (Status) Schema(oas.Registry) *oas.Schema { return oas.Enum(statuses()) }

// isOpen reports whether the delivery waits and no worker has it.
func (s Status) isOpen() bool { return s == Pending || s == RetryWait || s == Held }

// maxLeasesLost is the number of leases in a row that may end without an outcome, because a delivery that kills its
// worker each time must not do so forever.
const maxLeasesLost = 5

// Key names a delivery.
type Key struct {
	EventUUID      string
	SubscriptionID string
}

// Failure explains why an attempt failed. It never contains the text of a transport error, which can carry a URL.
type Failure struct {
	Code       string    `json:"code"`
	Message    string    `json:"message"`
	HTTPStatus *int      `json:"http_status,omitempty"`
	At         time.Time `json:"at"`
	// Overcome is set when a success came after the failure and that success is replayed. Until then the state shows it.
	Overcome bool `json:"-"`
	// Died is set when the delivery has died since its last success, of this failure or of an earlier one.
	Died bool `json:"-"`
}

// Delivery is one event on its way to one subscription.
type Delivery struct {
	Key
	ID          string
	Environment id.Environment
	Status      Status
	// Generation counts from 1. Every replay and redelivery increments it and restarts the schedule.
	Generation int64
	// ClaimID names the lease of a delivery that is Sending; empty otherwise.
	ClaimID string
	// Due is the time of the next attempt, and for a delivery that is Sending the end of its lease.
	Due time.Time
	// GenerationAttempts counts the attempts recorded in this generation, AttemptCount those of all.
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

// returned returns d released without an attempt and due at the time given. It waits for what it waited for before: for
// its first attempt in this generation or for a retry. So the status of its event is what it was.
func (d Delivery) returned(due time.Time) Delivery {
	d.Status, d.ClaimID, d.Due = Pending, "", due
	if d.GenerationAttempts > 0 {
		d.Status = RetryWait
	}
	return d
}

// leaseLost returns d after its worker vanished. The request may have been sent; it is sent again.
func (d Delivery) leaseLost(now time.Time) Delivery {
	d.LeasesLost++
	if d.LeasesLost >= maxLeasesLost {
		d.LastFailure = &Failure{Code: codeWorkerLost, Message: "The worker was lost five times while sending", At: now}
		return d.ended(Dead, now)
	}
	return d.returned(now)
}

// attempted returns d after an attempt with the given outcome. schedule holds the waits between attempts, random is the
// number for their jitter.
func (d Delivery) attempted(o outcome, schedule []time.Duration, random float64) Delivery {
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

// held returns d, which waits, held until its subscription is enabled and its breaker closed. It keeps the time at
// which it is due, before which no attempt probes the receiver.
func (d Delivery) held() Delivery {
	d.Status = Held
	return d
}

// cancelled returns d cancelled because its subscription or its payload is gone.
func (d Delivery) cancelled(now time.Time) Delivery { return d.ended(Cancelled, now) }

// withoutPayload returns d after its payload was removed: cancelled if a user expunged the payload, otherwise dead.
func (d Delivery) withoutPayload(e *events.Event, now time.Time) Delivery {
	if e.ExpungedAt != nil {
		return d.cancelled(now)
	}
	return d.expired(now)
}

// expired returns d ended because its payload has expired.
func (d Delivery) expired(now time.Time) Delivery {
	d.LastFailure = &Failure{Code: codePayloadExpired,
		Message: "The payload expired before the event could be forwarded", At: now}
	if d.Status == Held {
		d.LastFailure = &Failure{Code: codeHeldExpired,
			Message: "The subscription was disabled until the payload expired", At: now}
	}
	return d.ended(Dead, now)
}

// replayed returns d in a new generation: due immediately, or held if the subscription is disabled.
func (d Delivery) replayed(now time.Time, enabled bool) Delivery {
	if d.Status == Succeeded && d.LastFailure != nil {
		overcome := *d.LastFailure
		overcome.Overcome = true
		d.LastFailure = &overcome
	}
	d.Generation++
	d.GenerationAttempts, d.LeasesLost, d.CompletedAt = 0, 0, nil
	d = d.returned(now)
	if !enabled {
		return d.held()
	}
	return d
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

// failing reports, for a delivery that is not Succeeded, whether it failed or died since its last success, in any
// generation.
func (d Delivery) failing() bool { return d.LastFailure != nil && !d.LastFailure.Overcome }

// died reports whether the delivery has died since its last success.
func (d Delivery) died() bool { return d.failing() && d.LastFailure.Died }

// counters returns what d adds to the counters of its event.
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
		c.Attempted = 1
	}
	return c
}

// jitterShare is the share by which a wait may differ from the schedule, either way.
const jitterShare = 0.2
