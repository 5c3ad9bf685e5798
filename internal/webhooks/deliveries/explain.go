package deliveries

import (
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// The conditions that an event itself does not meet, in addition to those of subscriptions.
const (
	// OnDuplicate: the event is a duplicate, which is not forwarded.
	OnDuplicate subscriptions.Condition = "duplicate"
	// OnControl: the event is a ping or confirmation of the provider, which is not forwarded.
	OnControl subscriptions.Condition = "control"
)

// OriginOf returns where an event comes from.
func OriginOf(e *events.Event) subscriptions.Origin {
	return subscriptions.Origin{Provider: e.Provider, ProviderConfigKey: e.ProviderConfigKey, ConnectionID: e.ConnectionID}
}

// Explain reports whether the subscription, as it is now, matches the event, and why. evaluate returns the result of
// its filter on the event, and rules are those of the event's origin.
func Explain(e *events.Event, rules eventtypes.Rules, evaluate func(filter string) filters.Result,
	sub *subscriptions.Subscription) subscriptions.Explanation {
	var found subscriptions.Explanation
	if e.Own() {
		found = sub.ExplainOwn(e.ProviderConfigKey, e.ConnectionID, e.Type)
	} else {
		found = sub.Explain(rules, e.ProviderConfigKey, e.ConnectionID, e.AllTypes()...)
	}
	switch {
	case e.DuplicateOf != nil:
		found.Failed = OnDuplicate
	case e.Control:
		found.Failed = OnControl
	case found.Failed == "" && sub.Filter != "":
		result := evaluate(sub.Filter)
		if found.Filter = &result; !result.Matches {
			found.Failed = subscriptions.OnFilter
		}
	}
	return found
}
