// Package eventtypes knows how each provider writes the types of its events, and which types it is known to send. See
// README.md.
package eventtypes

import (
	"maps"
	"strings"
	"time"
	"unicode"

	"sallyport/internal/platform/suggest"
)

// Wildcard is the segment of a pattern that matches any segment.
const Wildcard = "*"

// Rules turn a type as a provider writes it into the type of the stored event. The zero value changes nothing.
type Rules struct {
	separators string
	renamed    map[string]string
}

// NewRules returns the rules that rename the given types, and put a dot in the place of each of the separators in all
// others.
func NewRules(separators string, renamed map[string]string) Rules {
	return Rules{separators: separators, renamed: maps.Clone(renamed)}
}

// Normal returns the type of the stored event for a type as the provider writes it; empty if nothing but separators is
// in it. Pattern does it for patterns.
func (r Rules) Normal(written string) string {
	if to, ok := r.renamed[written]; ok {
		return to
	}
	if r.separators == "" || !strings.ContainsAny(written, r.separators) {
		return written
	}
	out := []byte(written)
	for i, c := range out {
		if strings.IndexByte(r.separators, c) >= 0 {
			out[i] = '.'
		}
	}
	return strings.Trim(string(out), ".") // a dot there would begin or end an empty segment
}

// Pattern returns the pattern for stored events that a pattern stands for in the provider's way of writing; empty if
// there is none. A dot at an end next to a wildcard would begin or end an empty segment there: without it, "/*" would
// be the wildcard for everything, which no one has written.
func (r Rules) Pattern(written string) string {
	normal := r.Normal(written)
	moved := func(has func(text, part string) bool) bool { return has(normal, Wildcard) && !has(written, Wildcard) }
	if normal == Wildcard && written != Wildcard ||
		strings.Contains(written, Wildcard) && (moved(strings.HasPrefix) || moved(strings.HasSuffix)) {
		return ""
	}
	return normal
}

// Separators returns the characters that become dots.
func (r Rules) Separators() string { return r.separators }

// Renamed returns the types that are renamed, by how the provider writes them. It is shared: do not modify it.
func (r Rules) Renamed() map[string]string { return r.renamed }

// Known is a type that a provider is known to send, or a pattern for a family of types.
type Known struct {
	// Written is as the provider writes it.
	Written string
	// Type is that of the stored event.
	Type string
}

// Provider is what is known of one provider's types. It is shared and immutable.
type Provider struct {
	// Slug is that of the provider's definition.
	Slug string
	// Name is the provider's own spelling of its name.
	Name  string
	Rules Rules
	// Known is empty if nothing is known of the types. Otherwise it may still miss some.
	Known []Known
	// Aliases are other names under which people look for the provider.
	Aliases []string
	// MaxAge is how long a receiver that verifies the provider's own signature accepts it; 0 for no limit.
	MaxAge time.Duration
	// Replaced reports that the provider's signature comes in the headers of Standard Webhooks, in which the gateway sends
	// its own.
	Replaced bool
	// Svix reports that its signature can come in the headers of Svix, which the gateway passes on.
	Svix bool
	// Removed reports that the provider's signature is a part of the body, from which the gateway removes it.
	Removed bool
	// NoWebhooks reports that the gateway takes no webhooks of the provider.
	NoWebhooks bool
}

// Source returns what is known now, in the order of the slugs. Implementations read only memory.
type Source interface {
	EventTypes() []*Provider
}

// All returns what the source knows; nothing without a source.
func All(s Source) []*Provider {
	if s == nil {
		return nil
	}
	return s.EventTypes()
}

// Suggest asks for the provider that a key which does not exist probably means, such as ". Did you mean github?"; empty
// if none is near.
func Suggest(s Source, key string) string {
	var keys []string
	aliases := map[string]string{}
	for _, p := range All(s) {
		keys = append(keys, p.Slug)
		for _, alias := range p.Aliases {
			aliases[alias] = p.Slug
		}
	}
	return suggest.Question(key, keys, aliases)
}

// Of returns what is known of the types of a provider; nil for one that the source does not know.
func Of(s Source, slug string) *Provider {
	for _, p := range All(s) {
		if p.Slug == slug {
			return p
		}
	}
	return nil
}

// RulesOf returns the rules of a provider. Those of an unknown one change nothing.
func RulesOf(s Source, slug string) Rules {
	if p := Of(s, slug); p != nil {
		return p.Rules
	}
	return Rules{}
}

// Form is a type or pattern as it is compared with the types of stored events.
type Form struct {
	// Provider is the slug of the only provider to whose events the form applies; empty for all. An event that was
	// published about a connection counts as one of the connection's provider.
	Provider string
	// Text is the form.
	Text string
}

// Forms returns the forms of a type or pattern that a person has written: as it is, for the events of every provider,
// and as each provider would write it that writes it in another way. An event has the type, or matches the pattern, if
// it does so in one of the forms. Forms that can be no pattern, because a wildcard is a part of a segment, are left
// out, so there may be none.
func Forms(s Source, text string) []Form {
	var forms []Form
	if fits(text) {
		forms = append(forms, Form{Text: text})
	}
	for _, p := range All(s) {
		if normal := p.Rules.Pattern(text); normal != text && normal != "" && fits(normal) {
			forms = append(forms, Form{Provider: p.Slug, Text: normal})
		}
	}
	return forms
}

// fits reports whether a text with wildcards is a pattern: every wildcard is a whole segment, and no segment has a
// blank or an unprintable character, which only a provider's rules can remove. A text without wildcards is a type.
func fits(text string) bool {
	if !strings.Contains(text, Wildcard) {
		return true
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }) {
		return false
	}
	for segment := range strings.SplitSeq(text, ".") {
		if segment == "" || segment != Wildcard && strings.Contains(segment, Wildcard) {
			return false
		}
	}
	return true
}

// FitsNowhere reports whether no rules could make a pattern of a text: it is none as it is, and has no character that a
// provider could have put between the words of its types. It is for checks that know no provider.
func FitsNowhere(text string) bool {
	return !fits(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r != '.' && r != '*' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
