package subscriptions

import (
	"slices"

	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/filters"
)

// Condition is a part of a subscription that an event must meet.
type Condition string

// The conditions, in the order in which they are checked.
const (
	// OnProviderConfigKey: the subscription selects events of another provider configuration.
	OnProviderConfigKey Condition = "provider_config_key"
	// OnConnectionID: the subscription selects events of another connection.
	OnConnectionID Condition = "connection_id"
	// OnEventTypes: no pattern of the subscription matches the event's type.
	OnEventTypes Condition = "event_types"
	// OnFilter: the subscription's filter is false for the event, or cannot be evaluated on it.
	OnFilter Condition = "filter"
)

// Explanation says whether a subscription matches an event, and why.
type Explanation struct {
	// Failed is the first condition that the event does not meet; empty if it meets all.
	Failed Condition
	// Pattern is the first pattern that matches the event's type, as the subscription has it; empty if none does.
	Pattern string
	// Filter is the result of the filter; nil if the subscription has none, or the event fails an earlier condition.
	Filter *filters.Result
}

// Explain compares an event of the connection and the types with the subscription, as matching does, except for the
// filter. rules are those of the event's provider configuration. An event without a provider configuration comes from
// no connection and meets every scope.
func (sub *Subscription) Explain(rules eventtypes.Rules, providerConfigKey, connectionID string,
	types ...string) Explanation {
	return sub.explain(rules, providerConfigKey, connectionID, func(p Pattern) bool {
		return slices.ContainsFunc(types, p.Matches)
	})
}

// ExplainOwn is Explain for one of the gateway's own events, whose types no provider writes.
func (sub *Subscription) ExplainOwn(providerConfigKey, connectionID, eventType string) Explanation {
	return sub.explain(eventtypes.Rules{}, providerConfigKey, connectionID, func(p Pattern) bool {
		return p.matchesOwn(eventType)
	})
}

func (sub *Subscription) explain(rules eventtypes.Rules, providerConfigKey, connectionID string,
	fits func(Pattern) bool) Explanation {
	var e Explanation
	for _, text := range sub.EventTypes {
		if slices.ContainsFunc([]string{text, rules.Pattern(text)}, func(form string) bool {
			p, violation := parsePattern(form)
			return violation == nil && fits(p)
		}) {
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
