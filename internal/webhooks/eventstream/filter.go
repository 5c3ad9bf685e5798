package eventstream

import (
	"slices"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// filter is a list's filter, prepared for matching messages. A property test compares it with events.Store.List.
type filter struct {
	events.Filter
	// bound holds the connections that the reader may see, regardless of the filter.
	bound access.Bound
	// types are the forms of the filter's types.
	types []typeForm
}

// typeForm is a form of a type, or of a pattern if it has a wildcard.
type typeForm struct {
	events.Form
	pattern *subscriptions.Pattern
}

func (t *typeForm) fits(e *events.Event) bool {
	return t.Of(e) && slices.ContainsFunc(e.AllTypes(), func(kind string) bool {
		if t.pattern != nil {
			return t.pattern.Matches(kind)
		}
		return t.Text == kind
	})
}

// compile prepares a filter. forms are those of its types.
func compile(forms []events.Form, v access.View, f events.Filter) filter {
	c := filter{Filter: f, bound: v.Connections}
	for _, form := range forms {
		one := typeForm{Form: form}
		if strings.Contains(form.Text, eventtypes.Wildcard) {
			p, err := subscriptions.ParsePattern(form.Text)
			if err != nil {
				continue // it has a character that no type has
			}
			one.pattern = &p
		}
		c.types = append(c.types, one)
	}
	return c
}

// asksDeliveries reports whether the filter looks at the deliveries of events.
func (f *filter) asksDeliveries() bool {
	return len(f.SubscriptionIDs) > 0 || len(f.HTTPStatuses) > 0 || len(f.ErrorCodes) > 0
}

// feed returns the key of the feed with what the filter looks at.
func (f *filter) feed(env id.Environment) feedKey {
	return feedKey{env: env, deliveries: f.asksDeliveries(), connections: !f.bound.Unrestricted()}
}

// shows reports whether the reader may see the subscription of an attempt or delivery in the message.
func (f *filter) shows(m *message, subscriptionID string) bool {
	return f.bound.Unrestricted() || m.scopes.within(f.bound, subscriptionID)
}

// matches reports whether the reader gets the message. One delivery of the event, to a subscription that the reader may
// see, must meet all conditions on deliveries. For an attempt, the attempt must.
func (f *filter) matches(m *message) bool {
	if !f.matchesEvent(m.Event) || m.Attempt != nil && !f.shows(m, m.Attempt.SubscriptionID) {
		return false
	}
	switch {
	case !f.asksDeliveries():
		return true
	case m.Attempt != nil:
		a := m.Attempt
		return f.matchesTry(a.SubscriptionID, a.HTTPStatus, a.ErrorCode)
	default:
		return slices.ContainsFunc(m.deliveries, func(d deliveries.Delivery) bool {
			if !f.shows(m, d.SubscriptionID) {
				return false
			}
			var code *string
			if d.LastFailure != nil {
				code = &d.LastFailure.Code
			}
			return f.matchesTry(d.SubscriptionID, d.LastHTTPStatus, code)
		})
	}
}

func (f *filter) matchesEvent(e *events.Event) bool {
	return events.Shows(f.bound, e) && oneOf(f.Statuses, e.Status) && oneOf(f.Providers, e.Provider) &&
		oneOf(f.ProviderConfigKeys, e.ProviderConfigKey) &&
		oneOf(f.ConnectionIDs, e.ConnectionID) && oneOf(f.IdempotencyKeys, e.IdempotencyKey) && f.matchesType(e) &&
		f.matchesSearch(e) &&
		(f.Duplicate == nil || *f.Duplicate == (e.DuplicateOf != nil)) && (f.Control == nil || *f.Control == e.Control) &&
		(f.ReceivedAfter == nil || clock.Millis(e.ReceivedAt) > clock.Millis(*f.ReceivedAfter)) &&
		(f.ReceivedBefore == nil || clock.Millis(e.ReceivedAt) < clock.Millis(*f.ReceivedBefore))
}

func (f *filter) matchesType(e *events.Event) bool {
	return len(f.Types) == 0 || slices.ContainsFunc(f.types, func(t typeForm) bool { return t.fits(e) })
}

func (f *filter) matchesSearch(e *events.Event) bool {
	return f.Search == "" || f.Search == e.UUID || f.Search == e.IdempotencyKey || strings.HasPrefix(e.Type, f.Search)
}

func (f *filter) matchesTry(subscriptionID string, status *int, code *string) bool {
	return oneOf(f.SubscriptionIDs, subscriptionID) && (len(f.HTTPStatuses) == 0 || status != nil &&
		slices.Contains(f.HTTPStatuses, *status)) &&
		(len(f.ErrorCodes) == 0 || code != nil && slices.Contains(f.ErrorCodes, *code))
}

// oneOf reports whether v is among the values of a field; no values restrict nothing.
func oneOf[T comparable](values []T, v T) bool { return len(values) == 0 || slices.Contains(values, v) }
