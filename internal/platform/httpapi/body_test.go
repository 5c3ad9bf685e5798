package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/danielgtaylor/huma/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A string is Unicode if, and only if, its code units survive decoding, for any surroundings of the escapes.
func TestIsUnicode(t *testing.T) {
	t.Parallel()
	unit := rapid.OneOf(rapid.Uint16Range(0xd800, 0xdfff),
		rapid.SampledFrom([]uint16{'a', '\\', 'u', '"', 0, 0xfffd, 0xffff}))
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SliceOfN(unit, 0, 8).Draw(t, "units")
		var b strings.Builder
		b.WriteByte('"')
		for _, u := range units {
			switch u {
			case '\\':
				b.WriteString(`\\`)
			case 'a', 'u':
				b.WriteByte(byte(u))
			default:
				fmt.Fprintf(&b, rapid.SampledFrom([]string{`\u%04x`, `\u%04X`}).Draw(t, "case"), u)
			}
		}
		b.WriteByte('"')
		require.True(t, json.Valid([]byte(b.String())))
		require.Equal(t, slices.Equal(units, utf16.Encode(utf16.Decode(units))), isUnicode([]byte(b.String())), b.String())
	})
}

// A document written from values has no validation error where any value is allowed, and invalid JSON is left to the
// decoder.
func FuzzInspect(f *testing.F) {
	for _, seed := range []string{`{"a":[1,null,{"b":"\ud83d\ude00"}]}`, `{"a":1,"a":2}`, `"\ud800"`, `[`, `1e999`, "\xff",
		`"\`, `"\u`} {
		f.Add([]byte(seed))
	}
	registry := huma.NewMapRegistry("#/", huma.DefaultSchemaNamer)
	f.Fuzz(func(t *testing.T, body []byte) {
		violations := inspectBody(body, registry, nil)
		var v any
		if json.Unmarshal(body, &v) != nil {
			return
		}
		again, err := json.Marshal(v)
		require.NoError(t, err)
		require.Empty(t, inspectBody(again, registry, nil))
		if len(violations) == 0 {
			require.True(t, isUnicode(body), "what is no Unicode has a fault")
		}
	})
}
