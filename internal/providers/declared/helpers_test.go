package declared_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/declared"
	"sallyport/internal/providers/outbound"
)

// engine makes requests to a provider that takes its key in a header and a parameter of the query.
func engine(tb testing.TB) *outbound.Engine {
	tb.Helper()
	var d outbound.Declaration
	require.NoError(tb, yaml.UnmarshalWithOptions([]byte(`
base_url: https://api.acme.example/v2
allowed_hosts: [api.acme.example]
auth: [{mode: api_key, request: {headers: {X-Acme-Key: "${cred.api_key}"}, query: {sig: "${cred.api_key}"}}}]
`), &d, yaml.Strict()))
	e, err := outbound.Compile(d)
	require.NoError(tb, err)
	return e
}

// compile reads a declaration.
func compile(tb testing.TB, text string) ([]*actions.Action, *declared.Rules, []declared.Problem) {
	tb.Helper()
	var d declared.Declaration
	require.NoError(tb, yaml.UnmarshalWithOptions([]byte(text), &d, yaml.Strict()))
	return declared.Compile(&d, engine(tb))
}

// good reads a declaration without problems.
func good(tb testing.TB, text string) ([]*actions.Action, *declared.Rules) {
	tb.Helper()
	list, rules, problems := compile(tb, text)
	require.Empty(tb, problems)
	return list, rules
}

// schema reads a schema with a validator that is not ours.
func schema(tb testing.TB, text []byte) *jsonschema.Schema {
	tb.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(tb, err, string(text))
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	require.NoError(tb, c.AddResource("schema.json", v))
	compiled, err := c.Compile("schema.json")
	require.NoError(tb, err, string(text))
	return compiled
}

// valid reports whether a value fits a schema.
func valid(tb testing.TB, text []byte, value string) bool {
	tb.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	require.NoError(tb, err)
	return schema(tb, text).Validate(v) == nil
}
