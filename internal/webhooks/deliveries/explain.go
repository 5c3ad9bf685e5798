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
