package comparison_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/longtext"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/comparison"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/registry"
)

// head is a definition up to its actions.
const head = `schema: 1
slug: acme
display_name: Acme
categories: [crm]
docs_url: https://acme.example/docs
base_url: https://api.acme.example/v2
allowed_hosts: [api.acme.example]
auth: [{mode: bearer, request: {query: {team: "${cred.token}"}}}]
request: {headers: {Acme-Version: "2"}}
idempotency: {header: Idempotency-Key}
actions:
`

// api describes the API of which head makes requests.
const api = `openapi: 3.1.0
info: {title: Acme, version: "1"}
servers: [{url: "https://api.acme.example/v2"}]
security: [{oauth: [read, write]}]
components:
  securitySchemes:
    oauth: {type: oauth2, flows: {authorizationCode: {authorizationUrl: "https://a.example/a", tokenUrl: "https://a.example/t", scopes: {}}}}
  schemas:
    person: {type: object, required: [name], properties: {name: {type: string}, age: {type: integer}, boss: {$ref: "#/components/schemas/person"}}}
paths:
  /things:
    get:
      parameters:
        - {name: state, in: query, schema: {type: string, enum: [open, closed]}}
        - {name: limit, in: query, schema: {type: integer}}
        - {name: labels, in: query, schema: {type: array, items: {type: string, enum: [a, b]}}}
        - {name: "created[gte]", in: query, schema: {type: string}}
        - {name: owner, in: query, required: true, schema: {type: string}}
        - {name: team, in: query, required: true, schema: {type: string}}
        - {name: Acme-Version, in: header, required: true, schema: {type: string}}
        - {name: old, in: query, schema: {type: string, deprecated: true}}
      responses: {"200": {description: Things.}}
    post:
      parameters: [{name: Idempotency-Key, in: header, required: true, schema: {type: string}}]
      requestBody:
        content:
          application/json:
            schema:
              type: object
              required: [name]
              properties:
                name: {type: string}
                size: {type: [integer, "null"]}
                person: {$ref: "#/components/schemas/person"}
                free: {type: object, additionalProperties: true}
                ids: {type: array, items: {type: integer}}
      responses: {"200": {description: A thing.}}
  /things/{thing_id}:
    get:
      deprecated: true
      parameters: [{name: thing_id, in: path, required: true, schema: {type: integer}}]
      responses: {"200": {description: A thing.}}
    put:
      parameters: [{name: thing_id, in: path, required: true, schema: {type: integer}}]
      requestBody: {required: true, content: {application/json: {schema: {oneOf: [{type: object, properties: {a: {type: string}}}, {type: object, properties: {b: {type: boolean}}}]}}}}
      responses: {"200": {description: A thing.}}
    trace: {responses: {"200": {description: The request.}}}
`

// provider loads a definition with actions.
func provider(t *testing.T, text string) *registry.Provider {
	t.Helper()
	loaded, err := registry.Load(fstest.MapFS{"acme.yaml": {Data: []byte(text), Mode: 0o644}})
	require.NoError(t, err)
	p, found := loaded.Get("acme")
	require.True(t, found)
	return p
}

// compare returns the differences between actions and a document, one a line.
func compare(t *testing.T, declared, document string) string {
	t.Helper()
	d, err := documents.OpenAny(longtext.Of([]byte(document)))
	require.NoError(t, err)
	found, err := comparison.Compare(provider(t, head+declared), d)
	require.NoError(t, err)
	lines := make([]string, len(found))
	for i, one := range found {
		lines[i] = one.Field + ": " + one.Message
	}
	return strings.Join(lines, "\n")
}

// one is a definition with one action.
func one(fields string) string {
	return "  inline:\n    act: {title: Act, " + fields + "}\n"
}

const (
	list   = "method: GET, path: /things, required: [owner], input: {owner: {type: string}, "
	create = "method: POST, path: /things, required: [name], input: {name: {type: string}, "
)

// Actions that are as the document has them differ in nothing: also where they are narrower, where an input is written
// as
// text, where the definition sets what the document requires, and where the document leaves something open.
func TestAgreement(t *testing.T) {
	t.Parallel()
	for _, declared := range []string{
		one("method: GET, path: /things, scopes: [read write], required: [owner], input: {owner: {type: string}, " +
			"state: {type: string, enum: [open]}, limit: {type: integer}, labels: {type: string}}"),
		one(list + "labels: {type: array, items: {type: string, enum: [a]}, style: comma}}"),
		one(list + "created: {type: object, style: deep, properties: {gte: {type: string}}}}"),
		one(create + "size: {type: integer}, ids: {type: array, items: {type: integer}}}"),
		one(create + "size: {type: [integer, 'null']}, free: {type: object, properties: {x: {type: string}}}}"),
		one(create + "person: {type: object, required: [name], properties: {name: {type: string}, boss: {type: object, " +
			"properties: {name: {type: string}}}}}}"),
		one("method: POST, path: /things, required: [all], input: {all: {in: whole_body, type: object, properties: {name: " +
			"{type: string}}}}"),
		one("method: GET, path: '/things/{id}', deprecated: true, input: {id: {type: integer}}"),
		one("method: GET, path: /things/7, deprecated: true"),
		one("method: PUT, path: '/things/{id}', input: {id: {type: integer}, a: {type: string}, b: {type: boolean}}"),
	} {
		require.Empty(t, compare(t, declared, api), declared)
	}
}

// Each way in which an action can differ from the document is found, with the field and the reason.
func TestDifferences(t *testing.T) {
	t.Parallel()
	const act = "actions.inline.act"
	for _, tt := range []struct{ declared, want string }{
		{one("method: GET, path: /other"), act + ": is GET /other, which the document does not have"},
		{one("method: DELETE, path: /things"), act + ": is DELETE /things, which is GET, POST in the document"},
		{one("method: GET, path: '/things/{id}', input: {id: {type: integer}}"),
			act + ": is deprecated in the document, and here it is not"},
		{one("method: GET, path: '/things/{id}', deprecated: true, input: {id: {type: boolean}}"),
			act + ".input.id: is boolean, and in the document integer"},
		{one("method: GET, path: /things"), act + ": does not have owner in the query, which the document requires"},
		{one("method: GET, path: /things, input: {owner: {type: string}}"),
			act + ".input.owner: is not required, and in the document it is"},
		{one(list + "other: {type: string}}"), act + ".input.other: is other in the query, which the document does not have"},
		{one(list + "h: {in: header, name: X-H, type: string}}"), act + ".input.h: is X-H in the header, which the " +
			"document does not have"},
		{one(list + "state: {type: string, enum: [open, gone]}}"),
			act + ".input.state: has the value gone, and in the document there are open, closed"},
		{one(list + "limit: {type: string}}"), act + ".input.limit: is string, and in the document integer"},
		{one(list + "labels: {type: array, items: {type: string, enum: [c]}}}"),
			act + ".input.labels: has items, which has the value c, and in the document there are a, b"},
		{one(list + "old: {type: string}}"), act + ".input.old: is deprecated in the document"},
		{one(create + "size: {type: string}}"), act + ".input.size: is string, and in the document integer or null"},
		{one(create + "owner: {in: query, type: string}, size: {in: query, type: integer}}"),
			act + ".input.size: is in the query, and the document has size in the body"},
		{one(create + "person: {type: object, properties: {name: {type: string}, nick: {type: string}}}}"),
			act + ".input.person: has nick, which the document does not have"},
		{one(create + "person: {type: object, properties: {age: {type: integer}}}}"),
			act + ".input.person: does not have name, which the document requires"},
		{one(create + "person: {type: object, properties: {name: {type: string}, boss: {type: object, properties: " +
			"{name: {type: string}, age: {type: string}}}}}}"),
			act + ".input.person: has boss.age, which is string, and in the document integer"},
		{one(create + "ids: {type: array, items: {type: string}}}"),
			act + ".input.ids: has items, which is string, and in the document integer"},
		{one("method: POST, path: /things, input: {all: {in: whole_body, type: array, items: {type: string}}}"),
			act + ".input.all: is array, and in the document object"},
		{one("method: PUT, path: '/things/{id}', input: {id: {type: integer}}"),
			act + ": has no body, which the document requires"},
		{one("method: PUT, path: '/things/{id}', input: {id: {type: integer}, c: {type: string}}"),
			act + ".input.c: is c in the body, which the document does not have"},
		{one("method: GET, path: /things, scopes: ['read admin', write], required: [owner], input: {owner: {type: string}}"),
			act + ".scopes[0]: has admin, and the document has read, write"},
	} {
		require.Contains(t, "\n"+compare(t, tt.declared, api)+"\n", "\n"+tt.want+"\n", tt.declared)
	}
	require.Empty(t, compare(t, one("method: GET, path: '/v2/things/{id}', deprecated: true, input: {id: {type: "+
		"integer}}"),
		api), "a path may have that of the servers")
	require.Equal(t, act+": is GET /v2/things, which the document does not have",
		compare(t, one("method: GET, path: /v2/things"), strings.Replace(api, "/v2\"", "/v3\"", 1)))
}

// A definition without actions, and an operation that cannot be read, are said to be so, not passed over.
func TestNothingToCompare(t *testing.T) {
	t.Parallel()
	d, err := documents.OpenAny(longtext.Of([]byte(api)))
	require.NoError(t, err)
	found, err := comparison.Compare(provider(t, strings.TrimSuffix(head, "actions:\n")), d)
	require.NoError(t, err)
	require.Equal(t, []comparison.Difference{{Field: "actions", Message: "has no actions that could be compared with " +
		"the document"}}, found)
	broken := strings.Replace(api, "      requestBody:\n        content:",
		"      requestBody:\n        $ref: '#/components/gone'\n        content:", 1)
	require.Contains(t, compare(t, one(create+"size: {type: integer}}"), broken),
		"actions.inline.act: cannot be compared: the document's operation cannot be read: ")
	d, err = documents.OpenAny(longtext.Of([]byte(`{"openapi":"3.0.0","paths":[]}`)))
	require.NoError(t, err)
	_, err = comparison.Compare(provider(t, head+one("method: GET, path: /a")), d)
	require.ErrorContains(t, err, "paths must be an object")
}

// Swagger 2.0 and Google Discovery are read in the same way, with the paths of their servers.
func TestOtherFormats(t *testing.T) {
	t.Parallel()
	const swagger = `{"swagger":"2.0","info":{"title":"A"},"host":"api.acme.example","basePath":"/v2","paths":{"/things":{"post":{
		"consumes":["application/x-www-form-urlencoded"],
		"parameters":[{"name":"name","in":"formData","type":"string","required":true}],"responses":{"200":{"description":"A."}}}}}}`
	require.Empty(t, compare(t, "  body: form\n"+one("method: POST, path: /v2/things, required: [name], input: {name: "+
		"{type: string}}"), swagger))
	require.Equal(t, "actions.inline.act: does not have name in the body, which the document requires",
		compare(t, one("method: POST, path: /things"), swagger))
	const discovery = `{"kind":"discovery#restDescription","discoveryVersion":"v1","name":"zoo","rootUrl":"https://api.acme.example/",
		"servicePath":"v2/","auth":{"oauth2":{"scopes":{}}},"resources":{"things":{"methods":{"get":{"id":"zoo.things.get","path":"things/{thingId}",
		"httpMethod":"GET","scopes":["https://www.googleapis.com/auth/zoo"],
		"parameters":{"thingId":{"type":"string","location":"path","required":true}}}}}}}`
	require.Equal(t, "actions.inline.act.scopes[0]: has zoo, and the document has https://www.googleapis.com/auth/zoo\n"+
		"actions.inline.act.input.fields: is array, and in the document string",
		compare(t, one("method: GET, path: '/things/{id}', scopes: [zoo], input: {id: {type: string}, fields: {type: "+
			"array, items: {type: string}}}"),
			strings.Replace(discovery, `"resources"`,
				`"parameters":{"fields":{"type":"string","location":"query","enum":["a"]}},"resources"`, 1)))
	require.Empty(t, compare(t, one("method: GET, path: '/things/{id}', input: {id: {type: string}}"), discovery))
}

// Of an action of GraphQL the field and its required arguments are compared.
func TestGraphQL(t *testing.T) {
	t.Parallel()
	d, err := documents.OpenAny(longtext.Of([]byte("type Query { thing(id: ID!, size: Int): String old: String @deprecated }\n" +
		"type Mutation { change(id: ID!): String }\n")))
	require.NoError(t, err)
	p := provider(t, head+one("method: POST, path: /graphql"))
	for text, want := range map[string]string{
		"query Q($id: ID!) { thing(id: $id) }": "",
		"{ thing(id: 1, size: 2) }":            "",
		"mutation { done: change(id: 1) }":     "",
		"query { thing }":                      "does not have the argument id, which the document requires",
		"query { gone }":                       "sends the query gone, which the document does not have",
		"mutation { thing(id: 1) }":            "sends the mutation thing, which the document does not have",
		"query { old }":                        "is deprecated in the document, and here it is not",
		"fragment F on Thing { id }":           "sends an operation of GraphQL whose field cannot be found",
		"":                                     "cannot be compared with a GraphQL schema: it sends no operation of GraphQL",
	} {
		a := *p.Actions[0]
		a.Body.GraphQL = text
		p.Actions = []*actions.Action{&a}
		found, err := comparison.Compare(p, d)
		require.NoError(t, err)
		if want == "" {
			require.Empty(t, found, text)
			continue
		}
		require.Equal(t, []comparison.Difference{{Field: "actions.inline.act", Message: want}}, found, text)
	}
	other, err := documents.OpenAny(longtext.Of([]byte(api)))
	require.NoError(t, err)
	p.Actions[0].Body.GraphQL = "{ thing(id: 1) }"
	found, err := comparison.Compare(p, other)
	require.NoError(t, err)
	require.Equal(t, "sends an operation of GraphQL, and the document is no GraphQL schema", found[0].Message)
}

// Schemas that contain themselves, and schemas of any form, end and do not panic.
func FuzzCompare(f *testing.F) {
	f.Add(`{"$ref":"#/components/schemas/a"}`, `{"allOf":[{"$ref":"#/components/schemas/a"}]}`)
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#/components/schemas/b"}}}`,
		`{"anyOf":[{"type":"object","properties":{"b":true}},false]}`)
	f.Add(`{"enum":[1,null,{}],"const":[1]}`, `{"type":["string","null"],"items":{"items":false}}`)
	p, err := registry.Load(fstest.MapFS{"acme.yaml": {Mode: 0o644, Data: []byte(head + one("method: POST, path: /a, "+
		"input: {"+
		"a: {type: object, properties: {a: {type: object, properties: {a: {type: string}}}}}, "+
		"b: {type: array, items: {anyOf: [{type: string, enum: [x]}, {type: object, properties: {b: {type: integer}}}]}}, "+
		"q: {in: query, type: [string, array], items: {type: string}}}"))}})
	require.NoError(f, err)
	acme, _ := p.Get("acme")
	f.Fuzz(func(t *testing.T, a, b string) {
		d, err := documents.Open([]byte(`{"openapi":"3.1.0","info":{},"components":{"schemas":{"a":` + a + `,"b":` + b + `}},"paths":{"/a":{"post":{
			"parameters":[{"name":"q","in":"query","schema":` + b + `}],
			"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"a":` + a + `,"b":` + b + `}}}}}}}}}`))
		if err != nil {
			return
		}
		found, err := comparison.Compare(acme, d)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range found {
			if one.Field == "" || one.Message == "" {
				t.Fatalf("an empty difference: %q", one)
			}
		}
	})
}
