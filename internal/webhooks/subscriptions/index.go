package subscriptions

import (
	"slices"
	"strings"

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

// scope holds the restrictions of a subscription. An empty field does not restrict.
type scope struct{ providerConfigKey, connectionID string }

// entry is one subscription in the index.
type entry struct {
	Matched
	scope    scope
	patterns []Pattern
}

// index finds the subscriptions of an environment that match an event. It is immutable. Its cost depends on the depth
// of the event's type and on the matches, not on the number of subscriptions.
type index struct {
	subscriptions []Matched // in the order of their ids
	root          node
	// filtered is true if one of the subscriptions has a filter.
	filtered bool
}

// node is the state of the trie of pattern segments after some segments.
type node struct {
	literal map[string]*node
	any     *node // after a "*" that stands for exactly one segment
	// exact holds the patterns that end here, tail those that continue with a last "*". Values are positions in
	// index.subscriptions, ascending.
	exact, tail map[scope][]int32
}

// newIndex builds the index. The entries are in the order of their ids.
func newIndex(entries []entry) *index {
	x := &index{subscriptions: make([]Matched, len(entries))}
	for i, e := range entries {
		x.subscriptions[i] = e.Matched
		x.filtered = x.filtered || e.Filter != nil
		for _, p := range e.patterns {
			x.root.insert(p, e.scope, int32(i))
		}
	}
	return x
}

func (n *node) insert(p Pattern, s scope, position int32) {
	for _, segment := range p.segments {
		n = n.child(segment)
	}
	ends := &n.exact
	if p.tail {
		ends = &n.tail
	}
	if *ends == nil {
		*ends = map[scope][]int32{}
	}
	(*ends)[s] = append((*ends)[s], position)
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
	scopes := scopesOf(event)
	return x.positions(n.collect(nil, rest, !more, scopes[:]))
}

// wantsOwn reports whether any pattern names the first segment of the gateway's own types.
func (x *index) wantsOwn() bool { return x.root.literal[OwnProvider] != nil }

// scopesOf returns the scopes of subscriptions that select events of the scope: restricted by nothing, by one of its
// parts, or by both.
func scopesOf(event scope) [4]scope {
	return [...]scope{{}, {providerConfigKey: event.providerConfigKey}, {connectionID: event.connectionID}, event}
}

// match returns the subscriptions that any of the types matches, each once, in the order of their ids.
func (x *index) match(event scope, types []string) []Matched {
	scopes := scopesOf(event)
	var found []int32
	for _, t := range types {
		found = x.root.collect(found, t, false, scopes[:])
	}
	return x.positions(found)
}

// positions returns the subscriptions at the positions, each once, in the order of their ids. It changes the slice.
func (x *index) positions(found []int32) []Matched {
	slices.Sort(found)
	found = slices.Compact(found)
	out := make([]Matched, len(found))
	for i, position := range found {
		out[i] = x.subscriptions[position]
	}
	return out
}

// collect adds the matches below n. rest holds the segments that remain; done is true if none does.
func (n *node) collect(found []int32, rest string, done bool, scopes []scope) []int32 {
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

func appendScopes(found []int32, ends map[scope][]int32, scopes []scope) []int32 {
	if len(ends) == 0 {
		return found
	}
	for _, s := range scopes {
		found = append(found, ends[s]...)
	}
	return found
}
