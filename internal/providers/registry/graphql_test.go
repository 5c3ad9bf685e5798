package registry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"sallyport/internal/providers/actions"
)

// node is the part of a JSON Schema that is compared.
type node struct {
	Type        any
	Description string
	Enum        []string
	Items       *node
	Properties  map[string]*node
	Required    []string
}

// The operations of GraphQL that ship are valid in the part of the provider's own schema in testdata/facts. Their
// inputs have the types and values of its arguments, and their outputs the fields that they request.
func TestShippedGraphQLAgreesWithProviders(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "facts", "*.graphql"))
	require.NoError(t, err)
	slugs := map[string]bool{}
	for _, file := range files {
		slugs[strings.TrimSuffix(filepath.Base(file), ".graphql")] = true
	}
	compared := 0
	for slug, list := range shippedActions(t) {
		for _, a := range list {
			if a.Body.GraphQL == "" {
				continue
			}
			require.True(t, slugs[slug], "the schema of %s is not there", slug)
			compared++
			text, err := os.ReadFile(filepath.Join("testdata", "facts", slug+".graphql"))
			require.NoError(t, err)
			schema, err := gqlparser.LoadSchema(&ast.Source{Input: string(text)})
			require.NoError(t, err)
			compareOperation(t, slug+"/"+a.Name, schema, a)
		}
	}
	require.NotEmpty(t, slugs)
	require.GreaterOrEqual(t, compared, len(slugs))
}

// compareOperation compares an operation with a schema.
func compareOperation(t *testing.T, name string, schema *ast.Schema, a *actions.Action) {
	t.Helper()
	document, errs := gqlparser.LoadQueryWithRules(schema, a.Body.GraphQL, rules.NewDefaultRules())
	require.Empty(t, errs, name)
	var input, output node
	require.NoError(t, json.Unmarshal(a.Input, &input))
	require.NoError(t, json.Unmarshal(a.Output, &output))
	operation := document.Operations[0]
	require.Len(t, operation.VariableDefinitions, len(a.Parameters), name)
	for _, p := range a.Parameters {
		v := operation.VariableDefinitions.ForName(p.Name)
		require.NotNil(t, v, "%s: %s", name, p.Name)
		require.Equal(t, v.Type.NonNull && v.DefaultValue == nil, slices.Contains(input.Required, p.Property),
			"%s: %s is required in one of them only", name, p.Property)
		compareInput(t, name+" "+p.Property, schema, v.Type, input.Properties[p.Property])
	}
	data := output.Properties["data"]
	require.NotNil(t, data, name)
	compareSelection(t, name, operation.SelectionSet, data, true)
}

// compareInput compares the type of an argument with the schema of an input.
func compareInput(t *testing.T, at string, schema *ast.Schema, of *ast.Type, in *node) {
	t.Helper()
	require.NotNil(t, in, at)
	kinds := kindsOf(in.Type)
	require.False(t, of.NonNull && slices.Contains(kinds, "null"), "%s must not be null there", at)
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "null" })
	if of.Elem != nil {
		require.Equal(t, []string{"array"}, kinds, at)
		compareInput(t, at+"[]", schema, of.Elem, in.Items)
		return
	}
	d := schema.Types[of.NamedType]
	require.NotNil(t, d, "%s: %s", at, of.NamedType)
	if d.Kind != ast.InputObject {
		require.Equal(t, []string{jsonType(of.NamedType)}, kinds, at)
		for _, value := range in.Enum {
			require.True(t, d.Kind != ast.Enum || d.EnumValues.ForName(value) != nil, "%s does not have the value %s", at, value)
		}
		return
	}
	require.Equal(t, []string{"object"}, kinds, at)
	for name, property := range in.Properties {
		f := d.Fields.ForName(name)
		require.NotNil(t, f, "%s does not have %s", at, name)
		compareInput(t, at+"."+name, schema, f.Type, property)
	}
	for _, f := range d.Fields {
		if f.Type.NonNull && f.DefaultValue == nil {
			require.Contains(t, in.Required, f.Name, at)
		}
	}
}

// jsonType returns the type of JSON as which a scalar or a value of an enumeration is written; integers are numbers.
func jsonType(name string) string {
	switch name {
	case "Int", "Float":
		return "number"
	case "Boolean":
		return "boolean"
	case "JSONObject":
		return "object"
	default:
		return "string"
	}
}

// compareSelection checks that an output has fields that are requested, and that those are null which can be. Root
// fields are null where the response has errors.
func compareSelection(t *testing.T, at string, set ast.SelectionSet, out *node, root bool) {
	t.Helper()
	fields := map[string]*ast.Field{}
	for _, s := range set {
		f, isField := s.(*ast.Field)
		require.True(t, isField, at)
		fields[f.Alias] = f
	}
	for name, property := range out.Properties {
		f := fields[name]
		if f == nil {
			// A schema that several operations share says so of a field that only some of them request.
			require.True(t, strings.HasPrefix(property.Description, "Only "), "%s.%s is not requested", at, name)
			continue
		}
		here := at + "." + name
		kinds, of := kindsOf(property.Type), f.Definition.Type
		require.True(t, root || of.NonNull || slices.Contains(kinds, "null"), "%s can be null", here)
		if of.Elem != nil {
			require.Contains(t, kinds, "array", here)
			property, of = property.Items, of.Elem
			kinds = kindsOf(property.Type)
		}
		switch {
		case len(f.SelectionSet) > 0:
			require.Contains(t, kinds, "object", here)
			compareSelection(t, here, f.SelectionSet, property, false)
		default:
			require.Contains(t, kinds, jsonType(of.NamedType), here)
		}
	}
	if root {
		require.Len(t, out.Properties, len(fields), at)
	}
}
