package toolformat_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions/toolformat"
	"sallyport/internal/providers/risk"
)

const pet = `{"type":"object","properties":{
	"id":{"type":"string","pattern":"^[0-9]+$"},
	"X-Trace":{"type":"string"},
	"limit":{"type":["integer","null"],"minimum":1,"maximum":100,"default":30},
	"status":{"type":"string","enum":["open","closed"],"description":"Which pets."},
	"owner":{"allOf":[{"$ref":"#/$defs/Owner"}],"description":"Who keeps it."}},
	"required":["id","owner"],"additionalProperties":false,
	"$defs":{"Owner":{"type":"object","properties":{"name":{"type":"string","minLength":1},
		"friends[]":{"type":"array","items":{"$ref":"#/$defs/Owner"}}},"required":["name"]}}}`

// Each format has the members, types and order that its reader expects, to the byte: a change is seen here.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	for format, want := range map[toolformat.Format]string{
		toolformat.MCP: `{"name":"acme__pets_update","title":"Update a pet","description":"Update a pet",
			"inputSchema":` + pet + `,"annotations":{"title":"Update a pet","readOnlyHint":false,"destructiveHint":false,
			"idempotentHint":false,"openWorldHint":true}}`,
		toolformat.OpenAI: `{"type":"function","name":"acme__pets_update","description":"Update a pet","strict":true,
			"parameters":{"type":"object","properties":{
				"id":{"type":"string","pattern":"^[0-9]+$"},
				"X-Trace":{"type":["string","null"]},
				"limit":{"type":["integer","null"],"description":"Default: 30.","minimum":1,"maximum":100},
				"status":{"type":["string","null"],"description":"Which pets.","enum":["open","closed",null]},
				"owner":{"description":"Who keeps it.","anyOf":[{"$ref":"#/$defs/Owner"}]}},
			"required":["id","X-Trace","limit","status","owner"],"additionalProperties":false,
			"$defs":{"Owner":{"type":"object","properties":{
				"name":{"type":"string","description":"At least 1 character."},
				"friends":{"type":["array","null"],"items":{"$ref":"#/$defs/Owner"}}},
				"required":["name","friends"],"additionalProperties":false}}}}`,
		toolformat.Anthropic: `{"name":"acme__pets_update","description":"Update a pet","input_schema":{"type":"object",
			"properties":{
				"id":{"type":"string","pattern":"^[0-9]+$"},
				"X-Trace":{"type":"string"},
				"limit":{"type":["integer","null"],"default":30,"minimum":1,"maximum":100},
				"status":{"type":"string","description":"Which pets.","enum":["open","closed"]},
				"owner":{"type":"object","description":"Who keeps it.","properties":{
					"name":{"type":"string","minLength":1},
					"friends":{"type":"array","items":{"type":"object","properties":{
						"name":{"type":"string","minLength":1},
						"friends":{"type":"array","items":{}}},"required":["name"]}}},"required":["name"]}},
			"required":["id","owner"],"additionalProperties":false}}`,
		toolformat.Gemini: `{"name":"acme__pets_update","description":"Update a pet","parameters":{"type":"OBJECT",
			"properties":{
				"id":{"type":"STRING","pattern":"^[0-9]+$"},
				"X_Trace":{"type":"STRING"},
				"limit":{"type":"INTEGER","description":"Default: 30.","nullable":true,"minimum":1,"maximum":100},
				"status":{"type":"STRING","description":"Which pets.","format":"enum","enum":["open","closed"]},
				"owner":{"type":"OBJECT","description":"Who keeps it.","properties":{
					"name":{"type":"STRING","minLength":"1"},
					"friends":{"type":"ARRAY","items":{"type":"OBJECT","properties":{
						"name":{"type":"STRING","minLength":"1"},
						"friends":{"type":"ARRAY","items":{"type":"STRING"}}},
						"required":["name"],"propertyOrdering":["name","friends"]}}},
					"required":["name"],"propertyOrdering":["name","friends"]}},
			"required":["id","owner"],"propertyOrdering":["id","X_Trace","limit","status","owner"]}}`,
	} {
		d := render(t, format, tool(petFor(format)))
		require.JSONEq(t, want, string(d.JSON), format)
		again := render(t, format, tool(petFor(format)))
		require.Equal(t, string(d.JSON), string(again.JSON), "equal tools give equal bytes")
		require.Equal(t, format == toolformat.OpenAI, d.Strict)
	}
}

// Arguments come back under the names of the input, and without the nulls that strict mode requires.
func TestRestore(t *testing.T) {
	t.Parallel()
	for format, c := range map[toolformat.Format][2]string{
		toolformat.MCP: {`{"id":"7","owner":{"name":"n"}}`, `{"id":"7","owner":{"name":"n"}}`},
		toolformat.OpenAI: {`{"id":"7","X-Trace":null,"limit":null,"status":null,"owner":{"name":"n",
			"friends":[{"name":"m","friends":null}]}}`, `{"id":"7","owner":{"name":"n","friends[]":[{"name":"m"}]}}`},
		toolformat.Anthropic: {`{"id":"7","limit":null,"owner":{"name":"n","friends":[]},"owner":{"name":"m"}}`,
			`{"id":"7","limit":null,"owner":{"name":"m"}}`},
		toolformat.Gemini: {`{"id":"7","X_Trace":"t","owner":{"name":"n","friends":[{"name":"m"}]}}`,
			`{"id":"7","X-Trace":"t","owner":{"name":"n","friends[]":[{"name":"m"}]}}`},
	} {
		d := render(t, format, tool(petFor(format)))
		got, err := d.Restore([]byte(c[0]))
		require.NoError(t, err)
		require.JSONEq(t, c[1], string(got), format)
		require.True(t, valid(t, []byte(pet), string(got)))
	}
	d := render(t, toolformat.Gemini, tool(pet))
	require.Equal(t, map[string]string{"X_Trace": "X-Trace", "friends": "friends[]"}, d.Names)
	for _, wrong := range []string{``, `[]`, `{"a":`, strings.Repeat("[", 600)} {
		_, err := d.Restore([]byte(wrong))
		require.Error(t, err, wrong)
	}
	_, err := d.Restore(append([]byte(`{"a":"`), make([]byte, toolformat.MaxArguments)...))
	require.ErrorContains(t, err, "more than")
}

// A property whose name a format does not accept gets the name of no other one, wherever it is in the schema.
func TestNamesOfProperties(t *testing.T) {
	t.Parallel()
	d := render(t, toolformat.Gemini, tool(`{"type":"object","properties":{"a":{"type":"string"},"$a":{"type":"string"},
		"1":{"type":"integer"},"`+strings.Repeat("é", 70)+`":{"type":"string"},"ü":{"type":"object","properties":{
		"a b":{"type":"string"},"`+strings.Repeat("x", 65)+`":{"type":"string"},
		"`+strings.Repeat("x", 66)+`":{"type":"string"}}}}}`))
	require.Len(t, d.Names, 7)
	seen := map[string]bool{"a": true}
	for short := range d.Names {
		require.False(t, seen[short])
		seen[short] = true
	}
	require.Equal(t, "1", d.Names["_1"])
	require.Equal(t, "a b", d.Names["a_b"])
}

// petFor returns pet as the format can have it: null means something in limit, so that it cannot be in strict mode.
func petFor(format toolformat.Format) string {
	if format == toolformat.OpenAI {
		return strings.Replace(pet, `["integer","null"]`, `"integer"`, 1)
	}
	return pet
}

// An input that strict mode cannot express has a definition without it, and never as an object that is always empty.
func TestNotStrict(t *testing.T) {
	t.Parallel()
	deep := `{"type":"string"}`
	for range 11 {
		deep = `{"type":"object","properties":{"a":` + deep + `}}`
	}
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf(`"%d"`, i)
	}
	for name, input := range map[string]string{
		"any value":   `{"type":"object","properties":{"a":{}}}`,
		"free object": `{"type":"object","properties":{"a":{"type":"object"}}}`,
		"map":         `{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}}}}`,
		"open object": `{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}},
			"additionalProperties":true}}}`,
		"no items": `{"type":"object","properties":{"a":{"type":"array"}}}`,
		"too deep": `{"type":"object","properties":{"a":` + deep + `}}`,
		"too many": `{"type":"object","properties":{"a":{"type":"string","enum":[` + strings.Join(many, ",") + `]}}}`,
		"alternatives": `{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}}},
			{"properties":{"b":{"type":"string"}}}]}`,
		"enum of lists": `{"type":"object","properties":{"a":{"enum":[[1],[2]]}}}`,
		"impossible":    `{"type":"object","properties":{"a":false},"required":["a"]}`,
		"nothing":       `{}`,
	} {
		d := render(t, toolformat.OpenAI, tool(input))
		require.False(t, d.Strict, name)
		require.NotEmpty(t, d.Notes)
		for _, f := range toolformat.Formats() {
			render(t, f, tool(input))
		}
	}
	d := render(t, toolformat.OpenAI, tool(`{"type":"object","properties":{"a":{"type":["string","null"]}}}`))
	require.False(t, d.Strict, "null means something")
}

// A limit for which a format has no keyword is in the description.
func TestWords(t *testing.T) {
	t.Parallel()
	input := `{"type":"object","properties":{"a":{"type":"string","description":"A link","format":"uri","minLength":2,
		"maxLength":9,"pattern":"^(?i)x"},"n":{"type":"integer","enum":[1,2],"exclusiveMinimum":0,"multipleOf":1},
		"l":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}}},"minItems":1,"maxItems":1,
		"uniqueItems":true},"old":{"type":"string","deprecated":true,"default":"x"}}}`
	openAI := string(render(t, toolformat.OpenAI, tool(input)).JSON)
	for _, text := range []string{`"A link. Format: uri. Pattern: ^(?i)x 2 to 9 characters."`, `"No item twice."`,
		`"Deprecated. Default: \"x\"."`} {
		require.Contains(t, openAI, text)
	}
	gemini := string(render(t, toolformat.Gemini, tool(input)).JSON)
	for _, text := range []string{`"A link. Format: uri. Pattern: ^(?i)x"`,
		`"One of: 1, 2. More than 0. A multiple of 1."`,
		`"Exactly 1 item. No item twice."`} {
		require.Contains(t, gemini, text)
	}
}

// Descriptions of tools are as long as their reader accepts, in characters, and are never empty.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	one := tool(`{}`)
	one.Action.Deprecated = true
	one.Action.Description = strings.Repeat("ünd so ", 1000)
	for _, f := range toolformat.Formats() {
		d := render(t, f, one)
		require.Contains(t, string(d.JSON), `"Deprecated. Update a pet.\n\nünd so`)
		require.Contains(t, string(d.JSON), `…"`)
	}
	one.Action.Title, one.Action.Description, one.Action.Deprecated = "", "", false
	require.Contains(t, string(render(t, toolformat.Gemini, one).JSON), `"description":"PUT /pets/{id}"`)
	one.Action.Title, one.Action.Description = "Update a pet.", "Update a pet, and its owner."
	require.Contains(t, string(render(t, toolformat.Gemini, one).JSON), `"description":"Update a pet, and its owner."`)
}

// The output schema of the protocol describes objects only; that of anything else is left out, which is noted.
func TestOutputs(t *testing.T) {
	t.Parallel()
	one := tool(`{"type":"object","properties":{"a":true,"b":false}}`)
	for output, want := range map[string]string{
		`{"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}}}`: `{"type":"object",
			"$ref":"#/$defs/A","$defs":{"A":{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}}}}}`,
		`{"type":"array","items":{}}`:                     ``,
		`{"type":["object","null"]}`:                      ``,
		`{"oneOf":[{"type":"object"},{"type":"string"}]}`: ``,
		`{}`: ``,
		`{"allOf":[{"type":"object"}],"properties":{"a":true}}`: `{"type":"object","allOf":[{"type":"object"}],
			"properties":{"a":{}}}`,
	} {
		one.Action.Output = json.RawMessage(output)
		d := render(t, toolformat.MCP, one)
		var got map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(d.JSON, &got))
		require.JSONEq(t, `{"type":"object","properties":{"a":{},"b":{"not":{}}}}`, string(got["inputSchema"]))
		if want == "" {
			require.NotContains(t, got, "outputSchema")
			require.Contains(t, strings.Join(d.Notes, " "), "no object")
			continue
		}
		require.JSONEq(t, want, string(got["outputSchema"]))
	}
	one.Action.Output = json.RawMessage(`{"type":"object","title":"` + strings.Repeat("x", 90<<10) + `"}`)
	one.Action.Input = json.RawMessage(`{"type":"object","title":"` + strings.Repeat("x", 60<<10) + `"}`)
	require.Contains(t, strings.Join(render(t, toolformat.MCP, one).Notes, " "), "too large")
	one.Action.Output = json.RawMessage(`{`)
	_, err := toolformat.Render(toolformat.MCP, one)
	require.Error(t, err)
}

// Hints never say that a call is harmless of which the risk says otherwise.
func TestHints(t *testing.T) {
	t.Parallel()
	type hints = toolformat.Hints
	for _, c := range []struct {
		risk risk.Risk
		want hints
	}{
		{risk.Risk{Level: risk.Low, Operation: risk.Read}, hints{ReadOnly: true, Idempotent: true, OpenWorld: true}},
		{risk.Risk{Level: risk.Medium, Operation: risk.Create}, hints{OpenWorld: true}},
		{risk.Risk{Level: risk.Medium, Operation: risk.Update, Flags: []risk.Flag{risk.Idempotent}},
			hints{Idempotent: true, OpenWorld: true}},
		{risk.Risk{Level: risk.High, Operation: risk.Update}, hints{Destructive: true, OpenWorld: true}},
		{risk.Risk{Level: risk.High, Operation: risk.Delete}, hints{Destructive: true, OpenWorld: true}},
		{risk.Risk{Level: risk.High, Operation: risk.Read}, hints{Destructive: true, OpenWorld: true}},
		{risk.Risk{Level: risk.Low, Operation: risk.Read, Flags: []risk.Flag{risk.RunsCode}},
			hints{Destructive: true, OpenWorld: true}},
		{risk.Risk{Level: risk.High, Operation: risk.Create, Flags: []risk.Flag{risk.NotifiesPeople}},
			hints{OpenWorld: true}},
		{risk.Risk{Level: risk.Critical, Operation: risk.Create, Flags: []risk.Flag{risk.MovesMoney}},
			hints{Destructive: true, OpenWorld: true}},
		{risk.Risk{Level: risk.Unknown, Operation: risk.Opaque}, hints{Destructive: true, OpenWorld: true}},
		{risk.Risk{}, hints{Destructive: true, OpenWorld: true}},
	} {
		require.Equal(t, c.want, toolformat.HintsOf(&c.risk), "%+v", c.risk)
	}
}

// A name that one of the readers would refuse is an error for all of them, and so is a schema that is not JSON.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a.b", "1a", "a b", "é", strings.Repeat("a", 65)} {
		one := tool(`{}`)
		one.Name = name
		_, err := toolformat.Render(toolformat.MCP, one)
		require.ErrorContains(t, err, "the name of a tool")
	}
	_, err := toolformat.Render(toolformat.OpenAI, tool(`{`))
	require.ErrorContains(t, err, "line 1")
	_, err = toolformat.Render("other", tool(`{}`))
	require.ErrorContains(t, err, "there is no format")
}

// A schema that would be too large loses its deepest parts first, and every definition stays within its limit.
func TestDefinitionsAreBounded(t *testing.T) {
	t.Parallel()
	var wide, chain strings.Builder
	for i := range 900 {
		fmt.Fprintf(&wide, `"p%d":{"$ref":"#/$defs/L0"},`, i)
	}
	for i := range 40 {
		fmt.Fprintf(&chain, `"L%d":{"type":"object","description":"Level %d","properties":{"a":{"$ref":"#/$defs/L%d"},
			"b":{"$ref":"#/$defs/L%d"}}},`, i, i, i+1, i+1)
	}
	input := `{"type":"object","properties":{` + wide.String() + `"last":{"type":"string"}},"additionalProperties":false,
		"$defs":{` + chain.String() + `"L40":{"type":"string"}}}`
	for _, f := range toolformat.Formats() {
		d := render(t, f, tool(input))
		require.Contains(t, string(d.JSON), `"last":`)
		if f != toolformat.MCP {
			require.Contains(t, strings.Join(d.Notes, " "), "deepest parts")
		}
	}
	var names strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&names, `"%064d":{"type":"string"},`, i)
	}
	large := `{"type":"object","properties":{` + names.String() + `"last":{"type":"string"}}}`
	for _, f := range toolformat.Formats() {
		require.Contains(t, strings.Join(render(t, f, tool(large)).Notes, " "), "too large")
	}
}

// Alternatives within alternatives are counted once, so that a document cannot make the work grow without end.
func TestWorkIsBounded(t *testing.T) {
	t.Parallel()
	var defs strings.Builder
	for i := range 30 {
		fmt.Fprintf(&defs, `"A%d":{"anyOf":[`, i)
		for j := range 30 {
			fmt.Fprintf(&defs, `{"$ref":"#/$defs/A%d"},`, (i+j+1)%30)
		}
		fmt.Fprintf(&defs, `{"type":"object","properties":{"p%d":{"$ref":"#/$defs/A0"}}}]},`, i)
	}
	input := `{"type":"object","properties":{"a":{"$ref":"#/$defs/A0"}},"$defs":{` + defs.String() + `"Z":{}}}`
	for _, f := range toolformat.Formats() {
		d := render(t, f, tool(input))
		_, err := d.Restore([]byte(`{"a":{"p0":{"p1":{"p2":{"p3":null}}}}}`))
		require.NoError(t, err)
	}
}

// Every action of a document with all that documents have, and mistakes, keeps the rules of every reader.
func TestActionsOfDocuments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	count := 0
	for _, file := range files {
		document, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, one := range read(t, string(document)) {
			for _, f := range toolformat.Formats() {
				render(t, f, one)
				count++
			}
		}
	}
	require.Greater(t, count, 20)
}
