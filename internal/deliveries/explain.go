package deliveries

import (
	"sallyport/internal/subscriptions"
	"sallyport/internal/webhookevents"
)

// The conditions that an event itself does not meet, beside those of subscriptions.
const (
	// OnDuplicate: the event repeats another, and repeats go to nobody.
	OnDuplicate subscriptions.Condition = "duplicate"
	// OnControl: the event is the provider's ping or confirmation, which goes to nobody either.
	OnControl subscriptions.Condition = "control"
)

// Explain says whether the event goes to the subscription as it is now, and by what.
func Explain(e *webhookevents.Event, sub *subscriptions.Subscription) subscriptions.Explanation {
	found := sub.Explain(e.ProviderConfigKey, e.ConnectionID, e.AllTypes()...)
	switch {
	case e.DuplicateOf != nil:
		found.Failed = OnDuplicate
	case e.Control:
		found.Failed = OnControl
	}
	return found
}
