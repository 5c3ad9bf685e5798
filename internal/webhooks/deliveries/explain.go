package deliveries

import (
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// The conditions that an event itself does not meet, beside those of subscriptions.
const (
	// OnDuplicate: the event repeats another, and repeats go to nobody.
	OnDuplicate subscriptions.Condition = "duplicate"
	// OnControl: the event is the provider's ping or confirmation, which goes to nobody either.
	OnControl subscriptions.Condition = "control"
)

// FilterEvent is the event as filters see it; p is nil where its payload is no longer kept.
func FilterEvent(e *events.Event, p *events.Payload) *filters.Event {
	out := &filters.Event{Type: e.Type, Types: e.Types, Provider: e.Provider, ProviderConfigKey: e.ProviderConfigKey,
		ConnectionID: e.ConnectionID, ReceivedAt: e.ReceivedAt, ContentType: e.ContentType, Control: e.Control,
		Expired: p == nil}
	if p != nil {
		out.Headers = p.Headers
		if p.Encoding == events.JSON {
			out.Body = p.Body
		}
	}
	return out
}

// Explain says whether the event, which filters see as seen, goes to the subscription as it is now, and by what.
func Explain(e *events.Event, seen *filters.Event, sub *subscriptions.Subscription) subscriptions.Explanation {
	var found subscriptions.Explanation
	if e.Own() {
		found = sub.ExplainOwn(e.ProviderConfigKey, e.ConnectionID, e.Type)
	} else {
		found = sub.Explain(e.ProviderConfigKey, e.ConnectionID, e.AllTypes()...)
	}
	switch {
	case e.DuplicateOf != nil:
		found.Failed = OnDuplicate
	case e.Control:
		found.Failed = OnControl
	case found.Failed == "" && sub.Filter != "":
		result := filters.New(sub.Filter).Eval(seen)
		if found.Filter = &result; !result.Matches {
			found.Failed = subscriptions.OnFilter
		}
	}
	return found
}
