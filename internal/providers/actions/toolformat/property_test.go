package toolformat_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/providers/actions/toolformat"
)

type object = map[string]any

// schemas draws schemas of the kinds that documents have. With all, they have keywords too that only JSON Schema has.
type schemas struct {
	t   *rapid.T
	all bool
}

func (s schemas) coin(label string) bool { return rapid.Bool().Draw(s.t, label) }

func (s schemas) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(s.t, label) }

func (s schemas) schema(depth int) object {
	kinds := 5
	if depth > 0 {
		kinds = 10
	}
	var out object
	switch s.pick("kind", kinds) {
	case 0:
		out = object{"type": "string"}
		switch s.pick("string", 4) {
		case 0:
			out["enum"] = []any{"a", "b", "c"}
		case 1:
			out["pattern"] = "^[ab]+$"
		case 2:
			if s.all {
				out["minLength"], out["maxLength"] = 1, 3
			}
		}
	case 1:
		out = object{"type": "integer", "minimum": s.pick("minimum", 3), "maximum": 5}
		if s.all && s.coin("multiple") {
			out["multipleOf"], out["exclusiveMinimum"] = 2, 1
		}
	case 2:
		out = object{"type": "number"}
	case 3:
		out = object{"type": "boolean"}
	case 4:
		if out = (object{"const": "x"}); s.all && s.coin("numbers") {
			out = object{"enum": []any{1, "x", nil}}
		}
	case 5:
		out = object{"type": "array", "items": s.schema(depth - 1)}
		if s.all && s.coin("items") { // Gemini has no bounds of arrays of arrays and objects
			out["minItems"] = 1
		}
		if s.all && s.coin("unique") {
			out["uniqueItems"] = true
		}
	case 6:
		out = object{"$ref": "#/$defs/" + []string{"A", "B"}[s.pick("ref", 2)]}
	case 7:
		out = object{"allOf": []any{s.object(depth - 1), s.object(depth - 1)}}
		if s.coin("described") {
			out = object{"allOf": []any{object{"$ref": "#/$defs/A"}}, "description": "An A."}
		}
	case 8:
		out = object{"anyOf": []any{s.schema(depth - 1), s.schema(depth - 1)}}
		if s.all && s.coin("exactly") {
			out = object{"oneOf": []any{s.schema(depth - 1), s.schema(depth - 1)}}
		}
		if s.all && s.coin("not") {
			out["not"] = s.schema(0)
		}
	default:
		out = s.object(depth - 1)
	}
	if kind, ok := out["type"].(string); ok && out["enum"] == nil && s.coin("nullable") {
		out["type"] = []any{kind, "null"}
	}
	return out
}

// object draws a schema of objects with at least one property that is required.
func (s schemas) object(depth int) object {
	properties := object{}
	required := []any{}
	for _, name := range []string{"a", "b", "$c d"} {
		if len(properties) > 0 && s.coin("absent") {
			continue
		}
		one := s.schema(depth)
		properties[name] = one
		if s.coin("required") {
			required = append(required, name)
			if kinds, ok := one["type"].([]any); ok && !s.all {
				one["type"] = kinds[0]
			}
		}
	}
	// Where null is a value it is one in all alternatives: else null alone does not say which of them is meant.
	if s.coin("null") {
		properties["n"] = object{"type": []any{"integer", "null"}}
		required = append(required, "n")
	}
	out := object{"type": "object", "properties": properties, "required": required}
	if s.coin("closed") {
		out["additionalProperties"] = false
	}
	if s.all && s.coin("members") {
		out["minProperties"] = 1
	}
	return out
}

// values draws values that fit a schema, or nearly.
type values struct {
	t    *rapid.T
	root object
}

func (v values) value(schema any, depth int) any {
	s, ok := schema.(object)
	if !ok || depth > 12 {
		return "x"
	}
	if ref, ok := s["$ref"].(string); ok {
		defs, _ := v.root["$defs"].(object)
		return v.value(defs[strings.TrimPrefix(ref, "#/$defs/")], depth+1)
	}
	if enum, ok := s["enum"].([]any); ok {
		return enum[rapid.IntRange(0, len(enum)-1).Draw(v.t, "enum")]
	}
	var out any
	for _, name := range []string{"anyOf", "oneOf"} {
		if list, ok := s[name].([]any); ok {
			out = v.value(list[rapid.IntRange(0, len(list)-1).Draw(v.t, "branch")], depth+1)
		}
	}
	if list, ok := s["allOf"].([]any); ok {
		for _, part := range list {
			out = merged(out, v.value(part, depth+1))
		}
	}
	kinds := []any{s["type"]}
	if list, ok := s["type"].([]any); ok {
		kinds = list
	}
	switch kind := kinds[rapid.IntRange(0, len(kinds)-1).Draw(v.t, "type")]; kind {
	case "string":
		return rapid.SampledFrom([]string{"a", "ab", "", "xyzxyz"}).Draw(v.t, "string")
	case "integer":
		return rapid.IntRange(0, 6).Draw(v.t, "integer")
	case "number":
		return 1.5
	case "boolean":
		return rapid.Bool().Draw(v.t, "boolean")
	case "null":
		return nil
	case "array":
		list := []any{}
		for range rapid.IntRange(0, 2).Draw(v.t, "items") {
			list = append(list, v.value(s["items"], depth+1))
		}
		return list
	case "object":
		return merged(out, v.members(s, depth))
	default:
		return out
	}
}

func (v values) members(s object, depth int) object {
	out := object{}
	properties, _ := s["properties"].(object)
	required, _ := s["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(name)) || depth < 4 && rapid.Bool().Draw(v.t, "present") {
			out[name] = v.value(properties[name], depth+1)
		}
	}
	return out
}

func merged(a, b any) any {
	x, ok := a.(object)
	y, both := b.(object)
	if !ok || !both {
		return b
	}
	out := maps.Clone(x)
	maps.Copy(out, y)
	return out
}

// fromGemini returns a schema of a declaration as JSON Schema: objects have the members that are declared.
func fromGemini(schema any) object {
	s, _ := schema.(object)
	out := object{}
	for name, v := range s {
		switch name {
		case "type":
			text, _ := v.(string)
			out["type"] = strings.ToLower(text)
		case "anyOf":
			list := []any{}
			for _, b := range v.([]any) { //nolint:errcheck,forcetypeassert // the rules were checked
				list = append(list, fromGemini(b))
			}
			out["anyOf"] = list
		case "items":
			out["items"] = fromGemini(v)
		case "properties":
			properties := object{}
			for name, p := range v.(object) { //nolint:errcheck,forcetypeassert // the rules were checked
				properties[name] = fromGemini(p)
			}
			out["properties"] = properties
		case "minItems", "maxItems", "minLength", "maxLength":
			out[name], _ = strconv.Atoi(v.(string)) //nolint:errcheck,forcetypeassert // the rules were checked
		case "nullable", "propertyOrdering", "format":
		default:
			out[name] = v
		}
	}
	if out["type"] == "object" {
		out["additionalProperties"] = false
	}
	if s["nullable"] == true {
		out["type"] = []any{out["type"], "null"}
		if enum, ok := out["enum"].([]any); ok {
			out["enum"] = append(slices.Clone(enum), nil)
		}
	}
	return out
}

// The action accepts what a definition accepts, once names and nulls are restored: for Anthropic with every keyword,
// and for OpenAI in strict mode and Gemini with those that they have.
func TestArgumentsFitTheInput(t *testing.T) {
	t.Parallel()
	accepted := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		f := rapid.SampledFrom([]toolformat.Format{toolformat.Anthropic, toolformat.OpenAI, toolformat.Gemini}).
			Draw(rt, "format")
		s := schemas{rt, f == toolformat.Anthropic}
		root := s.object(2)
		root["additionalProperties"] = false
		root["$defs"] = object{"A": s.object(1), "B": object{"anyOf": []any{s.object(1), s.schema(0)}}}
		input, err := json.Marshal(root)
		require.NoError(rt, err)
		d := render(rt, f, tool(string(input)))
		if slices.ContainsFunc(d.Notes, func(n string) bool {
			return strings.Contains(n, "deepest parts") || strings.Contains(n, "impossible")
		}) {
			return
		}
		var rendered object
		text := parameters(rt, d)
		if text == nil {
			text = json.RawMessage(`{"type":"OBJECT"}`)
		}
		require.NoError(rt, json.Unmarshal(text, &rendered))
		if f == toolformat.Gemini {
			rendered = fromGemini(rendered)
		}
		schema, err := json.Marshal(rendered)
		require.NoError(rt, err)
		compiled, err := compile(schema)
		require.NoError(rt, err)
		original, err := compile(input)
		require.NoError(rt, err)
		for range 3 {
			arguments, err := json.Marshal(values{rt, rendered}.value(rendered, 0))
			require.NoError(rt, err)
			var v any
			require.NoError(rt, json.Unmarshal(arguments, &v))
			if compiled.Validate(v) != nil {
				continue
			}
			accepted[fmt.Sprintf("%s strict=%v", f, d.Strict)]++
			restored, err := d.Restore(arguments)
			require.NoError(rt, err)
			require.NoError(rt, json.Unmarshal(restored, &v))
			if f == toolformat.OpenAI && !d.Strict {
				continue // other keywords were drawn than it promises; Anthropic's has the same writer
			}
			require.NoError(rt, original.Validate(v), "input %s\nrendered %s\narguments %s\nrestored %s", input, schema,
				arguments, restored)
		}
	})
	t.Logf("accepted: %v", accepted)
	for _, kind := range []string{"anthropic strict=false", "openai strict=true", "gemini strict=false"} {
		require.Positive(t, accepted[kind], kind)
	}
}

// Any schema in JSON makes definitions that keep the rules, or an error; and any arguments are restored, or an error.
func FuzzRender(f *testing.F) {
	f.Add([]byte(pet), []byte(`{"id":"7","X_Trace":null,"owner":{"friends":[{"name":null}]}}`))
	f.Add([]byte(`{"$ref":"#"}`), []byte(`{}`))
	f.Add([]byte(`{"allOf":[{"$ref":"#"},{"anyOf":[{"$ref":"#"},true,false]}],
		"properties":{"":{"$ref":"#/properties/"}}}`), []byte(`{"":{"":null}}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"enum":[1,1.0,"1",null,[],{}],"type":["integer","null"]},"b":{
		"minimum":1e999,"maximum":-0,"multipleOf":0,"minLength":-1,"pattern":"(","format":7,"items":[],"required":[1]}}}`),
		[]byte(`{"a":1,"a":2}`))
	f.Add([]byte(`{"properties":{"a":{"oneOf":[{"not":{"$ref":"#/properties/a"}},{"prefixItems":[{}],"items":false}]}},
		"required":["a","\ud800"],"additionalProperties":{"$ref":"#/properties/a"}}`), []byte(`{"a":[null]}`))
	f.Add([]byte(`true`), []byte(`{"x":null}`))
	f.Fuzz(func(t *testing.T, input, arguments []byte) {
		for _, format := range toolformat.Formats() {
			one := tool(string(input))
			one.Action.Output = input
			d, err := toolformat.Render(format, one)
			if err != nil {
				continue
			}
			if format == toolformat.MCP {
				require.True(t, json.Valid(d.JSON))
				continue // its schemas are those of the input, with their mistakes
			}
			require.Empty(t, toolformat.Violations(format, d.JSON), "%s", d.JSON)
			if schema := parameters(t, d); format != toolformat.Gemini {
				_, err := compile(schema)
				require.NoError(t, err, "%s", schema)
			}
			if restored, err := d.Restore(arguments); err == nil {
				require.True(t, json.Valid(restored), "%s", restored)
			}
		}
	})
}
