package samples

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

//nolint:gochecknoglobals // flags are global
var update = flag.Bool("update", false, "write the golden files")

// The programs are what readers copy: each kind of request, in each language, is as it stands in testdata.
func TestGolden(t *testing.T) {
	t.Parallel()
	cases := map[string]Request{
		"list":   {Method: "GET", Path: "/api/v1/webhook-events", Credential: Key},
		"create": {Method: "POST", Path: "/api/v1/things", Credential: UserInEnvironment, Body: json.RawMessage(quotes)},
		"stream": {Method: "GET", Path: "/api/v1/webhook-events/stream?a=b&c=d", Credential: Key, Stream: true},
		"delete": {Method: "DELETE", Path: "/api/v1/team/members/usr_1", Credential: User},
		"login": {Method: "POST", Path: "/api/v1/team/login",
			Body: json.RawMessage(`{"email": "ada@example.test", "password": "x"}`)},
		"pause": {Method: "POST", Path: "/api/v1/webhook-replays/rpl_1/pause", Credential: Key},
	}
	for name, r := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			for _, s := range Of(r) {
				b.WriteString("=== " + s.Label + "\n" + s.Source)
			}
			path := filepath.Join("testdata", name+".txt")
			if *update {
				require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String())
		})
	}
}

// quotes has every kind of value, and text that has to be escaped.
const quotes = `{"z": "it's \"quoted\" \\ with ` + "`ticks`" + `, ${x} and ü\n", "a": [1, 2.50, true, false, null], ` +
	`"empty": {}, "none": [], "deep": [{"b": {"c": [[]]}}], ` +
	`"long": ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "b"]}`

// The body in a program is the body of the example: formatting keeps its values, and the order of its members.
func TestBodiesKeepTheirValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(value(4).Draw(t, "value"))
		require.NoError(t, err)
		require.JSONEq(t, string(text), indented(text, "  "))
	})
	require.Equal(t, "{\n  \"z\": 1,\n  \"a\": 2\n}", indented(json.RawMessage(`{"z":1,"a":2}`), "  "))
}

func value(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{rapid.String().AsAny(), rapid.Int32().AsAny(), rapid.Bool().AsAny(),
		rapid.Just[any](nil)}
	if depth == 0 {
		return rapid.OneOf(scalars...)
	}
	return rapid.OneOf(append(scalars, rapid.SliceOfN(value(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(rapid.String(), value(depth-1), 0, 4).AsAny())...)
}
