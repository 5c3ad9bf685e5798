package subscriptions

import (
	"slices"

	"sallyport/internal/webhooks/filters"
)

// Condition is a part of a subscription that an event must meet.
type Condition string

// The conditions, in the order in which they are looked at.
const (
	// OnProviderConfigKey: the subscription takes events of another provider configuration.
	OnProviderConfigKey Condition = "provider_config_key"
	// OnConnectionID: the subscription takes events of another connection.
	OnConnectionID Condition = "connection_id"
	// OnEventTypes: none of the subscription's patterns takes the event's type.
	OnEventTypes Condition = "event_types"
	// OnFilter: the subscription's filter is not true of the event, or cannot be evaluated on it.
	OnFilter Condition = "filter"
)

// Explanation says whether a subscription takes an event, and by what.
type Explanation struct {
	// Failed is the first condition that does not hold; empty where all do.
	Failed Condition
	// Pattern is the first pattern that takes the event's type; empty where none does.
	Pattern string
	// Filter is what became of the filter; nil where the subscription has none, or an earlier condition does not hold.
	Filter *filters.Result
}

// Explain holds an event of the connection and the types against the subscription, as matching does, but for the
// filter. An event whose provider configuration is empty comes from no connection and meets every scope.
func (sub *Subscription) Explain(providerConfigKey, connectionID string, types ...string) Explanation {
	return sub.explain(providerConfigKey, connectionID, func(p Pattern) bool {
		return slices.ContainsFunc(types, p.Matches)
	})
}

// ExplainOwn is Explain for an event of the gateway's own.
func (sub *Subscription) ExplainOwn(providerConfigKey, connectionID, eventType string) Explanation {
	return sub.explain(providerConfigKey, connectionID, func(p Pattern) bool { return p.MatchesOwn(eventType) })
}

func (sub *Subscription) explain(providerConfigKey, connectionID string, fits func(Pattern) bool) Explanation {
	var e Explanation
	for _, text := range sub.EventTypes {
		if p, err := ParsePattern(text); err == nil && fits(p) {
			e.Pattern = text
			break
		}
	}
	switch {
	case providerConfigKey != "" && sub.ProviderConfigKey != "" && sub.ProviderConfigKey != providerConfigKey:
		e.Failed = OnProviderConfigKey
	case providerConfigKey != "" && sub.ConnectionID != "" && sub.ConnectionID != connectionID:
		e.Failed = OnConnectionID
	case e.Pattern == "":
		e.Failed = OnEventTypes
	}
	return e
}
