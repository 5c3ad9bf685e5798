package subscriptions

import (
	"slices"
	"strings"

	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/filters"
)

// Matched is a subscription that matches an event.
type Matched struct {
	ID string
	// Enabled is false for a paused subscription: its delivery is created and held.
	Enabled bool
	// Filter is a further condition on the event; nil if there is none. Match leaves its evaluation to the caller, who has
	// the event.
	Filter *filters.Filter
}

// scope holds the restrictions of a subscription, or of one of its slots. An empty field does not restrict.
type scope struct {
	providerConfigKey, connectionID string
	// provider is the slug of a provider. Only slots are restricted to one.
	provider string
}

// entry is one subscription in the index. It is immutable.
type entry struct {
	Matched
	scope scope
	slots []slot
}

// slot is a place of a subscription in the index: under one form of one of its patterns, for the events of a scope. A
// pattern that a provider writes in another way has a further place, which only the events of that provider reach, so
// that it costs the events of others nothing.
type slot struct {
	pattern Pattern
	scope   scope
}

func (p slot) equal(other slot) bool { return p.scope == other.scope && p.pattern.equal(other.pattern) }

// slotsOf returns the slots of a subscription. Texts that are a pattern in no form have none. The provider of the scope
// limits the forms; it is empty if it is not known.
func slotsOf(types eventtypes.Source, patterns []string, s scope) []slot {
	var slots []slot
	for _, text := range patterns {
		for _, form := range eventtypes.Forms(types, text) {
			if form.Provider != "" && s.provider != "" && form.Provider != s.provider {
				continue
			}
			p, violation := parsePattern(form.Text)
			if violation != nil {
				continue
			}
			of := s
			of.provider = form.Provider
			slots = append(slots, slot{p, of})
		}
	}
	return slots
}

// typeOf returns the function Target.TypeOf of a subscription with these slots.
func typeOf(slots []slot) func(provider string, types []string) string {
	return func(provider string, types []string) string {
		for _, eventType := range types {
			for _, p := range slots {
				if only := p.scope.provider; only != "" && only != provider {
					continue
				}
				if p.pattern.Matches(eventType) {
					return eventType
				}
			}
		}
		return types[0]
	}
}

// same reports whether the entries match the same events in the same way.
func (e *entry) same(other *entry) bool {
	return e.Matched == other.Matched && e.scope == other.scope && slices.EqualFunc(e.slots, other.slots, slot.equal)
}

// index finds the subscriptions of an environment that match an event. Its cost depends on the depth of the event's
// type and on the matches, not on the number of subscriptions; that of a change on the patterns of the subscription. A
// changed index equals one that is made of the same entries.
type index struct {
	byID map[string]*entry
	root node
	// written counts the slots that are restricted to a provider, by its slug. The events of others need not look for
	// them.
	written map[string]int
}

// node is the state of the trie of pattern segments after some segments. A node that holds nothing is removed from its
// parent, and a map that holds nothing is nil.
type node struct {
	literal map[string]*node
	any     *node // after a "*" that stands for exactly one segment
	// exact holds the patterns that end here, tail those that continue with a last "*", each in the order of the ids.
	exact, tail map[scope][]*entry
}

// newIndex builds the index of entries with different ids.
func newIndex(entries []entry) *index {
	x := &index{byID: make(map[string]*entry, len(entries)), written: map[string]int{}}
	for i := range entries {
		x.set(entries[i].ID, &entries[i])
	}
	return x
}

// set replaces the entry of the id, and removes it if e is nil. It reports whether that changes what matches.
func (x *index) set(subscriptionID string, e *entry) bool {
	old := x.byID[subscriptionID]
	if old == nil && e == nil || old != nil && e != nil && old.same(e) {
		return false
	}
	if old != nil {
		for _, p := range old.slots {
			x.root.remove(p.pattern.segments, p, old)
			x.count(p.scope.provider, -1)
		}
		delete(x.byID, subscriptionID)
	}
	if e != nil {
		for _, p := range e.slots {
			x.root.insert(p, e)
			x.count(p.scope.provider, 1)
		}
		x.byID[subscriptionID] = e
	}
	return true
}

// count counts slots that are restricted to a provider.
func (x *index) count(provider string, by int) {
	if provider == "" {
		return
	}
	if x.written[provider] += by; x.written[provider] == 0 {
		delete(x.written, provider)
	}
}

// insert adds the entry at a place below n.
func (n *node) insert(p slot, e *entry) {
	for _, segment := range p.pattern.segments {
		n = n.child(segment)
	}
	ends := n.ends(p.pattern.tail)
	if *ends == nil {
		*ends = map[scope][]*entry{}
	}
	list := (*ends)[p.scope]
	if at, found := slices.BinarySearchFunc(list, e, byID); !found {
		(*ends)[p.scope] = slices.Insert(list, at, e)
	}
}

// remove removes the entry from the place under the segments below n, and the nodes that hold nothing then.
func (n *node) remove(segments []string, p slot, e *entry) {
	if len(segments) > 0 {
		segment := segments[0]
		c := n.literal[segment]
		if segment == wildcard {
			c = n.any
		}
		if c == nil {
			return // the subscription has the place twice
		}
		c.remove(segments[1:], p, e)
		if c.holdsNothing() {
			n.forget(segment)
		}
		return
	}
	ends := n.ends(p.pattern.tail)
	list := (*ends)[p.scope]
	at, found := slices.BinarySearchFunc(list, e, byID)
	switch {
	case !found:
	case len(list) > 1:
		(*ends)[p.scope] = slices.Delete(list, at, at+1)
	case len(*ends) > 1:
		delete(*ends, p.scope)
	default:
		*ends = nil
	}
}

func byID(a, b *entry) int { return strings.Compare(a.ID, b.ID) }

func (n *node) ends(tail bool) *map[scope][]*entry {
	if tail {
		return &n.tail
	}
	return &n.exact
}

func (n *node) holdsNothing() bool {
	return n.literal == nil && n.any == nil && n.exact == nil && n.tail == nil
}

func (n *node) forget(segment string) {
	switch {
	case segment == wildcard:
		n.any = nil
	case len(n.literal) > 1:
		delete(n.literal, segment)
	default:
		n.literal = nil
	}
}

func (n *node) child(segment string) *node {
	if segment == wildcard {
		if n.any == nil {
			n.any = &node{}
		}
		return n.any
	}
	c := n.literal[segment]
	if c == nil {
		if n.literal == nil {
			n.literal = map[string]*node{}
		}
		c = &node{}
		n.literal[segment] = c
	}
	return c
}

// matchOwn returns the subscriptions that match one of the gateway's own events: those with a pattern that matches its
// type and names its first segment. A wildcard in its place matches only the events of providers.
func (x *index) matchOwn(event scope, eventType string) []Matched {
	first, rest, more := strings.Cut(eventType, ".")
	n := x.root.literal[first]
	if n == nil {
		return nil
	}
	event.provider = "" // no provider writes them
	var buffer [maxScopes]scope
	return matches(n.collect(nil, rest, !more, x.scopesOf(buffer[:0], event)))
}

// wantsOwn reports whether any pattern names the first segment of the gateway's own types.
func (x *index) wantsOwn() bool { return x.root.literal[OwnProvider] != nil }

// maxScopes is the most that scopesOf returns.
const maxScopes = 8

// scopesOf appends the scopes of slots that select events of the scope: restricted by nothing, or by some of its parts.
func (x *index) scopesOf(to []scope, event scope) []scope {
	key, connection := event.providerConfigKey, event.connectionID
	to = append(to, scope{}, scope{providerConfigKey: key}, scope{connectionID: connection},
		scope{providerConfigKey: key, connectionID: connection})
	if p := event.provider; p != "" && x.written[p] > 0 {
		to = append(to, scope{provider: p}, scope{providerConfigKey: key, provider: p},
			scope{connectionID: connection, provider: p}, event)
	}
	return to
}

// match returns the subscriptions that any of the types matches, each once, in the order of their ids.
func (x *index) match(event scope, types []string) []Matched {
	var buffer [maxScopes]scope
	scopes := x.scopesOf(buffer[:0], event)
	var found []*entry
	for _, t := range types {
		found = x.root.collect(found, t, false, scopes)
	}
	return matches(found)
}

// matches returns the subscriptions of the entries, each once, in the order of their ids. It changes the slice.
func matches(found []*entry) []Matched {
	slices.SortFunc(found, byID)
	found = slices.Compact(found)
	out := make([]Matched, len(found))
	for i, e := range found {
		out[i] = e.Matched
	}
	return out
}

// collect adds the matches below n. rest holds the segments that remain; done is true if none does.
func (n *node) collect(found []*entry, rest string, done bool, scopes []scope) []*entry {
	if done {
		return appendScopes(found, n.exact, scopes)
	}
	found = appendScopes(found, n.tail, scopes)
	segment, after, more := strings.Cut(rest, ".")
	if c := n.literal[segment]; c != nil {
		found = c.collect(found, after, !more, scopes)
	}
	if n.any != nil {
		found = n.any.collect(found, after, !more, scopes)
	}
	return found
}

func appendScopes(found []*entry, ends map[scope][]*entry, scopes []scope) []*entry {
	if len(ends) == 0 {
		return found
	}
	for _, s := range scopes {
		found = append(found, ends[s]...)
	}
	return found
}
