package documents_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/risk"
)

type members map[string]any

// introspect writes a schema as the result of an introspection query.
func introspect(t *testing.T, schema *ast.Schema) string {
	t.Helper()
	var types []*ast.Definition
	for _, def := range schema.Types {
		if !def.BuiltIn {
			types = append(types, def)
		}
	}
	slices.SortFunc(types, func(a, b *ast.Definition) int { return a.Position.Start - b.Position.Start })
	list := []members{}
	for _, def := range types {
		of := members{"kind": def.Kind, "name": def.Name, "description": def.Description,
			"isOneOf": def.Directives.ForName("oneOf") != nil}
		for _, name := range def.Interfaces {
			of["interfaces"] = append(listOf(of["interfaces"]), members{"kind": "INTERFACE", "name": name})
		}
		for _, name := range def.Types {
			of["possibleTypes"] = append(listOf(of["possibleTypes"]), members{"kind": "OBJECT", "name": name})
		}
		for _, v := range def.EnumValues {
			of["enumValues"] = append(listOf(of["enumValues"]), described(v.Name, v.Description, v.Directives))
		}
		for _, f := range def.Fields {
			field := described(f.Name, f.Description, f.Directives)
			field["type"] = reference(schema, f.Type)
			field["defaultValue"] = constant(f.DefaultValue)
			for _, a := range f.Arguments {
				argument := described(a.Name, a.Description, a.Directives)
				argument["type"], argument["defaultValue"] = reference(schema, a.Type), constant(a.DefaultValue)
				field["args"] = append(listOf(field["args"]), argument)
			}
			name := "fields"
			if def.Kind == ast.InputObject {
				name = "inputFields"
			}
			of[name] = append(listOf(of[name]), field)
		}
		list = append(list, of)
	}
	all := members{"types": list}
	for name, def := range map[string]*ast.Definition{"queryType": schema.Query, "mutationType": schema.Mutation,
		"subscriptionType": schema.Subscription} {
		if def != nil {
			all[name] = members{"name": def.Name}
		}
	}
	b, err := json.Marshal(members{"data": members{"__schema": all}})
	require.NoError(t, err)
	return string(b)
}

func listOf(v any) []members {
	if list, ok := v.([]members); ok {
		return list
	}
	return nil
}

func described(name, description string, directives ast.DirectiveList) members {
	out := members{"name": name, "description": description}
	if d := directives.ForName("deprecated"); d != nil {
		out["isDeprecated"] = true
		if reason := d.Arguments.ForName("reason"); reason != nil {
			out["deprecationReason"] = reason.Value.Raw
		}
	}
	return out
}

func constant(v *ast.Value) any {
	if v == nil {
		return nil
	}
	return v.String()
}

func reference(schema *ast.Schema, of *ast.Type) members {
	out := members{"kind": "LIST"}
	if of.Elem != nil {
		out["ofType"] = reference(schema, of.Elem)
	} else {
		out = members{"kind": schema.Types[of.NamedType].Kind, "name": of.NamedType}
	}
	if of.NonNull {
		out = members{"kind": "NON_NULL", "ofType": out}
	}
	return out
}

// An introspection result has the same actions as the schema of which it is one.
func TestIntrospectionIsTheSame(t *testing.T) {
	t.Parallel()
	requireSame(t, tracker)
}

func requireSame(t *testing.T, sdl string) {
	t.Helper()
	schema, err := gqlparser.LoadSchema(&ast.Source{Input: sdl})
	require.NoError(t, err)
	want := readGraphQL(t, sdl, schema)
	got := readGraphQL(t, introspect(t, schema), schema)
	require.Len(t, got, len(want))
	for name, r := range want {
		require.Equal(t, r.Action, got[name].Action, name)
		require.Equal(t, r.Notes, got[name].Notes, name)
	}
}

// Nothing that a schema says panics. The operations of one that another validator accepts are valid, in either form of
// the schema.
func FuzzGraphQL(f *testing.F) {
	f.Add(tracker)
	f.Add(`interface N{i:ID!} type A implements N{i:ID! a:Int} type B implements N{i:ID! a:String n(first:Int!):[N]}
		union U=A|B type Query{u:U n(i:ID!=1):N q:Query} enum E{A} input I{e:[[E!]!]!=[[A]] i:I} type Mutation{m(i:I):U}`)
	f.Add(`schema{query:Q} type Q{q:Q a(x:[Int!]!=[1]):Q! c(first:Int,after:String):C} type C{pageInfo:P! edges:[C] node:Q
		nodes:[Q]} type P{hasNextPage:Boolean! endCursor:ID} extend type Q{"""d""" z:F @deprecated(reason:"x")} scalar F`)
	f.Add(`{"__schema":{"queryType":{"name":"Q"},"types":[{"kind":"OBJECT","name":"Q","fields":[{"name":"a","args":[
		{"name":"b","defaultValue":"1","type":{"kind":"NON_NULL","ofType":{"kind":"SCALAR","name":"Int"}}}],"type":{"kind":
		"LIST","ofType":{"kind":"OBJECT","name":"Q"}}}]}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := documents.OpenGraphQL([]byte(text))
		if err != nil {
			return
		}
		list, err := d.Operations()
		if err != nil {
			return
		}
		for r := range list {
			if r.Action == nil {
				continue
			}
			require.Regexp(t, `^[a-z][a-z0-9_]{0,47}$`, r.Action.Name)
			require.True(t, risk.Assess(&r.Action.Call).Level.Valid())
			compile(t, r.Action.Input)
			compile(t, r.Action.Output)
			_, err := parser.ParseQuery(&ast.Source{Input: r.Action.Body.GraphQL})
			require.NoError(t, err)
		}
		if schema, err := gqlparser.LoadSchema(&ast.Source{Input: text}); err == nil {
			for r := range list {
				if r.Action == nil {
					continue
				}
				_, errs := gqlparser.LoadQueryWithRules(schema, r.Action.Body.GraphQL, rules.NewDefaultRules())
				require.Empty(t, errs, r.Action.Body.GraphQL)
			}
			if !strings.Contains(text, "extend") && !strings.Contains(text, "specifiedBy") {
				requireSame(t, text)
			}
		}
	})
}
