package toolformat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions/toolformat"
)

// Each rule of each reader is found to be broken, so that no violation in a definition stays unseen.
func TestViolations(t *testing.T) {
	t.Parallel()
	strict := func(properties string) string {
		return `{"type":"function","name":"a","description":"d","strict":true,"parameters":{"type":"object","properties":{` +
			properties + `},"required":["a"],"additionalProperties":false}}`
	}
	loose := func(parameters string) string {
		return `{"type":"function","name":"a","description":"d","strict":false,"parameters":` + parameters + `}`
	}
	claude := func(schema string) string { return `{"name":"a","description":"d","input_schema":` + schema + `}` }
	gemini := func(properties string) string {
		return `{"name":"a","description":"d","parameters":{"type":"OBJECT","properties":{` + properties + `}}}`
	}
	deep := strings.Repeat(`{"type":"ARRAY","items":`, 6) + `{"type":"STRING"}` + strings.Repeat(`}`, 6)
	levels := strings.Repeat(`{"type":"array","items":`, 11) + `{"type":"string"}` + strings.Repeat(`}`, 11)
	for _, c := range []struct {
		format           toolformat.Format
		definition, want string
	}{
		{toolformat.MCP, `[]`, "no JSON object"},
		{"other", `{}`, "no format"},
		{toolformat.MCP, `{"name":"a b","description":"d","inputSchema":{"type":"object"}}`, "the name"},
		{toolformat.MCP, `{"name":"a","description":"d","inputSchema":{"type":"array"}}`, "no schema of objects"},
		{toolformat.MCP, `{"name":"a","description":"d","inputSchema":{"type":"object","properties":{"a":true}}}`,
			"the schema of a is no object"},
		{toolformat.MCP, `{"name":"a","description":"d","inputSchema":{"type":"object"},"outputSchema":{"$ref":"#"}}`,
			"outputSchema is no schema"},
		{toolformat.MCP, `{"name":"a","description":"d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":1}}`,
			"the annotation"},
		{toolformat.MCP, `{"name":"a","description":"d"}`, "has no inputSchema"},
		{toolformat.MCP, `{"name":"a","description":"` + strings.Repeat("d", 128<<10) + `","inputSchema":{"type":"object"}}`,
			"bytes"},
		{toolformat.OpenAI, strings.Replace(strict(`"a":{"type":"string"}`), `"d"`, `"`+strings.Repeat("é", 1025)+`"`, 1),
			"1025 characters"},
		{toolformat.OpenAI, strict(`"a":{"type":"string"},"b":{"type":"string"}`), "does not require every"},
		{toolformat.OpenAI, strict(`"b":{"type":"string"}`), "which is not there"},
		{toolformat.OpenAI, strict(`"a":{}`), "has no type"},
		{toolformat.OpenAI, strict(`"a":{"type":"string","minLength":1}`), "has minLength"},
		{toolformat.OpenAI, strict(`"a":{"type":"string","format":"uri"}`), "has the format uri"},
		{toolformat.OpenAI, strict(`"a":{"type":"string","enum":[1]}`), "of another type"},
		{toolformat.OpenAI, strict(`"a":{"type":"object","properties":{},"required":[]}`), "permits other properties"},
		{toolformat.OpenAI, strict(`"a":{"$ref":"#/$defs/A"}`), "refers to"},
		{toolformat.OpenAI, strict(`"a":{"anyOf":[{"type":"string"}],"type":"string"}`), "has type"},
		{toolformat.OpenAI, strict(`"a":{"allOf":[{"type":"string"}]}`), "has allOf"},
		{toolformat.OpenAI, strict(`"a":{"type":"array"}`), "is no object"},
		{toolformat.OpenAI, strict(`"a":` + levels), "11 levels"},
		{toolformat.OpenAI, strict(`"a":{"type":"string","enum":[` + strings.Repeat(`"x",`, 1000) + `"x"]}`), "1001 values"},
		{toolformat.OpenAI, strict(`"a":{"type":"string","enum":[` + strings.Repeat(`"`+strings.Repeat("x", 60)+`",`, 250) +
			`"x"]}`), "251 values with 15001"},
		{toolformat.OpenAI, loose(`{"type":"object","properties":{},"anyOf":[]}`), "anyOf at the top"},
		{toolformat.OpenAI, loose(`{"type":"object"}`), "no properties"},
		{toolformat.OpenAI, loose(`{"type":"object","properties":{"a":{"anyOf":[{"type":["array","null"]}]}}}`), "no items"},
		{toolformat.Anthropic, claude(`{"type":"object","oneOf":[]}`), "oneOf at the top"},
		{toolformat.Anthropic, claude(`{"properties":{}}`), "no schema of objects"},
		{toolformat.Anthropic, claude(`{"type":"object","properties":{"a":{"items":{"properties":{"$a":{}}}}}}`),
			"the property"},
		{toolformat.Anthropic, claude(`{"type":"object","properties":{"a":{"not":{"$ref":"#"}}}}`), "there is $ref"},
		{toolformat.Gemini, gemini(`"a":{"type":"string"}`), "has the type string"},
		{toolformat.Gemini, gemini(``), "no properties"},
		{toolformat.Gemini, gemini(`"a-b":{"type":"STRING"}`), "the property"},
		{toolformat.Gemini, gemini(`"a":{"type":"INTEGER","enum":["1"]}`), "has enum"},
		{toolformat.Gemini, gemini(`"a":{"type":"STRING","enum":[""]}`), "has the value"},
		{toolformat.Gemini, gemini(`"a":{"type":"STRING","format":"uri"}`), "has the format"},
		{toolformat.Gemini, gemini(`"a":{"anyOf":[{"type":"STRING"}],"description":"d"}`), "has description"},
		{toolformat.Gemini, gemini(`"a":{"type":"ARRAY"}`), "is no object"},
		{toolformat.Gemini, gemini(`"a":{"type":"OBJECT","required":["b"]}`), "which is no property"},
		{toolformat.Gemini, gemini(`"a":{"type":"STRING","minLength":1}`), "has minLength 1"},
		{toolformat.Gemini, gemini(`"a":{"type":"STRING","$ref":"#"}`), "has $ref"},
		{toolformat.Gemini, gemini(`"a":` + deep), "at level 7"},
	} {
		require.Contains(t, strings.Join(toolformat.Violations(c.format, []byte(c.definition)), "\n"), c.want, c.definition)
	}
}
