package events

import (
	"context"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
)

// Lifetimes says how long an environment keeps what it receives.
type Lifetimes struct {
	// Payload is the lifetime of headers and bodies; it does not exceed Event.
	Payload time.Duration
	// Event is the lifetime of events, with their history and their keys.
	Event time.Duration
}

// Retention knows the lifetimes of each environment.
type Retention interface {
	Lifetimes(ctx context.Context, env id.Environment) (Lifetimes, error)
}

// LifetimesFunc is a function that implements Retention.
type LifetimesFunc func(ctx context.Context, env id.Environment) (payload, event time.Duration, err error)

// Lifetimes returns what f returns.
func (f LifetimesFunc) Lifetimes(ctx context.Context, env id.Environment) (Lifetimes, error) {
	payload, event, err := f(ctx, env)
	return Lifetimes{Payload: payload, Event: event}, err
}

// unlimited keeps everything.
type unlimited struct{}

// Lifetimes returns a century for each.
func (unlimited) Lifetimes(context.Context, id.Environment) (Lifetimes, error) {
	const century = 100 * 365 * 24 * time.Hour
	return Lifetimes{Payload: century, Event: century}, nil
}

// applyAge sets the fields that follow from an event's age.
func (e *Event) applyAge(l Lifetimes, gone *int64, now time.Time) {
	e.ExpiresAt = e.ReceivedAt.Add(l.Event)
	if e.DuplicateOf != nil {
		return
	}
	expires := e.ReceivedAt.Add(l.Payload)
	e.PayloadExpired = e.ExpungedAt != nil || !expires.After(now) || gone != nil && clock.Millis(e.ReceivedAt) <= *gone
	switch {
	case e.ExpungedAt != nil && e.ExpungedAt.Before(expires):
		e.PayloadExpiresAt = e.ExpungedAt
	case e.PayloadExpired && expires.After(now):
		// It was removed under a shorter lifetime than the present one, at an unknown time.
	default:
		e.PayloadExpiresAt = &expires
	}
}
