package subscriptions

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/id"
)

// Promise: what an explanation says of a subscription is what matching did: the two never disagree, whatever the scopes,
// patterns and types.
func TestExplanationsAgreeWithMatching(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b"})
		key := rapid.SampledFrom([]string{"", "github", "stripe"})
		connection := rapid.SampledFrom([]string{"", "x", "y"})
		pattern := rapid.SampledFrom([]string{"*", "a", "a.*", "a.b", "*.b", "b.*.a"})
		sub := Subscription{ID: id.New(id.PrefixSubscription), ProviderConfigKey: key.Draw(rt, "key"), ConnectionID: connection.Draw(rt, "connection"),
			EventTypes: rapid.SliceOfN(pattern, 1, 3).Draw(rt, "patterns"), Enabled: true}
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
