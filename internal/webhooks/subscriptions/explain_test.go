package subscriptions

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/id"
)

// An explanation of a subscription agrees with matching, for all scopes, patterns and types.
func TestExplanationsAgreeWithMatching(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b"})
		key := rapid.SampledFrom([]string{"", "github", "stripe"})
		connection := rapid.SampledFrom([]string{"", "x", "y"})
		pattern := rapid.SampledFrom([]string{"*", "a", "a.*", "a.b", "*.b", "b.*.a"})
		sub := Subscription{ID: id.New(id.PrefixSubscription), ProviderConfigKey: key.Draw(rt, "key"),
			ConnectionID: connection.Draw(rt, "connection"), EventTypes: rapid.SliceOfN(pattern, 1, 3).Draw(rt, "patterns"),
			Enabled: true}
		eventType := segment.Draw(rt, "type")
		for range rapid.IntRange(0, 2).Draw(rt, "segments") {
			eventType += "." + segment.Draw(rt, "segment")
		}
		eventKey := rapid.SampledFrom([]string{"github", "stripe"}).Draw(rt, "event key")
		eventConnection := rapid.SampledFrom([]string{"x", "y"}).Draw(rt, "event connection")

		e := entry{Matched: Matched{ID: sub.ID, Enabled: true}, scope: scope{sub.ProviderConfigKey, sub.ConnectionID}}
		for _, text := range sub.EventTypes {
			p, err := ParsePattern(text)
			require.NoError(rt, err)
			e.patterns = append(e.patterns, p)
		}
		matched := len(newIndex([]entry{e}).match(scope{eventKey, eventConnection}, []string{eventType})) == 1
		got := sub.Explain(eventKey, eventConnection, eventType)
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
		x := newIndex([]entry{{Matched: Matched{ID: "a"}, scope: scope{connectionID: "acme"}, patterns: []Pattern{p, p}}})
		require.Equal(t, takes, len(x.matchOwn(scope{"github", "acme"}, eventType)) == 1, pattern)
		require.Empty(t, x.matchOwn(scope{"github", "other"}, eventType), pattern)
		require.Equal(t, pattern[0] == 's', x.wantsOwn(), pattern)
		sub := Subscription{EventTypes: []string{pattern}}
		require.Equal(t, takes, sub.ExplainOwn("github", "acme", eventType).Failed == "", pattern)
		require.Equal(t, p.Matches(eventType), len(x.match(scope{"github", "acme"}, []string{eventType})) == 1,
			"a provider's event of that name")
	}
}
