package eventtypes_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/eventtypes"
)

// providers are those of a source.
type providers []*eventtypes.Provider

func (p providers) EventTypes() []*eventtypes.Provider { return p }

// A type becomes that of events as the rules say: renamed as a whole, or else with dots for separators, and none at its
// ends.
func TestNormal(t *testing.T) {
	t.Parallel()
	rules := eventtypes.NewRules("/#", map[string]string{"Push Hook": "push", "a/b": "renamed"})
	for written, want := range map[string]string{
		"orders/create": "orders.create", "#Microsoft.Graph.Message.created": "Microsoft.Graph.Message.created",
		"Push Hook": "push", "a/b": "renamed", "a/b/": "a.b", "a.b": "a.b", "a:b": "a:b", "orders/*": "orders.*", "//": "",
		"": "", "a//b": "a..b",
	} {
		require.Equal(t, want, rules.Normal(written), written)
	}
	require.Equal(t, "a/b", eventtypes.Rules{}.Normal("a/b"))
}

// The forms of a text are itself and what providers write in another way, as far as they can be patterns.
func TestForms(t *testing.T) {
	t.Parallel()
	known := providers{{Slug: "bitbucket", Rules: eventtypes.NewRules(":", nil)}, {Slug: "github"},
		{Slug: "shopify", Rules: eventtypes.NewRules("/", nil)}}
	form := func(key, text string) eventtypes.Form { return eventtypes.Form{Provider: key, Text: text} }
	for text, want := range map[string][]eventtypes.Form{
		"a.b": {form("", "a.b")}, "a/b": {form("", "a/b"), form("shopify", "a.b")},
		"a/*": {form("shopify", "a.*")}, "a:*/b": nil, "a:*": {form("bitbucket", "a.*")}, "a*": nil,
		"a:b/c": {form("", "a:b/c"), form("bitbucket", "a.b/c"), form("shopify", "a:b.c")},
		"/":     {form("", "/")},
		"/*":    nil, "*/": nil, "/*/": nil, "//*": nil, "orders/*/": nil, "/*.b": nil, "*.": nil, "*": {form("", "*")},
		"/a/*": {form("shopify", "a.*")}, "*/b/": {form("shopify", "*.b")}, "*/*": {form("shopify", "*.*")},
		"a b.*": nil, "a b/*": nil, "a\u00a0b.*": nil, "a b": {form("", "a b")},
	} {
		require.Equal(t, want, eventtypes.Forms(known, text), text)
	}
	require.Equal(t, []eventtypes.Form{form("", "a/b")}, eventtypes.Forms(nil, "a/b"))
	require.Equal(t, "a.b", eventtypes.RulesOf(known, "shopify").Normal("a/b"))
	require.Equal(t, "a/b", eventtypes.RulesOf(known, "unknown").Normal("a/b"))
}

// A name that the rules change into the wildcard is no pattern for everything.
func TestFormsOfARenamedType(t *testing.T) {
	t.Parallel()
	known := providers{{Slug: "a", Rules: eventtypes.NewRules("", map[string]string{"all": "*", "a b": "c.*"})}}
	require.Equal(t, []eventtypes.Form{{Text: "all"}}, eventtypes.Forms(known, "all"))
	require.Equal(t, []eventtypes.Form{{Text: "a b"}, {Provider: "a", Text: "c.*"}}, eventtypes.Forms(known, "a b"))
}

// For any text and separators: a normal type stays as it is, no separator and no dot at an end is left, and a text
// that fits nowhere has no form.
func TestNormalIsStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		separators := rapid.StringOfN(rapid.RuneFrom([]rune("/:#-_")), 0, 3, -1).Draw(rt, "separators")
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab./:#-_*ä "))).Draw(rt, "text")
		rules := eventtypes.NewRules(separators, nil)
		normal := rules.Normal(text)
		require.Equal(rt, normal, rules.Normal(normal))
		if separators != "" && strings.ContainsAny(text, separators) {
			require.False(rt, strings.ContainsAny(normal, separators))
			require.Equal(rt, strings.Trim(normal, "."), normal)
		} else {
			require.Equal(rt, text, normal)
		}
		forms := eventtypes.Forms(providers{{Slug: "a", Rules: rules}}, text)
		if eventtypes.FitsNowhere(text) {
			require.Empty(rt, forms)
		}
		if strings.Contains(text, "*") {
			for _, f := range forms {
				require.Equal(rt, strings.HasPrefix(text, "*"), strings.HasPrefix(f.Text, "*"), "no form is wider")
				require.Equal(rt, strings.HasSuffix(text, "*"), strings.HasSuffix(f.Text, "*"), "no form is wider")
				for segment := range strings.SplitSeq(f.Text, ".") {
					require.True(rt, segment == "*" || segment != "" && !strings.Contains(segment, "*"))
				}
			}
		}
	})
}
