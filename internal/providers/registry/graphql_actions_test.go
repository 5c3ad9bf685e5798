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

// shape is what a schema of an action says about a value.
type shape struct {
	Type       any
	Properties map[string]*shape
	Items      *shape
	Enum       []string
}

// The GraphQL operations of actions are valid against the providers' own schemas, and their inputs and outputs are what
// the schemas say about variables and selections.
func TestShippedGraphQLAgreesWithProviders(t *testing.T) {
	t.Parallel()
	for slug, list := range shippedActions(t) {
		if !slices.ContainsFunc(list, func(a *actions.Action) bool { return a.Body.GraphQL != "" }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("testdata", "facts", slug+".graphql"))
		require.NoError(t, err)
		schema, err := gqlparser.LoadSchema(&ast.Source{Input: string(text)})
		require.NoError(t, err)
		for _, a := range list {
			if a.Body.GraphQL == "" {
				continue
			}
			doc, problems := gqlparser.LoadQueryWithRules(schema, a.Body.GraphQL, rules.NewDefaultRules())
			require.Empty(t, problems, a.Name)
			operation := doc.Operations[0]
			var input, output shape
			require.NoError(t, json.Unmarshal(a.Input, &input))
			for _, p := range a.Parameters {
				v := operation.VariableDefinitions.ForName(p.Name)
				agreesWith(t, schema, a.Name+" "+p.Property, input.Properties[p.Property], v.Type, nil, true)
			}
			require.NoError(t, json.Unmarshal(a.Output, &output))
			require.Len(t, output.Properties, 1, a.Name)
			selects(t, schema, a.Name, output.Properties["data"], operation.SelectionSet)
		}
	}
}

// agreesWith checks that a schema describes the values of a type.
func agreesWith(t *testing.T, schema *ast.Schema, at string, s *shape, of *ast.Type, set ast.SelectionSet, isInput bool) {
	t.Helper()
	require.NotNil(t, s, at)
	kinds := kindsOf(s.Type)
	kind := "array"
	if of.Elem == nil {
		def := schema.Types[of.Name()]
		switch {
		case def.IsCompositeType() || def.Kind == ast.InputObject || of.Name() == "JSONObject":
			kind = "object"
		case of.Name() == "Boolean":
			kind = "boolean"
		case of.Name() == "Int" || of.Name() == "Float":
			kind = "number"
		default:
			kind = "string"
		}
		for _, value := range s.Enum {
			require.NotNil(t, def.EnumValues.ForName(value), "%s: %s", at, value)
		}
	}
	nullable := slices.Contains(kinds, "null")
	require.Subset(t, []string{kind, "null"}, kinds, at)
	require.Contains(t, kinds, kind, at)
	if isInput {
		require.False(t, nullable && of.NonNull, "%s is not null there", at)
	} else {
		require.True(t, nullable || of.NonNull, "%s may be null there", at)
	}
	switch {
	case of.Elem != nil:
		agreesWith(t, schema, at+"[]", s.Items, of.Elem, set, isInput)
	case set != nil:
		selects(t, schema, at, s, set)
	}
}

// selects checks that an object has the fields of a selection and no others.
func selects(t *testing.T, schema *ast.Schema, at string, s *shape, set ast.SelectionSet) {
	t.Helper()
	require.NotNil(t, s, at)
	require.Len(t, s.Properties, len(set), at)
	for _, one := range set {
		f, isField := one.(*ast.Field)
		require.True(t, isField, at)
		agreesWith(t, schema, strings.Join([]string{at, f.Alias}, "."), s.Properties[f.Alias], f.Definition.Type,
			f.SelectionSet, false)
	}
}
