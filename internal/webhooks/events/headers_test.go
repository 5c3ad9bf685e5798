package events

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Headers read one by one are those of the JSON object that the event stores, with any text in them.
func TestEachHeader(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", `"`, `\`, `\"`, "a,b", "{}", "é\x7f<&>"}))
		want := rapid.MapOfN(text, text, 0, 5).Draw(rt, "headers")
		stored, err := json.Marshal(want)
		require.NoError(rt, err)
		got := map[string]string{}
		for name, value := range EachHeader(string(stored)) {
			require.True(rt, json.Valid([]byte(value)))
			got[name] = HeaderText(value)
		}
		var read map[string]string // as any other reader sees them
		require.NoError(rt, json.Unmarshal(stored, &read))
		require.Equal(rt, read, got)
	})
	for range EachHeader(`{"a":"1","b":"2"}`) {
		break // a caller may stop at any time
	}
}

// Text that is no object of texts gives the headers before the error, and never fails.
func FuzzEachHeader(f *testing.F) {
	for _, seed := range []string{"", "{", "{}", `{"a"`, `{"a":`, `{"a":"b`, `{"a":"b\`, `{"a":"b"`, `{"a":"b",`,
		`{"a":1}`, `{"a":"b","c":null}`, `{"\ud800":"\u00zz"}`, `[]`, `{"a":"b"}{"c":"d"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := maps.Collect(func(yield func(string, string) bool) {
			for name, value := range EachHeader(text) {
				_ = HeaderText(value)
				if !yield(name, value) {
					return
				}
			}
		})
		var whole map[string]any
		if json.Unmarshal([]byte(text), &whole) != nil || !utf8.ValidString(text) || strings.ContainsAny(text, " \t\r\n") {
			return // spaces between the parts occur in no stored object
		}
		for _, value := range whole {
			if _, ok := value.(string); !ok {
				return
			}
		}
		for name, value := range whole {
			require.Equal(t, value, HeaderText(found[name]))
		}
	})
}
