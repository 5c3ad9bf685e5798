package subscriptions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sallyport/internal/providers/eventtypes"
)

// Warning points out a part of a subscription, or of a request about it, that is valid and probably not what was meant.
type Warning struct {
	// Location is the part, relative to the body of the request.
	Location string
	// Rule is the name of the rule.
	Rule    string
	Message string
}

// ruleKnownType is the rule that a type is one that the provider is known to send.
const ruleKnownType = "known_type"

// Warnings returns the warnings about the patterns of a subscription that is limited to a provider configuration or a
// connection: those that no type fits which the provider is known to send. There are none where nothing is known.
func (s *Service) Warnings(ctx context.Context, sub *Subscription) []Warning {
	providers := s.providersOf(ctx, sub)
	var list []Warning
	for i, text := range sub.EventTypes {
		if first, _, _ := strings.Cut(text, "."); first == OwnProvider || mayFit(providers, text) {
			continue
		}
		unknown := unknownType(fmt.Sprintf("event_types[%d]", i), providers)
		if len(list) < maxSuggestions {
			unknown = unknown.suggesting(providers, text)
		}
		list = append(list, unknown)
	}
	return list
}

func unknownType(location string, providers []*eventtypes.Provider) Warning {
	names := make([]string, len(providers))
	for i, p := range providers {
		names[i] = p.Name
	}
	return Warning{location, ruleKnownType, strings.Join(names, " and ") + " is not known to send an event of such a " +
		"type; GET /webhook-events/types?provider=" + providers[0].Slug + " lists those that it is known to send"}
}

// TestedType is the type that a test gives its synthetic event.
type TestedType struct {
	// Type is as the events of the provider have it.
	Type string
	// Rules are those of the provider.
	Rules eventtypes.Rules
	// Warnings point out a type that the provider is not known to send.
	Warnings []Warning
}

// TestedTypes returns the types that events can have which a person describes by the type written, those first that are
// most likely meant: as the providers of the subscription write it; without one, as those that are known to send it, as
// it is, and as any other writes it.
func (s *Service) TestedTypes(ctx context.Context, sub *Subscription, written string) []TestedType {
	providers := s.providersOf(ctx, sub)
	of := func(p *eventtypes.Provider) TestedType {
		return TestedType{Type: p.Rules.Normal(written), Rules: p.Rules}
	}
	var list []TestedType
	if len(providers) > 0 || sub.ProviderConfigKey != "" || sub.ConnectionID != "" {
		for _, p := range providers {
			list = append(list, of(p))
		}
		if len(list) == 0 {
			list = []TestedType{{Type: written}}
		}
		if !mayFit(providers, written) {
			for i := range list {
				list[i].Warnings = []Warning{unknownType("event_type", providers).suggesting(providers, written)}
			}
		}
		return list
	}
	var others []TestedType
	for _, p := range eventtypes.All(s.types) {
		switch {
		case slices.ContainsFunc(p.Known, func(k eventtypes.Known) bool { return k.Written == written && k.Type != written }):
			list = append(list, of(p))
		case p.Rules.Normal(written) != written || s.differs(sub, p.Rules):
			others = append(others, of(p))
		}
	}
	return append(append(list, TestedType{Type: written}), others...)
}

// differs reports whether a provider writes one of the patterns in another way.
func (*Service) differs(sub *Subscription, rules eventtypes.Rules) bool {
	return slices.ContainsFunc(sub.EventTypes, func(text string) bool { return rules.Normal(text) != text })
}

// providersOf returns what is known of the providers of a subscription: that of its configuration, or those of the
// connections with its id; none if it is limited to neither.
func (s *Service) providersOf(ctx context.Context, sub *Subscription) []*eventtypes.Provider {
	var list []*eventtypes.Provider
	for _, slug := range s.slugsOf(ctx, sub) {
		if p := eventtypes.Of(s.types, slug); p != nil && !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	return list
}

// slugsOf returns the slugs of the providers of a subscription; none if they cannot be read, because a warning is not
// worth an error.
func (s *Service) slugsOf(ctx context.Context, sub *Subscription) []string {
	if sub.ProviderConfigKey != "" {
		slug, err := s.providerOf(ctx, sub.Environment, sub.ProviderConfigKey)
		if err != nil {
			return nil
		}
		return []string{slug}
	}
	if sub.ConnectionID == "" {
		return nil
	}
	list, err := s.cfg.Connections.OfID(ctx, sub.Environment, sub.ConnectionID)
	if err != nil {
		return nil
	}
	slugs := make([]string, len(list))
	for i := range list {
		slugs[i] = list[i].Provider
	}
	return slugs
}

// underivable is the type of an event whose type cannot be derived. Any provider may send such events.
const underivable = "unknown"

// mayFit reports whether a pattern or type may be of an event of the providers. It is false only if types of each are
// known, and none fits.
func mayFit(providers []*eventtypes.Provider, text string) bool {
	if text == underivable {
		return true
	}
	for _, p := range providers {
		if len(p.Known) == 0 {
			return true
		}
		for _, form := range []string{text, p.Rules.Normal(text)} {
			pattern, violation := parsePattern(form)
			if violation == nil && slices.ContainsFunc(p.Known, func(k eventtypes.Known) bool {
				known, violation := parsePattern(k.Type)
				return violation == nil && pattern.overlaps(known)
			}) {
				return true
			}
		}
	}
	return len(providers) == 0
}
