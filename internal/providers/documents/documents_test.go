package documents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/risk"
)

// compile reads a schema with a validator that is not ours.
func compile(t *testing.T, schema []byte) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	require.NoError(t, err, string(schema))
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	require.NoError(t, c.AddResource("schema.json", v))
	compiled, err := c.Compile("schema.json")
	require.NoError(t, err, string(schema))
	return compiled
}

// read returns the operations of a document by method and path.
func read(t *testing.T, text string) map[string]documents.Result {
	t.Helper()
	d, err := documents.Open([]byte(text))
	require.NoError(t, err)
	list, err := d.Operations()
	require.NoError(t, err)
	out := map[string]documents.Result{}
	for r := range list {
		out[r.Method+" "+r.Path] = r
		if r.Action == nil {
			require.NotNil(t, r.Left)
			continue
		}
		require.Nil(t, r.Left)
		compile(t, r.Action.Input)
		if r.Action.Output != nil {
			compile(t, r.Action.Output)
		}
	}
	return out
}

func openAPI(version, paths, components string) string {
	return fmt.Sprintf(`{"openapi":%q,"info":{"title":"An API","version":"7"},"paths":%s,"components":{
		"schemas":%s}}`, version,
		paths, components)
}

// valid reports whether a value fits a schema.
func valid(t *testing.T, schema []byte, value string) bool {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	require.NoError(t, err)
	return compile(t, schema).Validate(v) == nil
}

// Path, query, header and body become one flat object, in which names that occur twice say where they belong.
func TestFlatInput(t *testing.T) {
	t.Parallel()
	r := read(t, openAPI("3.0.3", `{"/pets/{id}":{"put":{"operationId":"updatePet","summary":"Update\n a pet",
		"tags":["pets","pets"],"deprecated":true,"security":[{"oauth":["pets:write"]},{"key":[]}],
		"parameters":[{"name":"limit","in":"query","schema":{"type":"integer","minimum":0,"exclusiveMinimum":true}},
			{"name":"X-Trace","in":"header","schema":{"type":"string"}},
			{"name":"Authorization","in":"header","schema":{"type":"string"}},
			{"name":"s","in":"cookie","schema":{"type":"string"}},
			{"name":"filter","in":"query","content":{"application/json":{"schema":{"type":"object"}}}},
			{"name":"ids[]","in":"query","explode":false,"schema":{"type":"array","items":{"type":"integer"}}}],
		"requestBody":{"required":true,"content":{"application/xml":{},"application/json; charset=utf-8":{"schema":
			{"$ref":"#/components/schemas/Pet"}}}},
		"responses":{"404":{"content":{"application/json":{"schema":{"type":"string"}}}},
			"200":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Pet"}}}}}}}}`,
		`{"Pet":{"allOf":[{"type":"object","required":["id","name"],"properties":{"id":{"type":"integer"},
			"made":{"type":"string","readOnly":true}}},{"properties":{"name":{"type":"string","nullable":true,
				"pattern":"^(?=x)"},
			"parent":{"$ref":"#/components/schemas/Pet"},"secret":{"type":"string","writeOnly":true}}}]}}`))
	got := r["PUT /pets/{id}"].Action
	require.Equal(t, "update_pet", got.Name)
	require.Equal(t, "Update a pet", got.Title)
	require.Equal(t, []string{"pets"}, got.Tags)
	require.True(t, got.Deprecated)
	require.Equal(t, [][]string{{"pets:write"}}, got.Scopes)
	require.Equal(t, actions.Body{ContentType: "application/json", Required: true}, got.Body)
	require.Equal(t, []actions.Parameter{
		{Property: "limit", Name: "limit", Place: actions.InQuery, Explode: true},
		{Property: "X-Trace", Name: "X-Trace", Place: actions.InHeader},
		{Property: "filter", Name: "filter", Place: actions.InQuery, JSON: true},
		{Property: "ids", Name: "ids[]", Place: actions.InQuery},
		{Property: "path_id", Name: "id", Place: actions.InPath},
		{Property: "id", Name: "id", Place: actions.InBody},
		{Property: "name", Name: "name", Place: actions.InBody},
		{Property: "parent", Name: "parent", Place: actions.InBody},
		{Property: "secret", Name: "secret", Place: actions.InBody},
	}, got.Parameters)
	require.True(t, valid(t, got.Input, `{"path_id":"7","id":1,"name":null,"parent":{"id":2,"name":"n"},"limit":1}`))
	for _, wrong := range []string{`{"id":1,"name":"n"}`, `{"path_id":"7","name":"n"}`, `{"path_id":"7",
		"id":1,"name":"n","limit":0}`,
		`{"path_id":"7","id":1,"name":"n","other":1}`, `{"path_id":"7","id":1,"name":"n","parent":{"id":"x",
			"name":"n"}}`} {
		require.False(t, valid(t, got.Input, wrong), wrong)
	}
	require.True(t, valid(t, got.Output, `{"id":1,"name":"n","made":"today"}`))
	require.NotContains(t, string(got.Output), "secret", "it is only written")
}

// Swagger 2.0 has its own places for bodies, forms, files and types of parameters.
func TestSwagger(t *testing.T) {
	t.Parallel()
	r := read(t, `{"swagger":"2.0","info":{"title":"Old"},"consumes":["application/json"],"paths":{
		"/a":{"post":{"parameters":[{"name":"body","in":"body","required":true,"schema":{"$ref":"#/definitions/A"}},
			{"name":"ids","in":"query","type":"array","items":{"type":"integer"},"collectionFormat":"multi"}],
			"responses":{"201":{"schema":{"$ref":"#/definitions/A"}}}}},
		"/list":{"put":{"parameters":[{"name":"body","in":"body","schema":{"type":"array","items":{
			"type":"string"}}}],"responses":{}}},
		"/upload":{"post":{"consumes":["multipart/form-data"],"parameters":[{"name":"f","in":"formData",
			"type":"file","required":true},
			{"name":"note","in":"formData","type":"string","maxLength":5}],"responses":{}}}},
		"definitions":{"A":{"type":"object","required":["n"],"properties":{"n":{"type":"integer",
			"x-nullable":true}}}}}`)
	a := r["POST /a"].Action
	require.Equal(t, "post_a", a.Name)
	require.True(t, valid(t, a.Input, `{"n":null,"ids":[1]}`))
	require.False(t, valid(t, a.Input, `{"ids":[1]}`))
	require.Equal(t, actions.Parameter{Property: "ids", Name: "ids", Place: actions.InQuery, Style: "form",
		Explode: true},
		a.Parameters[1])
	require.True(t, valid(t, a.Output, `{"n":1}`))
	list := r["PUT /list"].Action
	require.Equal(t, []actions.Parameter{{Property: "body", Name: "body", Place: actions.AsBody}}, list.Parameters)
	require.True(t, valid(t, list.Input, `{"body":["x"]}`))
	upload := r["POST /upload"].Action
	require.Equal(t, "multipart/form-data", upload.Body.ContentType)
	require.True(t, valid(t, upload.Input, `{"f":{"base64":"aGk=","filename":"a"},"note":"12345"}`))
	require.False(t, valid(t, upload.Input, `{"f":"text"}`))
}

// A schema has only what it reaches, ends where it would not, and is bounded; what is missing is said.
func TestSchemasAreBounded(t *testing.T) {
	t.Parallel()
	var chain strings.Builder
	for i := range 400 {
		fmt.Fprintf(&chain, `"L%d":{"type":"object","description":"%s",
			"properties":{"next":{"$ref":"#/components/schemas/L%d"}}},`, i, strings.Repeat("x", 900), i+1)
	}
	r := read(t, openAPI("3.1.0", `{
		"/loop":{"get":{"responses":{"200":{"content":{"application/json":{"schema":{
			"$ref":"#/components/schemas/Self"}}}}}}},
		"/missing":{"get":{"responses":{"200":{"content":{"application/json":{"schema":{"type":["array","null"],"items":
			{"$ref":"other.json#/X"}}}}}}}},
		"/deep":{"get":{"responses":{"200":{"content":{"application/json":{"schema":{
			"$ref":"#/components/schemas/L0"}}}}}}},
		"/cycle":{"get":{"responses":{"200":{"content":{"application/json":{"schema":{
			"$ref":"#/components/schemas/A"}}}}}}},
		"/circle":{"get":{"responses":{"200":{"content":{"application/json":{"schema":{
			"$ref":"#/components/schemas/Z"}}}}}}}}`,
		`{`+chain.String()+`"L400":{"type":"string"},"Self":{"allOf":[{"$ref":"#/components/schemas/Self"},
			{"type":"object"}]},
		"A":{"type":"object","properties":{"b":{"$ref":"#/components/schemas/B"}}},
		"B":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/A"},"n":{"type":"integer"}}},
		"Z":{"$ref":"#/components/schemas/Z"},"Unused":{"type":"object"}}`))
	for _, a := range r {
		require.LessOrEqual(t, len(a.Action.Output), 64<<10)
		require.NotContains(t, string(a.Action.Output), "Unused")
	}
	require.False(t, valid(t, r["GET /loop"].Action.Output, `1`))
	require.Contains(t, strings.Join(r["GET /loop"].Notes, " "), "contains itself")
	require.True(t, valid(t, r["GET /missing"].Action.Output, `[1]`))
	require.False(t, valid(t, r["GET /missing"].Action.Output, `1`))
	require.Contains(t, strings.Join(r["GET /missing"].Notes, " "), "other.json")
	require.Contains(t, strings.Join(r["GET /deep"].Notes, " "), "too large")
	require.False(t, valid(t, r["GET /deep"].Action.Output, `{"next":{"next":1}}`))
	require.False(t, valid(t, r["GET /cycle"].Action.Output, `{"b":{"a":{"b":{"n":"x"}}}}`))
	require.True(t, valid(t, r["GET /circle"].Action.Output, `1`))
}

// A member that is only read is no input, also where a keyword next to a reference says so: such keywords count since
// OpenAPI 3.1.
func TestReadOnlyReferences(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"3.0.0": true, "3.1.0": false} {
		got := read(t, openAPI(version, `{"/a":{"post":{"requestBody":{"content":{"application/json":{"schema":{
			"properties":{"a":{"$ref":"#/components/schemas/A","readOnly":true},"b":{"type":"object",
			"properties":{"a":{"$ref":"#/components/schemas/A","readOnly":true}}}}}}}}}}}`,
			`{"A":{"type":"string"}}`))["POST /a"].Action
		require.Equal(t, want, strings.Contains(string(got.Input), "$ref"))
	}
}

// A number that has a million digits when it is written out is in no schema: validators stop at it, or take seconds.
func TestNumbersAreBounded(t *testing.T) {
	t.Parallel()
	for _, n := range []string{"1e1000001", "-1E-99999", "1e99999999999999999999", strings.Repeat("9", 401), "1e401"} {
		schema := strings.ReplaceAll(`{"minimum":N,"exclusiveMaximum":N,"multipleOf":N,"default":{"a":[N]},"const":[N],
			"enum":[1e3,N]}`, "N", n)
		got := read(t, openAPI("3.1.0", `{"/a":{"get":{"parameters":[{"name":"a","in":"query","schema":`+schema+`}]}}}`,
			`{}`))["GET /a"].Action
		require.JSONEq(t, `{"type":"object","properties":{"a":{"enum":[1000]}},"additionalProperties":false}`,
			string(got.Input))
	}
}

// Operations that cannot be requested, or say two things about their risk, are left out with the place.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	r := read(t, `{"openapi":"3.0.0","paths":{"/../x":{"get":{}},
		"x":{"get":{}},"/{":{"get":{}},"/{}":{"get":{}},
		"/a":{"trace":{},"options":{},"parameters":7,"x-other":{},"head":3,
			"post":{"x-sallyport-risk":{"operation":"read","flags":["moves_money"]}},
			"put":{"x-sallyport-risk":"harmless"},"patch":{"x-sallyport-risk":{"flags":["other"]}},
			"delete":{"x-github":{"triggersNotification":true}}}}}`)
	for name, want := range map[string]string{
		"GET /../x":  "leads upwards",
		"GET x":      "does not begin with a slash",
		"GET /{":     "has no end",
		"GET /{}":    "is empty",
		"TRACE /a":   "does nothing",
		"OPTIONS /a": "does nothing",
		"POST /a":    "contradicts itself",
		"PUT /a":     "level that does not exist",
		"PATCH /a":   "flag that does not exist",
	} {
		require.NotNil(t, r[name].Left, name)
		require.Contains(t, r[name].Left.Message, want)
		require.Positive(t, r[name].Left.Line)
	}
	require.Len(t, r, 10)
	assessed := risk.Assess(&r["DELETE /a"].Action.Call)
	require.Equal(t, risk.High, assessed.Level)
	require.Contains(t, assessed.Flags, risk.NotifiesPeople)
}

// Names stay apart for any ids, and do not depend on the order of the document.
func TestNamesAreDistinct(t *testing.T) {
	t.Parallel()
	r := read(t, openAPI("3.0.0", `{"/a":{"get":{"operationId":"same"}},"/b":{"get":{"operationId":"Same"}},
		"/c":{"get":{}},
		"/d":{"get":{"operationId":"`+strings.Repeat("long ", 2000)+`"}},"/e#x":{"get":{"operationId":"e1"}},
		"/e#y":{"get":{"operationId":"e2"}}}`, `{}`))
	names := map[string]bool{}
	for _, a := range r {
		require.False(t, names[a.Action.Name])
		names[a.Action.Name] = true
		require.LessOrEqual(t, len(a.Action.Name), actions.MaxName)
	}
	require.Regexp(t, `^same_[0-9a-f]{6}$`, r["GET /a"].Action.Name)
	require.Equal(t, "get_c", r["GET /c"].Action.Name)
	require.Equal(t, "/e", r["GET /e#y"].Action.Path, "a fragment is never sent")
}

// A document that is none is refused with the place.
func TestRefusedDocuments(t *testing.T) {
	t.Parallel()
	const neither = "the document has none of openapi, swagger, __schema and the kind discovery#restDescription, so it " +
		"is no description of an API that can be read"
	for text, want := range map[string]string{
		`{"openapi":"3.0.0",`:    "line 1, column 20: expected the name of a member in quotes",
		`[]`:                     "line 1, column 1: expected an object, not an array",
		`{"openapi":"4.0"}`:      "line 1, column 12: the version of OpenAPI must be 3.0 or 3.1",
		`{"swagger":"1.2"}`:      "line 1, column 12: the version of Swagger must be 2.0",
		`{}`:                     neither,
		strings.Repeat("[", 501): "line 1, column 501: more than 500 arrays and objects within each other",
	} {
		_, err := documents.Open([]byte(text))
		var problem *documents.Problem
		require.ErrorAs(t, err, &problem)
		require.EqualError(t, err, want)
	}
	d, err := documents.Open([]byte(`{"openapi":"3.0.0","paths":[]}`))
	require.NoError(t, err)
	_, err = d.Operations()
	require.ErrorContains(t, err, "paths must be an object, not an array")
	var many strings.Builder
	for i := range documents.MaxOperations + 1 {
		fmt.Fprintf(&many, `"/%d":{"get":{}},`, i)
	}
	d, err = documents.Open([]byte(`{"openapi":"3.0.0","paths":{` + strings.TrimSuffix(many.String(), ",") + `}}`))
	require.NoError(t, err)
	_, err = d.Operations()
	require.ErrorContains(t, err, "more than 50000 operations")
}

// The actions of any document have valid names and schemas, and nothing panics.
func FuzzOperations(f *testing.F) {
	f.Add([]byte(openAPI("3.0.0", `{"/a/{b}":{"post":{"operationId":"x","parameters":[{"name":"b",
		"in":"path"},{"$ref":"#/x"}],"requestBody":
		{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}}}}}`,
		`{"A":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/A"}},"allOf":[{"$ref":"#"}]}}`)))
	f.Add([]byte(`{"swagger":"2.0","paths":{"/":{"get":{"parameters":[{"in":"body","name":"b","schema":{
		"enum":[1,1]}}]}}}}`))
	f.Add([]byte(`{"openapi":"3.1.0","paths":{"/":{"$ref":"#/paths/~1"},"/b":{"get":{"responses":{"200":{
		"content":{"*/*":{"schema":true}}}}}}}}`))
	f.Add([]byte(discovery(`{"a":{"methods":{"get":{"id":"zoo.a.get","httpMethod":"GET","path":"a/{+b}/{c}:do",
		"parameters":{"b":{"location":"path","repeated":true,"$ref":"A"},"d":{"location":"query","type":"integer",
		"enum":["1"],"enumDescriptions":["One"],"minimum":"1e9","default":"x"}},"request":{"$ref":"A"},
		"response":{"$ref":"A"},
		"scopes":["s"]},"x":{"id":"zoo.a.Get"}},"resources":{"b":{"methods":{}}}}}`,
		`{"A":{"type":"object","properties":{"a":{"$ref":"A","description":"d","readOnly":true},"b":{"$ref":"A",
		"annotations":{"required":["zoo.a.get"]}}},"additionalProperties":{"$ref":"A"}}}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := documents.Open(text)
		if err != nil {
			return
		}
		list, err := d.Operations()
		if err != nil {
			return
		}
		names := map[string]bool{}
		for r := range list {
			if r.Action == nil {
				continue
			}
			require.False(t, names[r.Action.Name], r.Action.Name)
			names[r.Action.Name] = true
			require.Regexp(t, `^[a-z][a-z0-9_]{0,47}$`, r.Action.Name)
			require.True(t, json.Valid(r.Action.Input), string(r.Action.Input))
			compile(t, r.Action.Input)
			if r.Action.Output != nil {
				compile(t, r.Action.Output)
			}
			require.True(t, risk.Assess(&r.Action.Call).Level.Valid())
			if p := r.Action.Pagination; p != nil {
				for _, name := range []string{p.Parameter, p.Size} {
					require.True(t, name == "" || slices.ContainsFunc(r.Action.Parameters, func(p actions.Parameter) bool {
						return p.Property == name
					}), name)
				}
			}
		}
	})
}
