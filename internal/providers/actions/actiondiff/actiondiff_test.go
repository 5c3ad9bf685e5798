package actiondiff_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/actions/actiondiff"
	"sallyport/internal/providers/risk"
)

// input is an action with an input of some properties.
func input(properties string, required ...string) *actions.Action {
	names, err := json.Marshal(append([]string{}, required...))
	if err != nil {
		panic(err)
	}
	return &actions.Action{Name: "a", Method: "GET", Path: "/a", Call: risk.Call{Method: "GET", Path: "/a"},
		Input: json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":` + string(names) +
			`,"additionalProperties":false}`)}
}

func output(schema string) *actions.Action {
	a := input("")
	a.Output = json.RawMessage(schema)
	return a
}

func with(change func(*actions.Action)) *actions.Action {
	a := input("")
	change(a)
	return a
}

// lines are differences as text: "! kind at: from → to", with ! for a breaking one.
func lines(r actiondiff.Result) (out []string) {
	for _, d := range r.List {
		mark := "-"
		if d.Breaking {
			mark = "!"
		}
		out = append(out, fmt.Sprintf("%s %s %s: %s → %s", mark, d.Kind, d.At, d.From, d.To))
	}
	return out
}

// Each kind of difference is found, with the rule by which it is breaking: in both directions, because what one version
// takes away the way back gives again.
func TestDifferences(t *testing.T) {
	t.Parallel()
	link := func(items string, size int) *actions.Action {
		return with(func(a *actions.Action) {
			a.Pagination = &actions.Pagination{Type: actions.PagesByLink, Items: items, MaxSize: size}
		})
	}
	scoped := func(scopes ...[]string) *actions.Action { return with(func(a *actions.Action) { a.Scopes = scopes }) }
	request := func(method, path string) *actions.Action {
		return with(func(a *actions.Action) { a.Method, a.Path = method, path })
	}
	for name, c := range map[string]struct {
		before, after *actions.Action
		forth, back   []string
	}{
		"method": {request("GET", "/a"), request("PUT", "/a"), []string{"! request : GET /a → PUT /a"},
			[]string{"! request : PUT /a → GET /a"}},
		"the name of a parameter": {request("GET", "/a/{b}"), request("GET", "/a/{c}"),
			[]string{"- documentation :  → "}, []string{"- documentation :  → "}},
		"optional property": {input(""), input(`"a":{"type":"string"}`), []string{"- input_added /a:  → string"},
			[]string{"! input_removed /a: string → "}},
		"required property": {input(""), input(`"a":{"type":"string"}`, "a"),
			[]string{"! input_added /a:  → string, required"}, []string{"! input_removed /a: string → "}},
		"required": {input(`"a":{}`), input(`"a":{}`, "a"), []string{"! input_required /a:  → "},
			[]string{"- input_optional /a:  → "}},
		"type": {input(`"a":{"type":"string"}`), input(`"a":{"type":"integer"}`),
			[]string{"! input_type /a: string → integer"}, []string{"! input_type /a: integer → string"}},
		"wider type": {input(`"a":{"type":"integer"}`), input(`"a":{"type":["null","number"]}`),
			[]string{"- input_type /a: integer → null or number"}, []string{"! input_type /a: null or number → integer"}},
		"any type": {input(`"a":{"type":"integer"}`), input(`"a":{}`), []string{"- input_type /a: integer → any"},
			[]string{"! input_type /a: any → integer"}},
		"values": {input(`"a":{"enum":["x","y",1]}`), input(`"a":{"enum":["y","z",1]}`),
			[]string{`! input_enum /a: "x" → "z"`}, []string{`! input_enum /a: "z" → "x"`}},
		"more values": {input(`"a":{"enum":["x"]}`), input(`"a":{"enum":["x","y"]}`), []string{`- input_enum /a:  → "y"`},
			[]string{`! input_enum /a: "y" → `}},
		"any value": {input(`"a":{"const":"x"}`), input(`"a":{}`), []string{`- input_enum /a: "x" → `},
			[]string{`! input_enum /a:  → "x"`}},
		"upper bound": {input(`"a":{"maximum":10}`), input(`"a":{"maximum":1e2}`),
			[]string{"- input_constraint /a: maximum 10 → maximum 100"},
			[]string{"! input_constraint /a: maximum 100 → maximum 10"}},
		"lower bound": {input(`"a":{}`), input(`"a":{"minLength":3}`), []string{"! input_constraint /a:  → minLength 3"},
			[]string{"- input_constraint /a: minLength 3 → "}},
		"pattern": {input(`"a":{}`), input(`"a":{"pattern":"^x"}`), []string{"! input_constraint /a:  → pattern ^x"},
			[]string{"- input_constraint /a: pattern ^x → "}},
		"nested": {input(`"a/b":{"type":"array","items":{"properties":{"~c":{"type":"string"}}}}`),
			input(`"a/b":{"type":"array","items":{"properties":{"~c":{"type":"null"}}}}`),
			[]string{"! input_type /a~1b/*/~0c: string → null"}, []string{"! input_type /a~1b/*/~0c: null → string"}},
		"open": {input(`"a":{"additionalProperties":false}`), input(`"a":{}`), []string{"- input_type /a/*: false → true"},
			[]string{"! input_type /a/*: true → false"}},
		"alternatives": {input(`"a":{"anyOf":[{"type":"string"}]}`),
			input(`"a":{"anyOf":[{"type":"string"},{"type":"null"}]}`),
			[]string{"- input_type /a: anyOf of 1 schemas → anyOf of 2 schemas"},
			[]string{"! input_type /a: anyOf of 2 schemas → anyOf of 1 schemas"}},
		"a place": {with(func(a *actions.Action) {
			a.Parameters = []actions.Parameter{{Property: "x", Name: "x", Place: actions.InQuery}}
		}), with(func(a *actions.Action) {
			a.Parameters = []actions.Parameter{{Property: "x", Name: "y", Place: actions.InBody}}
		}), []string{"- input_moved /x: query x → body y"}, []string{"- input_moved /x: body y → query x"}},
		"body": {with(func(a *actions.Action) { a.Body.ContentType = "application/json" }),
			with(func(a *actions.Action) { a.Body = actions.Body{ContentType: "application/json", Required: true} }),
			[]string{"! body : application/json → application/json, required"},
			[]string{"- body : application/json, required → application/json"}},
		"result": {output(`{"properties":{"a":{"type":"string"}}}`), output(`{"properties":{}}`),
			[]string{"! output_removed /a: string → "}, []string{"- output_added /a:  → string"}},
		"certain result": {output(`{"properties":{"a":{}},"required":["a"]}`), output(`{"properties":{"a":{}}}`),
			[]string{"! output_optional /a:  → "}, []string{"- output_required /a:  → "}},
		"type of a result": {output(`{"type":"integer"}`), output(`{"type":["integer","null"]}`),
			[]string{"! output_type : integer → integer or null"}, []string{"- output_type : integer or null → integer"}},
		"values of a result": {output(`{"enum":["a"]}`), output(`{"enum":["b"]}`), []string{`- output_enum : "a" → "b"`},
			[]string{`- output_enum : "b" → "a"`}},
		"known result": {output(""), output("{}"), []string{"- output_added :  → "}, []string{"! output_removed :  → "}},
		"definition": {output(`{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"a":{"$ref":"#/$defs/A"},"b":{}}}}}`),
			output(`{"$ref":"#/$defs/A","$defs":{"A":{"properties":{"a":{"$ref":"#/$defs/A"}}}}}`),
			[]string{"! output_removed /b: any → "}, []string{"- output_added /b:  → any"}},
		"renamed definition": {output(`{"properties":{"x":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"string"}}}`),
			output(`{"properties":{"x":{"$ref":"#/$defs/B"}},"$defs":{"B":{"type":"string"}}}`),
			[]string{"- documentation :  → "}, []string{"- documentation :  → "}},
		"scopes": {scoped([]string{"read"}), scoped([]string{"write"}), []string{"! scopes : read → write"},
			[]string{"! scopes : write → read"}},
		"more alternatives": {scoped([]string{"read"}), scoped([]string{"read"}, []string{"all"}),
			[]string{"- scopes : read → all or read"}, []string{"! scopes : all or read → read"}},
		"first scope": {scoped(), scoped([]string{"read"}), []string{"! scopes :  → read"}, []string{"- scopes : read → "}},
		"order of scopes": {scoped([]string{"a", "b"}, []string{"c"}), scoped([]string{"c"}, []string{"b", "a"}),
			[]string{"- documentation :  → "}, []string{"- documentation :  → "}},
		"pages": {link("/a", 0), link("/b", 0), []string{`! pagination : {"type":"link","items":"/a"} → ` +
			`{"type":"link","items":"/b"}`}, []string{`! pagination : {"type":"link","items":"/b"} → ` +
			`{"type":"link","items":"/a"}`}},
		"smaller pages": {link("", 100), link("", 50), []string{
			`! pagination : {"type":"link","items":"","max_size":100} → ` +
				`{"type":"link","items":"","max_size":50}`}, []string{
			`- pagination : {"type":"link","items":"","max_size":50} → {"type":"link","items":"","max_size":100}`}},
		"key": {with(func(a *actions.Action) { a.Idempotency = &actions.Idempotency{Header: "Idempotency-Key"} }), input(""),
			[]string{"! idempotency : Idempotency-Key → "}, []string{"- idempotency :  → Idempotency-Key"}},
		"deprecation": {input(""), with(func(a *actions.Action) { a.Deprecated = true }),
			[]string{"- deprecation : in use → deprecated"}, []string{"- deprecation : deprecated → in use"}},
		"text": {input(""), with(func(a *actions.Action) { a.Title = "A" }), []string{"- documentation :  → "},
			[]string{"- documentation :  → "}},
		"text in a schema": {input(`"a":{"description":"x"}`), input(`"a":{"description":"y"}`),
			[]string{"- documentation :  → "}, []string{"- documentation :  → "}},
	} {
		require.Equal(t, c.forth, lines(actiondiff.Compare(c.before, c.after)), name)
		require.Equal(t, c.back, lines(actiondiff.Compare(c.after, c.before)), name+", back")
		require.Empty(t, actiondiff.Compare(c.before, c.before), name)
	}
}

// A risk is compared with its operation and flags, and says why it is as it is. It alone is not breaking.
func TestRiskDiffers(t *testing.T) {
	t.Parallel()
	after := input("")
	after.Call.Path = "/a.remove"
	r := actiondiff.Compare(input(""), after)
	require.Equal(t, []string{"- risk : low (read, idempotent) → high (delete, destructive)"}, lines(r))
	require.Contains(t, r.List[0].Reasons[0], "“remove” in its name or path")
	require.False(t, r.Breaking)
}

// Lists are short, with the breaking differences first; a schema that refers to itself, or that is very large, ends.
func TestDifferencesAreBounded(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 3 * actiondiff.Max {
		fmt.Fprintf(&many, `"p%03d":{"type":"string"},`, i)
	}
	before := input(many.String() + `"z":{"type":"string"}`)
	after := input(`"z":{"type":"string","enum":["` + strings.Repeat("ü", 1000) + `"]}`)
	r := actiondiff.Compare(after, before)
	require.Len(t, r.List, actiondiff.Max)
	require.Equal(t, 3*actiondiff.Max+1, r.Count)
	require.False(t, r.Breaking)
	r = actiondiff.Compare(before, after)
	require.True(t, r.Breaking)
	for _, d := range r.List {
		require.True(t, d.Breaking)
		require.LessOrEqual(t, len(d.To), 200)
	}
	r = actiondiff.Compare(input(`"z":{"type":"string"}`), after)
	require.True(t, strings.HasSuffix(r.List[0].To, "ü…"), r.List[0].To)

	deep := func(leaf string) *actions.Action {
		return input(`"a":` + strings.Repeat(`{"properties":{"a":`, 100) + leaf + strings.Repeat("}}", 100))
	}
	r = actiondiff.Compare(deep(`{"type":"string"}`), deep(`{"type":"null"}`))
	require.Equal(t, []string{"! input_type : a schema that is too large to compare → another one"}, lines(r))

	circle := func(name string) *actions.Action {
		return input(`"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"},"` + name + `":{}`)
	}
	require.Equal(t, []string{"- documentation :  → "}, lines(actiondiff.Compare(circle("C"), circle("D"))))
}

// Two actions that differ have a difference, equal ones have none, and the result does not depend on chance.
func TestSomethingDiffers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(label string) *actions.Action {
			schema := rapid.SampledFrom([]string{`{}`, `true`, `false`, `{"type":"object","required":["a"]}`,
				`{"$ref":"#"}`, `{"properties":{"a":{"$ref":"#"}}}`,
				`{"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"type":"null"}}}`,
				`{"items":false}`, `{"not":{"type":"null"},"enum":[null,1e999]}`})
			return &actions.Action{Name: "a", Method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(rt, label+" method"),
				Path:  rapid.SampledFrom([]string{"", "/{a", "/{a}/}"}).Draw(rt, label+" path"),
				Input: json.RawMessage(schema.Draw(rt, label+" input")), Output: json.RawMessage(schema.Draw(rt, label+" output"))}
		}
		before, after := draw("before"), draw("after")
		one, err := before.Encode()
		require.NoError(rt, err)
		two, err := after.Encode()
		require.NoError(rt, err)
		r := actiondiff.Compare(before, after)
		require.Equal(rt, string(one) == string(two), r.Count == 0)
		require.Equal(rt, r, actiondiff.Compare(before, after))
		for _, d := range r.List {
			require.False(rt, d.Breaking && !r.Breaking)
		}
	})
}
