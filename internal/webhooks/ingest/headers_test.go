package ingest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/events"
)

// nested is a JSON text of the depth, inside which stands the innermost text.
func nested(depth int, open, innermost string) string {
	closing := map[string]string{"[": "]", `{"a":`: "}"}[open]
	return strings.Repeat(open, depth) + innermost + strings.Repeat(closing, depth)
}

// JSON nested deeper than parsers commonly go is shown as text: in an envelope or a response it would break the
// reader's parser. Width, and brackets in strings, are no depth.
func TestEncodingOfNestedJSON(t *testing.T) {
	t.Parallel()
	const list, member = "[", `{"a":`
	for name, c := range map[string]struct {
		body string
		want events.Encoding
	}{
		"lists as deep as is shown":   {nested(512, list, ""), events.JSON},
		"lists one deeper":            {nested(513, list, ""), events.Text},
		"objects as deep as is shown": {nested(512, member, "1"), events.JSON},
		"objects one deeper":          {nested(513, member, "1"), events.Text},
		"both":                        {nested(256, list, nested(256, member, "[]")), events.Text},
		"far too deep":                {nested(100_000, list, ""), events.Text},
		"too deep for a parser of Go": {nested(10_001, list, ""), events.Text},
		"wide":                        {"[" + strings.Repeat("[{}],", 5000) + "[]]", events.JSON},
		"brackets in a string":        {`["` + strings.Repeat("[{", 5000) + `"]`, events.JSON},
		"a quote in a string":         {`["\"` + strings.Repeat("[{", 5000) + `\\"]`, events.JSON},
		"an escape before the end":    {`["\\",` + nested(511, list, "") + "]", events.JSON},
		"deep after a string":         {`["\\",` + nested(512, list, "") + "]", events.Text},
		"deep after closing":          {"[" + strings.Repeat("[],", 600) + nested(512, list, "") + "]", events.Text},
		"deep and not JSON":           {strings.Repeat("[", 600), events.Text},
	} {
		require.Equal(t, c.want, encodingOf("application/json", []byte(c.body)), name)
		require.Equal(t, c.want, encodingOf("", []byte(c.body)), name)
	}
}

// The depth is the one that a JSON parser counts, for any JSON.
func TestIsNestedDeeper(t *testing.T) {
	t.Parallel()
	leaf := rapid.OneOf(
		rapid.Map(rapid.StringOf(rapid.RuneFrom([]rune(`[]{}"\ab`))), func(s string) any { return s }),
		rapid.Just[any](1), rapid.Just[any](nil),
	)
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		if depth == 0 {
			return leaf
		}
		inner := rapid.Deferred(func() *rapid.Generator[any] { return value(depth - 1) })
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(inner, 0, 3), func(v []any) any { return v }),
			rapid.Map(rapid.MapOfN(rapid.StringOf(rapid.RuneFrom([]rune(`[{"\`))), inner, 0, 3), func(v map[string]any) any {
				return v
			}))
	}
	rapid.Check(t, func(rt *rapid.T) {
		v := value(6).Draw(rt, "value")
		text, err := json.Marshal(v)
		require.NoError(rt, err)
		deep := depthOf(v)
		for most := range 8 {
			require.Equal(rt, deep > most, isNestedDeeper(text, most), "%s", text)
		}
	})
}

func depthOf(v any) int {
	deepest := 0
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			deepest = max(deepest, depthOf(inner))
		}
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, depthOf(inner))
		}
	default:
		return 0
	}
	return deepest + 1
}

// Text that is stored of a request without an encoder is the JSON that an encoder writes, with any text in it.
func TestStoredTextIsJSON(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(rapid.StringMatching(`[ -~]{0,12}`), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		result := verification.Result{Scheme: text.Draw(t, "scheme"), KeyID: text.Draw(t, "key"),
			Verified: rapid.Bool().Draw(t, "verified")}
		var read map[string]string
		require.NoError(t, json.Unmarshal([]byte(describeVerification(result)), &read))
		require.Equal(t, map[string]string{"result": map[bool]string{true: "verified", false: "unverified"}[result.Verified],
			"scheme": strings.ToValidUTF8(result.Scheme, "\ufffd"), "key_id": strings.ToValidUTF8(result.KeyID, "\ufffd")}, read)

		name := rapid.StringMatching(`[!#-'*+.0-9A-Z^_a-z|~-]{1,80}`).Draw(t, "name")
		value := rapid.StringMatching(`[ -~]{0,12}`).Draw(t, "value")
		read = nil
		stored, _ := storedHeaders(http.Header{name: {value}}, &headerRules{})
		require.NoError(t, json.Unmarshal([]byte(stored), &read))
		lower := strings.ToLower(name)
		if !hopByHop(name) && !events.LooksLikeCredential(lower) && !events.IsCredential(lower) {
			require.Equal(t, map[string]string{strings.ToLower(name): value}, read)
		}
	})
}
