package subscriptions

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/filters"
)

// Warning points out a part of a subscription, or of a request about it, that is valid and probably not what was meant.
type Warning struct {
	// Location is the part, relative to the body of the request.
	Location string
	// Rule is the name of the rule.
	Rule    string
	Message string
}

// The rules of warnings.
const (
	// ruleKnownType: a type is one that the provider is known to send.
	ruleKnownType = "known_type"
	// ruleHeaderCase: names of headers are in lower case.
	ruleHeaderCase = "header_case"
	// ruleSignatureAge: the receiver verifies a signature that stays valid as long as deliveries are retried.
	ruleSignatureAge = "signature_age"
	// ruleSignatureReplaced: the provider's signature has headers of its own.
	ruleSignatureReplaced = "signature_replaced"
	// ruleSignatureRemoved: the provider's signature is removed from the body.
	ruleSignatureRemoved = "signature_removed"
)

// Warnings returns the warnings about a subscription: about patterns that no type fits which its providers are known to
// send, and about signatures of its providers that a receiver of raw webhooks cannot verify in every attempt. The
// providers of a subscription to the whole environment are those with connections in it. Where nothing is known of one
// of them, a pattern is pointed out only if it is nearly one that fits another.
func (s *Service) Warnings(ctx context.Context, sub *Subscription) []Warning {
	providers, complete := s.concerned(ctx, sub)
	list := signatureWarnings(sub, providers)
	list = append(list, filterWarnings(sub, providers)...)
	known := slices.DeleteFunc(slices.Clone(providers), func(p *eventtypes.Provider) bool { return len(p.Known) == 0 })
	partial := !complete || len(known) < len(providers)
	for i, text := range sub.EventTypes {
		location := fmt.Sprintf("event_types[%d]", i)
		if first, _, _ := strings.Cut(text, "."); first == OwnProvider {
			list = append(list, ownTypeWarning(s.cfg.OwnTypes, location, text)...)
			continue
		}
		if complete && !isPatternOf(providers, text) {
			list = append(list, Warning{location, ruleKnownType, "no event can match: * must be a whole segment between " +
				"dots, and no provider of these events writes its types in another way"})
			continue
		}
		if mayFit(known, text) {
			continue
		}
		nearest := ""
		if own := OwnProvider + "." + text; text != "*" && ownTypeWarning(s.cfg.OwnTypes, location, own) == nil {
			nearest = own // the gateway's types are known by their second part, too
		} else if len(list) < maxSuggestions {
			nearest = nearestType(known, text)
		}
		if !partial || nearest != "" {
			list = append(list, unknownType(location, known).suggesting(nearest))
		}
	}
	return list
}

// ownTypeWarning returns the warning about a pattern that matches none of the types of the gateway's own events.
func ownTypeWarning(types []string, location, text string) []Warning {
	own := []*eventtypes.Provider{{Slug: OwnProvider}}
	for _, name := range types {
		own[0].Known = append(own[0].Known, eventtypes.Known{Written: name, Type: name})
	}
	if mayFit(own, text) {
		return nil
	}
	return []Warning{Warning{location, ruleKnownType, "the gateway emits no event of such a type; GET " +
		"/webhook-events/types?provider=" + OwnProvider + " lists its types"}.suggesting(nearestType(own, text))}
}

// isPatternOf reports whether a text is a pattern as one of the providers writes it, or as events have it.
func isPatternOf(providers []*eventtypes.Provider, text string) bool {
	if _, violation := parsePattern(text); violation == nil || len(providers) == 0 {
		return true
	}
	return slices.ContainsFunc(providers, func(p *eventtypes.Provider) bool {
		_, violation := parsePattern(p.Rules.Pattern(text))
		return violation == nil
	})
}

// filterWarnings returns the warnings about names of headers that are not in lower case, and about types in the filter
// as providers write them: it sees the headers and types of stored events, so that it would never match.
func filterWarnings(sub *Subscription, providers []*eventtypes.Provider) (list []Warning) {
	for _, name := range filters.ComparedWith(sub.Filter, "headers") {
		if lower := strings.ToLower(name); lower != name && len(list) < maxSuggestions {
			list = append(list, Warning{"filter", ruleHeaderCase, fmt.Sprintf("the filter reads the header %s, and events have "+
				"the names of headers in lower case: write event.headers[%q]", name, lower)})
		}
	}
	compared := filters.ComparedWith(sub.Filter, "type")
	if len(compared) == 0 {
		return list
	}
	for _, p := range providers {
		for i := range p.Known {
			k := &p.Known[i]
			if k.Written != k.Type && len(list) < maxSuggestions && slices.Contains(compared, k.Written) {
				list = append(list, Warning{"filter", ruleKnownType, fmt.Sprintf("the filter compares with %s, as %s writes it; "+
					"the type of the stored event is %s", k.Written, p.Name, k.Type)})
			}
		}
	}
	return list
}

func unknownType(location string, providers []*eventtypes.Provider) Warning {
	names := make([]string, len(providers))
	for i, p := range providers {
		names[i] = p.Name
	}
	verb, keys := " is", providers[0].Slug
	if len(providers) > 1 {
		verb, keys = " are", "…"
	}
	return Warning{location, ruleKnownType, strings.Join(names, " and ") + verb + " not known to send an event of such " +
		"a type; `sallyport providers show " + keys + "` and GET /webhook-events/types?provider=" + keys +
		" list the types that are known"}
}

// signatureWarnings returns the warnings about the providers' own signatures, which only raw requests have.
func signatureWarnings(sub *Subscription, providers []*eventtypes.Provider) (list []Warning) {
	if sub.PayloadMode != Raw {
		return nil
	}
	for _, p := range providers {
		switch {
		case p.Replaced && p.Svix:
			list = append(list, Warning{"payload_mode", ruleSignatureReplaced, p.Name + " signs in svix-* headers, or in " +
				"webhook-*, where deliveries have the gateway's own signature. Svix's library reads svix-* first: give it " +
				p.Name + "'s secret. A library of Standard Webhooks reads webhook-*: give it the subscription's signing secret"})
		case p.Replaced:
			list = append(list, Warning{"payload_mode", ruleSignatureReplaced, p.Name + " sends its signature in " +
				"webhook-signature, where deliveries have the gateway's own: the receiver must verify with the subscription's " +
				"signing secret instead of " + p.Name + "'s"})
		case p.Removed:
			list = append(list, Warning{"payload_mode", ruleSignatureRemoved, p.Name + " proves its webhooks by a value in " +
				"the body, which is [redacted] because it would prove other bodies too: the receiver cannot verify it, and " +
				"must verify webhook-signature with the subscription's signing secret"})
		case p.MaxAge > 0:
			list = append(list, Warning{"payload_mode", ruleSignatureAge, fmt.Sprintf("receivers accept a signature of %s for "+
				"%d seconds as a rule, so that they refuse retries and replays that come later; have the receiver verify "+
				"webhook-signature, which is new in every attempt", p.Name, int(p.MaxAge.Seconds()))})
		}
	}
	return list
}

// WarnUnknownType returns a warning about the type of an event that the provider of that slug is not known to send.
func (d *Directory) WarnUnknownType(provider, eventType string) []Warning {
	p := eventtypes.Of(d.types, provider)
	if p == nil || mayFit([]*eventtypes.Provider{p}, eventType) {
		return nil
	}
	providers := []*eventtypes.Provider{p}
	return []Warning{unknownType("event_type", providers).suggesting(nearestType(providers, eventType))}
}

// concerned returns what is known of the providers whose events a subscription gets. complete is false if nothing is
// known of one of them.
func (s *Service) concerned(ctx context.Context, sub *Subscription) (list []*eventtypes.Provider, complete bool) {
	if sub.ProviderConfigKey != "" || sub.ConnectionID != "" {
		return s.providersOf(ctx, sub), true
	}
	slugs, err := s.cfg.Connections.ProvidersInUse(ctx, sub.Environment)
	if err != nil {
		return nil, false // a warning is not worth an error
	}
	complete = true
	for _, slug := range slugs {
		switch p := eventtypes.Of(s.types, slug); {
		case p == nil:
			complete = false
		case !p.NoWebhooks:
			list = append(list, p)
		}
	}
	return list, complete
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
				list[i].Warnings = []Warning{unknownType("event_type", providers).suggesting(nearestType(providers, written))}
			}
		}
		return list
	}
	var others []TestedType
	for _, p := range eventtypes.All(s.types) {
		switch {
		case slices.ContainsFunc(p.Known, func(k eventtypes.Known) bool { return k.Written == written && k.Type != written }):
			list = append(list, of(p))
		case p.Rules.Normal(written) != written || differs(sub, p.Rules):
			others = append(others, of(p))
		}
	}
	list = append(append(list, TestedType{Type: written}), others...)
	if concerned, complete := s.concerned(ctx, sub); complete && !mayFit(concerned, written) {
		for i := range list {
			list[i].Warnings = []Warning{unknownType("event_type", concerned)}
		}
	}
	return list
}

// differs reports whether a provider writes one of the patterns in another way.
func differs(sub *Subscription, rules eventtypes.Rules) bool {
	return slices.ContainsFunc(sub.EventTypes, func(text string) bool { return rules.Normal(text) != text })
}

// providersOf returns what is known of the providers of a subscription: that of its configuration, or those of the
// connections with its id; none if it is limited to neither.
func (s *Service) providersOf(ctx context.Context, sub *Subscription) []*eventtypes.Provider {
	var list []*eventtypes.Provider
	for _, slug := range s.slugsOf(ctx, sub) {
		if p := eventtypes.Of(s.types, slug); p != nil && !p.NoWebhooks && !slices.Contains(list, p) {
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
