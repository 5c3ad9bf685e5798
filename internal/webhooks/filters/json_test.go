package filters

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/stretchr/testify/require"
)

// sameJSON holds what filters see of a document to what encoding/json makes of it.
func sameJSON(t *testing.T, want any, got ref.Val) {
	t.Helper()
	switch want := want.(type) {
	case nil:
		require.Equal(t, types.NullValue, got)
	case bool:
		require.Equal(t, types.Bool(want), got)
	case string:
		require.Equal(t, types.String(want), got)
	case json.Number:
		if n, err := strconv.ParseInt(want.String(), 10, 64); err == nil {
			require.Equal(t, types.Int(n), got)
			return
		}
		f, err := want.Float64()
		if err != nil {
			require.True(t, math.IsInf(f, 0))
		}
		require.True(t, got == types.Double(f), "%v %v", f, got) //nolint:testifylint // the same double, to the bit
	case []any:
		list, ok := got.(traits.Lister)
		require.True(t, ok)
		require.Equal(t, types.Int(len(want)), list.Size())
		for i, item := range want {
			sameJSON(t, item, list.Get(types.Int(i)))
		}
	case map[string]any:
		object, ok := got.(traits.Mapper)
		require.True(t, ok)
		require.Equal(t, types.Int(len(want)), object.Size())
		for name, member := range want {
			value, found := object.Find(types.String(name))
			require.True(t, found, "%q", name)
			sameJSON(t, member, value)
		}
	default:
		require.Failf(t, "unexpected", "%T", want)
	}
}

// A filter sees every JSON document as encoding/json does, with any blanks, escapes and nesting.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `[]`, ` [ ] `, `""`, `"\\"`, `"\\\""`, `["\\","\"",",]}"]`,
		`{"a\"}":{"b":[1,-2.5e+3,1E400,9223372036854775807,9223372036854775808]}}`,
		"{\n\t\"a\" : [ { } , [ [ ] ] , null , true , false ] , \"a\" : 2 }", `{"\u00e9":"\ud83d\ude00\ud800","":0}`, `-0`,
		`1.0`, `"a:b,c"`, `{"a":{"a":{"a":"]"}},"b":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || !utf8.Valid(text) || len(text) > maxText {
			return
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		var want any
		require.NoError(t, d.Decode(&want))
		sameJSON(t, want, newDocument(text, nil).root.cel())
	})
}

// No filter and no body makes an evaluation panic, run away, or match after it has failed.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		`event.body.a == 1`, `event.body.exists(i, i.matches("a+"))`, `event.type in ["a"] && event.headers["x"] != ""`,
		`event.?body.?a.orValue(1) > 0.5`, `event.body.map(i, [i, i]).filter(j, j.size() > 1)[0] == [1, 1]`,
		`timestamp(event.body.t) < event.received_at + duration("1h")`, `((((true))))`, `"\x41" == 'A' && b"a" == b'a'`,
		`event.body.all(k, event.body[k] != null)`, `{"a": [event.body]}["a"][0] == event.body`,
		`string(event.body.a) + "b" == "1b"`,
	} {
		f.Add(seed, []byte(`{"a":1,"b":["a","aaa"],"t":"2030-01-31T12:00:00Z"}`))
		f.Add(seed, []byte(`[[1,2],"aab",3.5,null]`))
	}
	f.Fuzz(func(t *testing.T, text string, body []byte) {
		_, violations := compile(text, maxPatterns)
		if len(violations) > 0 {
			for _, violation := range violations {
				require.NotEmpty(t, violation.Rule)
				require.NotEmpty(t, violation.Message)
			}
			return
		}
		filter := New(text)
		e := &Event{Type: "a.b", Headers: `{"x":"y"}`}
		if json.Valid(body) && utf8.Valid(body) {
			e.Body = body
		}
		first := filter.Eval(e)
		if !strings.Contains(text, "{") { // the members of a map that the filter itself makes have no order
			require.Equal(t, first, filter.Eval(e))
		}
		if first.Failure != nil {
			require.False(t, first.Matches)
			return
		}
		require.LessOrEqual(t, first.Cost, uint64(MaxCost))
	})
}

// BenchmarkEval measures the cost of a filter for one event.
func BenchmarkEval(b *testing.B) {
	e := Event{Type: "issues.opened",
		Body: []byte(`{"action":"opened","issue":{"number":7,"labels":[{"name":"bug"},{"name":"ui"}]}}`)}
	for _, text := range []string{`event.type == "issues.opened"`, `event.body.action == "opened"`,
		`event.body.issue.labels.exists(l, l.name == "ui")`} {
		filter := New(text)
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				fresh := e
				filter.Eval(&fresh)
			}
		})
	}
}
