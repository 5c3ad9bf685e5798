package etag_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/etag"
)

func parse(t *testing.T, values ...string) etag.Condition {
	t.Helper()
	c, err := etag.Parse(values)
	require.NoError(t, err, values)
	return c
}

// Tags are strong, differ with every part, and do not depend on where the parts are in memory.
func TestTags(t *testing.T) {
	t.Parallel()
	a, b := int64(7), int64(7)
	require.Equal(t, etag.Of("x", &a), etag.Of("x", &b))
	require.Regexp(t, `^"[A-Za-z0-9_-]{20}"$`, string(etag.Of("x")))
	seen := map[etag.Tag]bool{}
	for _, parts := range [][]any{{}, {"x"}, {"x", 1}, {"x1"}, {"x", "1"}, {nil}, {"x", nil}, {"x", &a}, {[]string{"x"}}} {
		require.False(t, seen[etag.Of(parts...)], parts)
		seen[etag.Of(parts...)] = true
	}
}

// A list matches any of its tags. Weak tags match only where the weak comparison applies.
func TestConditions(t *testing.T) {
	t.Parallel()
	tag := etag.Of("v1")
	for _, values := range [][]string{
		{string(tag)}, {`"other", ` + string(tag)}, {`"other"`, string(tag)}, {" \t" + string(tag) + "\t"},
		{`,, "a,b" ,` + string(tag) + `,`}, {"*"}, {" * "}, {"\"\x80\"", string(tag)},
	} {
		require.True(t, parse(t, values...).Matches(tag), values)
		require.True(t, parse(t, values...).MatchesWeakly(tag), values)
	}
	weak := parse(t, "W/"+string(tag))
	require.False(t, weak.Matches(tag))
	require.True(t, weak.MatchesWeakly(tag))
	require.False(t, parse(t, `"v1"`, `""`).MatchesWeakly(tag))
	require.NoError(t, etag.Check(t.Context(), tag), "a request without a condition")
	require.NoError(t, etag.Check(etag.WithIfMatch(t.Context(), parse(t, string(tag))), tag))
	err := etag.Check(etag.WithIfMatch(t.Context(), weak), tag)
	require.True(t, apperr.Is(err, apperr.CodePreconditionFailed), err)
}

// Anything else is a syntax error, and never a condition that silently matches nothing, or everything.
func TestMalformedConditions(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", ",", "v1", `"v1`, `v1"`, `"v1""v2"`, `"v1" "v2"`, `w/"v1"`, `W/ "v1"`, `W/v1`, `W/`, `*, "v1"`, `"v1", *`,
		"**", `'v1'`, "\"v 1\"", "\"v\x00\"", "\"v\x7f\"", `"v1"; "v2"`,
	} {
		_, err := etag.Parse([]string{text})
		require.ErrorIs(t, err, etag.ErrSyntax, "%q", text)
	}
	_, err := etag.Parse([]string{"*", "*"})
	require.ErrorIs(t, err, etag.ErrSyntax)
}

// A condition matches exactly the strong tags that it lists.
func TestListedTagsMatch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tags := rapid.SliceOfN(rapid.StringMatching(`"[!#-~]{0,6}"`), 1, 6).Draw(t, "tags")
		weak := rapid.SliceOfN(rapid.Bool(), len(tags), len(tags)).Draw(t, "weak")
		sent, strong := make([]string, len(tags)), map[string]bool{}
		for i, tag := range tags {
			if sent[i] = tag; weak[i] {
				sent[i] = "W/" + tag
			} else {
				strong[tag] = true
			}
		}
		separator := rapid.SampledFrom([]string{",", ", ", " ,\t", ",,"}).Draw(t, "separator")
		c, err := etag.Parse([]string{strings.Join(sent, separator)})
		if err != nil {
			t.Fatalf("%q: %v", sent, err)
		}
		for _, tag := range tags {
			if c.Matches(etag.Tag(tag)) != strong[tag] || !c.MatchesWeakly(etag.Tag(tag)) {
				t.Fatalf("%q does not match as it should in %q", tag, sent)
			}
		}
		if c.MatchesWeakly(etag.Of("not among them")) {
			t.Fatal("a tag that is not listed matches")
		}
	})
}

// No header makes the parser panic, and what it accepts consists of quoted tags only.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`"a"`, `W/"a", "b"`, "*", `"a`, `,"a",`, `W/`, "\"\xff\""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := etag.Parse([]string{text})
		if err == nil && strings.Trim(text, " \t") != "*" {
			require.Equal(t, 0, strings.Count(text, `"`)%2, "%q", text)
			require.False(t, c.Matches("unquoted"))
		}
	})
}
