package subscriptions

import (
	"slices"
	"strings"

	"sallyport/internal/webhooks/filters"
)

// Matched is a subscription that an event goes to.
type Matched struct {
	ID string
	// Enabled is false for a paused subscription: its delivery is made and held.
	Enabled bool
	// Filter is what the event must fit besides; nil where the subscription asks for nothing more. Match leaves it to the
	// caller, who has the event.
	Filter *filters.Filter
}

// scope is what a subscription is bound to; an empty field stands for all.
type scope struct{ providerConfigKey, connectionID string }

// entry is what the index knows of one subscription.
type entry struct {
	Matched
	scope    scope
	patterns []Pattern
}

// index answers which of an environment's subscriptions an event matches. It is immutable. Its cost depends on the
// depth of the event's type and on what matches, not on how many subscriptions there are.
type index struct {
	subscriptions []Matched // in the order of their ids
	root          node
	// filtered says that one of the subscriptions has a filter.
	filtered bool
}

// node is where the trie of pattern segments stands after some segments.
type node struct {
	literal map[string]*node
	any     *node // after a "*" that stands for exactly one segment
	// exact holds the patterns that end here, tail those that go on with a last "*". Values are positions in
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

// matchOwn returns the subscriptions that take an event of the gateway's own: those with a pattern that fits its type
// and names its first segment. A wildcard there stands for what providers send.
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

// scopesOf returns where subscriptions sit that take events of the scope: bound to nothing, to one part or to both
// parts of it.
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

// collect adds what matches below n. rest are the segments still to go, done says that none is left.
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
