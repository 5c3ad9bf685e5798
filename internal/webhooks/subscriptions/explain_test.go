package subscriptions

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/id"
	"sallyport/internal/providers/eventtypes"
)

// writers are providers that write their types in ways of their own.
type writers struct{}

func (writers) EventTypes() []*eventtypes.Provider {
	return []*eventtypes.Provider{
		{Slug: "github", Name: "GitHub", Rules: eventtypes.NewRules("/", nil),
			Known: []eventtypes.Known{{Written: "a/b", Type: "a.b"}, {Written: "c/*", Type: "c.*"}}},
		{Slug: "stripe", Name: "Stripe", Rules: eventtypes.NewRules(":", map[string]string{"r s": "b.a"})},
	}
}

// bound returns the scope of a subscription, and from that of an event from a configuration whose key is its provider's
// slug.
func bound(key, connection string) scope {
	return scope{providerConfigKey: key, connectionID: connection}
}

func from(key, connection string) scope { return scope{key, connection, key} }

// An explanation of a subscription agrees with matching, for all scopes, patterns and types.
func TestExplanationsAgreeWithMatching(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b"})
		key := rapid.SampledFrom([]string{"", "github", "stripe"})
		connection := rapid.SampledFrom([]string{"", "x", "y"})
		pattern := rapid.SampledFrom([]string{"*", "a", "a.*", "a.b", "*.b", "b.*.a", "a/b", "a/*", "*/b", "a:b", "/a",
			"r s", "a:*/b"})
		sub := Subscription{ID: id.New(id.PrefixSubscription), ProviderConfigKey: key.Draw(rt, "key"),
			ConnectionID: connection.Draw(rt, "connection"), EventTypes: rapid.SliceOfN(pattern, 1, 3).Draw(rt, "patterns"),
			Enabled: true}
		eventType := segment.Draw(rt, "type")
		for range rapid.IntRange(0, 2).Draw(rt, "segments") {
			eventType += rapid.SampledFrom([]string{".", ".", "/", ":"}).Draw(rt, "separator") + segment.Draw(rt, "segment")
		}
		eventKey := rapid.SampledFrom([]string{"github", "stripe"}).Draw(rt, "event key")
		eventConnection := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "event connection")

		own := bound(sub.ProviderConfigKey, sub.ConnectionID)
		e := entry{Matched: Matched{ID: sub.ID, Enabled: true}, scope: own, slots: slotsOf(writers{}, sub.EventTypes, own)}
		matched := len(newIndex([]entry{e}).match(from(eventKey, eventConnection), []string{eventType})) == 1
		got := sub.Explain(eventtypes.RulesOf(writers{}, eventKey), eventKey, eventConnection, eventType)
		require.Equal(rt, matched, got.Failed == "", "%+v", got)
		if matched {
			require.Contains(rt, sub.EventTypes, got.Pattern)
		}
	})
}

// The gateway's own events go to subscriptions that name them, and never to those that match everything. Explanations
// agree with matching.
func TestOwnEventsAreAskedForByName(t *testing.T) {
	t.Parallel()
	const eventType = "sallyport.delivery.recovered"
	for pattern, takes := range map[string]bool{
		"*": false, "*.*.recovered": false, "*.delivery.*": false, "sallyport": false, "sallyport.*": true,
		"sallyport.delivery.*": true, "sallyport.*.recovered": true, "sallyport.delivery.recovered": true,
		"sallyport.delivery": false, "sallyport.connection.*": false,
	} {
		p, err := ParsePattern(pattern)
		require.NoError(t, err)
		require.Equal(t, takes, p.matchesOwn(eventType), pattern)
		x := newIndex([]entry{{Matched: Matched{ID: "a"}, scope: scope{connectionID: "acme"}, slots: []slot{
			{p, scope{connectionID: "acme"}}, {p, scope{connectionID: "acme"}}}}})
		require.Equal(t, takes, len(x.matchOwn(from("github", "acme"), eventType)) == 1, pattern)
		require.Empty(t, x.matchOwn(from("github", "other"), eventType), pattern)
		require.Equal(t, pattern[0] == 's', x.wantsOwn(), pattern)
		sub := Subscription{EventTypes: []string{pattern}}
		require.Equal(t, takes, sub.ExplainOwn("github", "acme", eventType).Failed == "", pattern)
		require.Equal(t, p.Matches(eventType), len(x.match(from("github", "acme"), []string{eventType})) == 1,
			"a provider's event of that name")
	}
}

// A pattern is written by the rules of the provider that an event is of: that of the subscription, or any. It still
// matches the types that have its own text, and no events of others.
func TestPatternsAsProvidersWriteThem(t *testing.T) {
	t.Parallel()
	const other = "gitlab" // writes types with dots
	for _, tt := range []struct {
		bound   scope
		pattern string
		event   scope
		kind    string
		matches bool
	}{
		{scope{}, "a/b", from("github", "x"), "a.b", true},
		{scope{}, "a.b", from("github", "x"), "a.b", true},
		{scope{}, "a/*", from("github", "x"), "a.b.c", true},
		{scope{}, "/a/b/", from("github", "x"), "a.b", true},
		{scope{}, "a/b", from("stripe", "x"), "a.b", false},
		{scope{}, "a/b", from("stripe", "x"), "a/b", true},
		{scope{}, "a/b", from(other, "x"), "a.b", false},
		{scope{}, "a:b", from("stripe", "x"), "a.b", true},
		{scope{}, "r s", from("stripe", "x"), "b.a", true},
		{scope{}, "r s", from("github", "x"), "b.a", false},
		{bound("github", ""), "a/b", from("github", "x"), "a.b", true},
		{bound("github", ""), "a:b", from("github", "x"), "a.b", false},
		{bound("github", "x"), "a/b", from("github", "x"), "a.b", true},
		{bound("github", "x"), "a/b", from("github", "y"), "a.b", false},
		{bound("", "x"), "a/b", from("github", "x"), "a.b", true},
		{bound("", "x"), "a/b", from("github", "y"), "a.b", false},
		{bound("stripe", ""), "a/b", from("github", "x"), "a.b", false},
	} {
		x := newIndex([]entry{{Matched: Matched{ID: "a"}, scope: tt.bound, slots: slotsOf(writers{}, []string{tt.pattern},
			tt.bound)}})
		require.Equal(t, tt.matches, len(x.match(tt.event, []string{tt.kind})) == 1, "%+v", tt)
		sub := Subscription{EventTypes: []string{tt.pattern}, ProviderConfigKey: tt.bound.providerConfigKey,
			ConnectionID: tt.bound.connectionID}
		found := sub.Explain(eventtypes.RulesOf(writers{}, tt.event.providerConfigKey), tt.event.providerConfigKey,
			tt.event.connectionID, tt.kind)
		require.Equal(t, tt.matches, found.Failed == "", "%+v", tt)
		if tt.matches {
			require.Equal(t, tt.pattern, found.Pattern, "the pattern is shown as it is written")
		}
		x.set("a", nil)
		require.Equal(t, newIndex(nil), x, "nothing is left of it")
	}
}
