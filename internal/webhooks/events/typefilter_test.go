package events_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// drawType returns a type of a few segments, among them what JSON, LIKE, GLOB and regular expressions could take for
// something else.
func drawType(rt *rapid.T) string {
	segment := rapid.OneOf(rapid.SampledFrom([]string{"a", "b", "A", "ä"}),
		rapid.SampledFrom([]string{"", "*", "_", "%", "?", "[a]", "a|b", "(a)", "a{1}", "^a", "a$", `\a`, `\d`, `"`, `","`,
			"'", "a b", "\n", "\t", "\u2028", "😀", "/a:-1", "null", "0"}))
	return strings.Join(rapid.SliceOfN(segment, 1, 5).Draw(rt, "segments"), ".")
}

// drawPattern returns a pattern that is near one of the types, or any other.
func drawPattern(rt *rapid.T, types []string) string {
	near := rapid.OneOf(rapid.SampledFrom(types), rapid.Custom(drawType))
	return rapid.Custom(func(rt *rapid.T) string {
		segments := strings.Split(near.Draw(rt, "near"), ".")
		segments = segments[:rapid.IntRange(1, len(segments)).Draw(rt, "kept")]
		for i := range segments {
			if rapid.Bool().Draw(rt, "wild") {
				segments[i] = "*"
			}
		}
		separator := rapid.SampledFrom([]string{".", ".", "/", "_"}).Draw(rt, "separator")
		if rapid.Bool().Draw(rt, "tail") {
			segments = append(segments, "*")
		}
		return strings.Join(segments, separator)
	}).Filter(func(p string) bool {
		return p != "" && subscriptions.TypeFilterViolation(p) == nil
	}).Draw(rt, "pattern")
}

// A list filters by type as subscriptions do: for any stored types and requested patterns it holds the events that the
// patterns' own matcher accepts, and no page leaves one out.
func TestTypesAgainstTheMatcher(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		s := newStore(store.DB)
		ctx := t.Context()
		rapid.Check(t, func(rt *rapid.T) {
			env := newEnvironment()
			types := rapid.SliceOfN(rapid.Custom(drawType), 1, 8).Draw(rt, "types")
			list := make([]events.NewEvent, len(types))
			for i := range list {
				list[i] = newEvent(env)
				list[i].Type = types[i]
				list[i].Provider = rapid.SampledFrom([]string{"github", "shopify", "other", events.OwnProvider}).Draw(rt,
					"provider")
				list[i].ProviderConfigKey = rapid.SampledFrom([]string{"github", "shopify", secondConfig, "other"}).Draw(rt,
					"key")
			}
			run(ctx, rt, store.DB, events.Insert(list)...)
			f := events.Filter{}
			for range rapid.IntRange(1, 3).Draw(rt, "patterns") {
				f.Types = append(f.Types, drawPattern(rt, types))
			}
			want := []string{}
			for _, e := range list {
				if slices.ContainsFunc(f.Types, func(p string) bool { return matchesType(p, &e.Event) }) {
					want = append(want, e.UUID)
				}
			}
			require.Equal(rt, want, walk(ctx, rt, s, env, f, true), "%q", f.Types)
		})
	})
}

// longestPattern is the greatest length of a pattern, in characters.
const longestPattern = 256

// The longest patterns that are accepted, as many as one query takes, stay within what the databases accept.
func TestLongestPatterns(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		env := newEnvironment()
		e := newEvent(env)
		e.Type = strings.TrimSuffix(strings.Repeat("a.", longestPattern/2), ".")
		run(t.Context(), t, store.DB, events.Insert([]events.NewEvent{e})...)
		const many = 50
		for last, want := range map[string]int{"*": 1, "b.*": 0} {
			var f events.Filter
			for i := range many {
				pattern := strings.Repeat("*.", i+1) + strings.Repeat("a.", (longestPattern-len("b.*"))/2-i-1) +
					last
				_, err := subscriptions.ParsePattern(pattern)
				require.NoError(t, err)
				f.Types = append(f.Types, pattern)
			}
			rows, _, err := newStore(store.DB).List(t.Context(), access.Whole(env), f, page.Request{Limit: 9})
			require.NoError(t, err)
			require.Len(t, rows, want)
		}
	})
}
