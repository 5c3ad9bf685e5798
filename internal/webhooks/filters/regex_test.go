package filters

import (
	"fmt"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The estimate decides whether a pattern is compiled at all, so it must not refuse one that is small enough, and must
// see that one is far too large.
func TestEstimateOfPatterns(t *testing.T) {
	t.Parallel()
	atoms := rapid.SampledFrom([]string{"a", "bc", "[a-z]", ".", `\d+`, "x*", "(?i)k", "^", `\b`, "y?", "", "é{3}"})
	var build func(depth int) *rapid.Generator[string]
	build = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			if depth == 0 {
				return atoms.Draw(t, "atom")
			}
			sub := build(depth - 1)
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return "(" + sub.Draw(t, "one") + "|" + sub.Draw(t, "other") + ")"
			case 1:
				return "(?:" + sub.Draw(t, "repeated") + ")" + rapid.SampledFrom([]string{"{1,20}", "{3}", "{2,}", "{0,9}", "+"}).
					Draw(t, "times")
			case 2:
				return "(" + sub.Draw(t, "part") + ")" + sub.Draw(t, "next")
			default:
				return sub.Draw(t, "same")
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		text := build(rapid.IntRange(0, 4).Draw(t, "depth")).Draw(t, "pattern")
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			t.Skip("not a pattern")
		}
		estimate := estimateSize(parsed)
		program, err := syntax.Compile(parsed.Simplify())
		require.NoError(t, err)
		size := len(program.Inst)
		if size <= maxPattern {
			require.LessOrEqual(t, estimate, 4*maxPattern, text)
		}
		require.LessOrEqual(t, size, 4*estimate+8, text)
	})
}

// A filter of a few thousand characters cannot make the gateway compile for seconds: neither a pattern that grows when
// its repetitions are written out, nor many that are just small enough. A filter that is stored already is evaluated
// all the same.
func TestPatternsOfAFilterAreBounded(t *testing.T) {
	t.Parallel()
	many := func(pattern string) string {
		calls := make([]string, 60)
		for i := range calls {
			calls[i] = fmt.Sprintf(`event.type.matches("%s%d")`, pattern, i)
		}
		return strings.Join(calls, "||")
	}
	for pattern, want := range map[string]string{
		"((a{1,30}){1,30}){1,30}": "the pattern is not a regular expression (RE2)",
		"(a{1,30}){1,30}":         "the pattern is too large: it compiles to more than 1000 instructions",
		"(a{1,20}){1,20}": "the patterns of the filter are too large together: they compile to more than 10000 " +
			"instructions",
	} {
		violations := Check(many(pattern))
		require.NotEmpty(t, violations)
		last := violations[len(violations)-1]
		require.Equal(t, rulePattern, last.Rule)
		require.Contains(t, last.Message, want)
	}
	stored, violations := compile(many("(a{1,20}){1,20}"), 1<<30)
	require.Empty(t, violations)
	require.NotNil(t, stored)
	require.Empty(t, Check(many("a{1,20}")))
}
