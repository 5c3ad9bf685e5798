package toolformat_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/actions/toolformat"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/risk"
)

// tool is an action with an input.
func tool(input string) *toolformat.Tool {
	return &toolformat.Tool{Name: "acme__pets_update", Risk: risk.Risk{Level: risk.Medium, Operation: risk.Update},
		Action: &actions.Action{Name: "pets_update", Title: "Update a pet", Method: "PUT", Path: "/pets/{id}",
			Input: json.RawMessage(input)}}
}

// render writes a tool, and requires that the definition keeps the rules of its reader.
func render(t require.TestingT, f toolformat.Format, from *toolformat.Tool) *toolformat.Definition {
	d, err := toolformat.Render(f, from)
	require.NoError(t, err)
	require.Empty(t, toolformat.Violations(f, d.JSON), "%s", d.JSON)
	if schema := parameters(t, d); schema != nil && f != toolformat.Gemini {
		_, err := compile(schema)
		require.NoError(t, err, "%s", schema)
	}
	return d
}

// parameters returns the schema of a definition's input; nil for a function without parameters.
func parameters(t require.TestingT, d *toolformat.Definition) json.RawMessage {
	var tool map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(d.JSON, &tool))
	for _, name := range []string{"inputSchema", "input_schema", "parameters"} {
		if tool[name] != nil {
			return tool[name]
		}
	}
	return nil
}

// compile reads a schema with a validator that is not ours.
func compile(schema []byte) (*jsonschema.Schema, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return nil, err //nolint:wrapcheck // a test shows it
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("schema.json", v); err != nil {
		return nil, err //nolint:wrapcheck // a test shows it
	}
	return c.Compile("schema.json") //nolint:wrapcheck // a test shows it
}

// valid reports whether a value fits a schema.
func valid(t require.TestingT, schema []byte, value string) bool {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	require.NoError(t, err)
	compiled, err := compile(schema)
	require.NoError(t, err, "%s", schema)
	return compiled.Validate(v) == nil
}

// read returns the tools of a document by method and path.
func read(t *testing.T, document string) map[string]*toolformat.Tool {
	t.Helper()
	d, err := documents.Open([]byte(document))
	require.NoError(t, err)
	list, err := d.Operations()
	require.NoError(t, err)
	out := map[string]*toolformat.Tool{}
	for r := range list {
		require.Nil(t, r.Left)
		out[r.Method+" "+r.Path] = &toolformat.Tool{Name: actions.ToolName("acme", r.Action.Name, r.Method, r.Path),
			Action: r.Action, Risk: risk.Assess(&r.Action.Call)}
	}
	return out
}
