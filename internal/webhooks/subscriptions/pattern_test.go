package subscriptions

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The meaning of patterns is documented, and subscribers rely on every line of it.
func TestPatternMatches(t *testing.T) {
	t.Parallel()
	for pattern, cases := range map[string]struct{ match, miss []string }{
		"*":     {match: []string{"issue", "issue.created", "a.b.c", "unknown", ""}},
		"issue": {match: []string{"issue"}, miss: []string{"issue.created", "Issue", "issues", ""}},
		"issue.*": {match: []string{"issue.created", "issue.comment.created"},
			miss: []string{"issue", "issues.created", "Issue.created"}},
		"issue.*.created": {match: []string{"issue.comment.created", "issue.*.created"}, miss: []string{"issue.created",
			"issue.a.b.created", "issue.comment"}},
		"*.created":         {match: []string{"issue.created"}, miss: []string{"created", "issue.comment.created"}},
		"*.*":               {match: []string{"a.b", "a.b.c"}, miss: []string{"a"}},
		"a.*.*":             {match: []string{"a.b.c", "a.b.c.d"}, miss: []string{"a.b", "a"}},
		"orders/create:v-1": {match: []string{"orders/create:v-1"}, miss: []string{"orders/create"}},
	} {
		p, err := ParsePattern(pattern)
		require.NoError(t, err, pattern)
		for _, eventType := range cases.match {
			require.True(t, p.Matches(eventType), "%q should match %q", pattern, eventType)
		}
		for _, eventType := range cases.miss {
			require.False(t, p.Matches(eventType), "%q should not match %q", pattern, eventType)
		}
	}
}

// A pattern that could be understood in two ways is refused with the rule it breaks.
func TestParsePatternRefuses(t *testing.T) {
	t.Parallel()
	for text, rule := range map[string]string{
		"": "min_length", strings.Repeat("é", 257): "max_length",
		"issue*": "pattern", "*issue.a": "pattern", "a.**": "pattern", "a..b": "pattern", ".a": "pattern", "a.": "pattern",
		".": "pattern", "a b": "pattern", "a\tb": "pattern", "a\x00": "pattern", "a\u00a0b": "pattern", "a\xff": "pattern",
	} {
		_, err := ParsePattern(text)
		var violation *PatternError
		require.ErrorAs(t, err, &violation, "%q", text)
		require.Equal(t, rule, violation.Rule, "%q", text)
	}
	_, err := ParsePattern(strings.Repeat("é", 256))
	require.NoError(t, err)
}

// The parser gives back every pattern that it accepts, matches what it stands for, and fails with nothing but its own
// error.
func FuzzParsePattern(f *testing.F) {
	for _, seed := range []string{"*", "a.*", "a.*.b", "*.*", "a", "a..b", "a*", ".", "é.*", "a\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePattern(text)
		if err != nil {
			var violation *PatternError
			if !errors.As(err, &violation) {
				t.Fatalf("foreign error %v", err)
			}
			return
		}
		if p.String() != text {
			t.Fatalf("%q became %q", text, p.String())
		}
		if !p.Matches(strings.ReplaceAll(text, "*", "x")) || !p.Matches(text) {
			t.Fatalf("%q does not match what it stands for", text)
		}
		if p.tail != p.Matches(text+".more") {
			t.Fatalf("%q treats a further segment as if it had no tail, or one too many", text)
		}
		if got := newIndex([]entry{{slots: []slot{{pattern: p}}}}).match(scope{}, []string{text}); len(got) != 1 {
			t.Fatalf("the index finds %d of %q", len(got), text)
		}
	})
}

// The index finds exactly what the definition of matching says, for any subscriptions and any event: a wrong result
// here would lose events or send them to strangers.
func TestIndexEqualsDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b", "c", "*"})
		pattern := rapid.Map(rapid.SliceOfN(segment, 1, 4), func(s []string) string { return strings.Join(s, ".") })
		eventType := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "*", ""}), 1, 5),
			func(s []string) string { return strings.Join(s, ".") })
		keys, connections := rapid.SampledFrom([]string{"", "github", "slack"}), rapid.SampledFrom([]string{"", "c1", "c2"})
		var entries []entry
		for i := range rapid.IntRange(0, 12).Draw(t, "subscriptions") {
			e := entry{
				Matched: Matched{ID: "sub_" + string(rune('a'+i)), Enabled: rapid.Bool().Draw(t, "enabled")},
				scope:   bound(keys.Draw(t, "key"), connections.Draw(t, "connection")),
			}
			for _, text := range rapid.SliceOfN(pattern, 1, 4).Draw(t, "patterns") {
				p, err := ParsePattern(text)
				require.NoError(t, err)
				e.slots = append(e.slots, slot{p, e.scope})
			}
			entries = append(entries, e)
		}
		event := from(rapid.SampledFrom([]string{"github", "slack", "stripe"}).Draw(t, "event key"),
			rapid.SampledFrom([]string{"c1", "c2", "c3"}).Draw(t, "event connection"))
		types := rapid.SliceOfN(eventType, 0, 3).Draw(t, "types")
		require.Equal(t, naive(entries, event, types), newIndex(entries).match(event, types))
	})
}

// naive is the definition: a subscription matches when its scope does and any pattern matches any type.
func naive(entries []entry, event scope, types []string) []Matched {
	out := []Matched{}
	for _, e := range entries {
		if e.scope.providerConfigKey != "" && e.scope.providerConfigKey != event.providerConfigKey ||
			e.scope.connectionID != "" && e.scope.connectionID != event.connectionID {
			continue
		}
		if matchesAny(e.slots, types) {
			out = append(out, e.Matched)
		}
	}
	return out
}

func matchesAny(slots []slot, types []string) bool {
	for _, s := range slots {
		for _, t := range types {
			if s.pattern.Matches(t) {
				return true
			}
		}
	}
	return false
}

// Without knowing the providers only that is refused of which no rules could make a pattern.
func TestPatternViolation(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"*", "a.b", "a/b", "a/*", "Push Hook", "#a.*", "a:b.*/c", "*-x"} {
		require.Nil(t, PatternViolation(text), text)
	}
	for _, text := range []string{"", "a*", "a.*b", "**", "a..b", ".", "a.", "a/\n*", "a\t*", strings.Repeat("/", 300)} {
		require.NotNil(t, PatternViolation(text), text)
	}
}

// Two patterns overlap exactly if some type matches both.
func TestOverlaps(t *testing.T) {
	t.Parallel()
	var types []string
	for _, a := range []string{"a", "b"} {
		types = append(types, a)
		for _, b := range []string{"a", "b"} {
			types = append(types, a+"."+b, a+"."+b+".a", a+"."+b+".b", a+"."+b+".a.a")
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		segment := rapid.SampledFrom([]string{"a", "b", "*"})
		pattern := rapid.Map(rapid.SliceOfN(segment, 1, 3), func(s []string) string { return strings.Join(s, ".") })
		one, err := ParsePattern(pattern.Draw(rt, "one"))
		require.NoError(rt, err)
		other, err := ParsePattern(pattern.Draw(rt, "other"))
		require.NoError(rt, err)
		some := slices.ContainsFunc(types, func(kind string) bool { return one.Matches(kind) && other.Matches(kind) })
		require.Equal(rt, some, one.overlaps(other), "%s %s", one, other)
		require.Equal(rt, some, other.overlaps(one))
	})
}
