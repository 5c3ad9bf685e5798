package declared_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/declared"
	"sallyport/internal/providers/risk"
)

const invoices = `
pagination: {type: cursor, parameter: after, size: limit, items: /data, next: /id, next_of_last: true, more: /more}
idempotency: {header: Idempotency-Key}
risk:
  rules:
    - {match: {method: POST, path: "/invoices/*/refund"}, level: critical, flags: [moves_money], reason: It pays back.}
    - {match: {method: [POST, PUT], path: "/payouts/**"}, level: critical, operation: create}
actions:
  style: deep
  inputs:
    invoice: {type: string, description: The ID.}
    limit: {type: integer, minimum: 1, maximum: 50, default: 10}
    after: {type: string}
  schemas:
    money: {type: object, properties: {amount: {type: integer}, currency: {type: string}}, required: [amount]}
    invoice: {type: object, properties: {id: {type: string}, total: {ref: money, description: All of it.}}}
  inline:
    list_invoices:
      title: List invoices
      method: GET
      path: /invoices
      tags: [invoices]
      scopes: ["invoices:read", "invoices:write accounts:read"]
      docs_url: https://docs.acme.example/invoices
      use: [limit, after]
      input:
        created: {type: object, properties: {gte: {type: integer}}}
        states: {name: "state[]", type: array, items: {type: string, enum: [open, paid]}, style: comma}
        trace: {in: header, name: X-Trace, type: string}
      output: {type: object, properties: {data: {type: array, items: {ref: invoice}}, more: {type: boolean}}}
    refund_invoice:
      title: Refund an invoice
      description: |
        Pays back.
      method: POST
      path: /invoices/{invoice}/refund
      deprecated: true
      use: [invoice]
      input:
        total: {ref: money}
        note: {type: [string, "null"], default: null, maxLength: 10}
      required: [total]
      risk: {flags: [notifies_people]}
    get_file:
      title: Get a file
      method: GET
      path: /files/{file}
      input: {file: {type: string, reserved: true}}
    send_file:
      title: Send a file
      method: PUT
      path: /files/{file}
      body: multipart
      idempotency: {header: X-Once}
      input:
        file: {type: string, reserved: true}
        content: {type: string, format: binary, description: The file.}
      required: [content]
`

// A declaration becomes actions as all sources make them: a flat object, the place of each property, and what the
// definition says about all calls.
func TestActions(t *testing.T) {
	t.Parallel()
	list, _ := good(t, invoices)
	require.Len(t, list, 4)
	a := list[0]
	require.Equal(t, "list_invoices", a.Name)
	require.Equal(t, [][]string{{"invoices:read"}, {"invoices:write", "accounts:read"}}, a.Scopes)
	require.Equal(t, "https://docs.acme.example/invoices", a.DocsURL)
	require.Equal(t, []actions.Parameter{
		{Property: "limit", Name: "limit", Place: actions.InQuery, Explode: true},
		{Property: "after", Name: "after", Place: actions.InQuery, Explode: true},
		{Property: "created", Name: "created", Place: actions.InQuery, Style: "deepObject", Explode: true},
		{Property: "states", Name: "state[]", Place: actions.InQuery, Style: "form"},
		{Property: "trace", Name: "X-Trace", Place: actions.InHeader},
	}, a.Parameters)
	require.Equal(t, actions.Body{}, a.Body)
	require.Nil(t, a.Idempotency)
	require.Equal(t, &actions.Pagination{Type: actions.PagesByCursor, Items: "/data", Parameter: "after", Size: "limit",
		MaxSize: 50, Next: "/id", NextOfLast: true, More: "/more"}, a.Pagination)
	require.JSONEq(t, `{"type":"object","properties":{"limit":{"type":"integer","default":10,"minimum":1,"maximum":50},
		"after":{"type":"string"},"created":{"type":"object","properties":{"gte":{"type":"integer"}}},
		"states":{"type":"array","items":{"type":"string","enum":["open","paid"]}},"trace":{"type":"string"}},
		"additionalProperties":false}`, string(a.Input))
	require.JSONEq(t, `{"type":"object","properties":{"data":{"type":"array","items":{"type":"object","properties":{
		"id":{"type":"string"},"total":{"type":"object","description":"All of it.","properties":{"amount":{"type":"integer"},
		"currency":{"type":"string"}},"required":["amount"]}}}},"more":{"type":"boolean"}}}`, string(a.Output))

	a = list[1]
	require.Equal(t, "Pays back.", a.Description)
	require.True(t, a.Deprecated)
	require.Equal(t, []actions.Parameter{
		{Property: "invoice", Name: "invoice", Place: actions.InPath},
		{Property: "total", Name: "total", Place: actions.InBody},
		{Property: "note", Name: "note", Place: actions.InBody},
	}, a.Parameters)
	require.Equal(t, actions.Body{ContentType: "application/json", Required: true}, a.Body)
	require.Equal(t, &actions.Idempotency{Header: "Idempotency-Key"}, a.Idempotency)
	require.Nil(t, a.Pagination)
	require.True(t, valid(t, a.Input, `{"invoice":"in_1","total":{"amount":1},"note":null}`))
	for _, wrong := range []string{`{"total":{"amount":1}}`, `{"invoice":"in_1"}`, `{"invoice":"in_1","total":{}}`,
		`{"invoice":"in_1","total":{"amount":1},"other":1}`} {
		require.False(t, valid(t, a.Input, wrong), wrong)
	}
	of := risk.Assess(&a.Call)
	require.Equal(t, risk.Critical, of.Level)
	require.Equal(t, risk.FromDefinition, of.Source)
	require.Equal(t, "It pays back.", of.Reasons[0])
	require.Subset(t, of.Flags, []risk.Flag{risk.MovesMoney, risk.NotifiesPeople})

	require.Equal(t, []actions.Parameter{{Property: "file", Name: "file", Place: actions.InPath, Reserved: true}},
		list[2].Parameters)
	require.Equal(t, actions.Body{ContentType: "multipart/form-data", Required: true}, list[3].Body)
	require.Equal(t, &actions.Idempotency{Header: "X-Once"}, list[3].Idempotency)
	require.True(t, valid(t, list[3].Input, `{"file":"a/b","content":{"base64":"aGk=","filename":"a.txt"}}`))
	require.False(t, valid(t, list[3].Input, `{"file":"a/b","content":"aGk="}`))
}

// one is a declaration with one action that has these fields besides its title.
func one(fields string) string {
	return "actions: {inline: {act: {title: Act, " + fields + "}}}"
}

// Inputs go where their style, place and the form of the body say.
func TestPlaces(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]actions.Parameter{
		"method: POST, path: /a, input: {x: {type: string}}":             {Place: actions.InBody},
		"method: DELETE, path: /a, input: {x: {type: string}}":           {Place: actions.InQuery, Explode: true},
		"method: DELETE, path: /a, input: {x: {in: body, type: string}}": {Place: actions.InBody},
		"method: POST, path: /a, body: form, input: {x: {type: string}}": {Place: actions.InBody, Explode: true},
		"method: GET, path: /a, input: {x: {type: object, style: json}}": {Place: actions.InQuery, JSON: true},
		"method: GET, path: /a, input: {x: {type: object, style: each}}": {Place: actions.InQuery,
			Style: "form", Explode: true},
		"method: GET, path: /a, input: {x: {type: array, items: {}}}": {Place: actions.InQuery, Explode: true},
		"method: GET, path: /a, input: {x: {type: array, items: {}, style: space}}": {Place: actions.InQuery,
			Style: "spaceDelimited"},
		"method: GET, path: /a, input: {x: {type: array, items: {}, style: pipe}}": {Place: actions.InQuery,
			Style: "pipeDelimited"},
		"method: PUT, path: /a, input: {x: {in: whole_body}}":       {Place: actions.AsBody},
		"method: POST, path: '/a/{x}', input: {x: {type: integer}}": {Place: actions.InPath},
		"method: GET, path: /a, input: {x: {in: header, type: object, style: each}}": {Place: actions.InHeader,
			Style: "form", Explode: true},
		"method: GET, path: /a, input: {x: {in: header, type: array, items: {}}}": {Place: actions.InHeader},
	} {
		list, _ := good(t, one(fields))
		want.Property, want.Name = "x", "x"
		require.Equal(t, []actions.Parameter{want}, list[0].Parameters, fields)
		schema(t, list[0].Input)
	}
	list, _ := good(t, one("method: GET, path: /a/"))
	require.Equal(t, "/a/", list[0].Path)
	list, _ = good(t, one("method: PUT, path: /a, input: {x: {in: whole_body, type: string, format: binary}}, "+
		"required: [x]"))
	require.Equal(t, actions.Body{ContentType: "application/octet-stream", Required: true}, list[0].Body)
}

// Headers that a caller names cannot carry credentials, frame the message or change the method, however they are
// spelled; neither can parameters of the query.
func TestNamedHeaders(t *testing.T) {
	t.Parallel()
	list, _ := good(t, one("method: GET, path: /a, input: {headers: {in: header, type: object, style: each, "+
		"additionalProperties: {type: string}}, query: {in: query, type: object, style: each}}"))
	for _, name := range []string{"Accept", "X-Request-Id", "If-Match", "Hosting"} {
		require.True(t, valid(t, list[0].Input, `{"headers":{"`+name+`":"x"}}`), name)
	}
	for _, name := range []string{"Authorization", "AUTHORIZATION", "cookie", "Host", "Transfer-Encoding", "x-Api-key",
		"X-HTTP-Method-Override", "Proxy-Authorization", "X-Forwarded-For", "X-Sallyport-Max-Attempts", "a b",
		"a\\r\\nb", ""} {
		require.False(t, valid(t, list[0].Input, `{"headers":{"`+name+`":"x"}}`), name)
	}
	require.True(t, valid(t, list[0].Input, `{"query":{"page":2}}`))
	require.False(t, valid(t, list[0].Input, `{"query":{"_Method":"DELETE"}}`))
}

// Rules hold for calls that are declared elsewhere as for the definition's own.
func TestRules(t *testing.T) {
	t.Parallel()
	_, rules := good(t, invoices)
	for call, want := range map[string]risk.Level{
		"POST /invoices/in_1/refund":       risk.Critical,
		"POST /invoices/{id}/refund":       risk.Critical,
		"POST /invoices/in_1/refund?x=/y":  risk.Critical,
		"GET /invoices/in_1/refund":        "",
		"POST /invoices/in_1/refund/again": "",
		"POST /invoices/refund":            "",
		"POST /payouts/po_1/items/2":       risk.Critical,
		"PUT /payouts":                     risk.Critical,
		"PUT /payouts/po_1":                risk.Critical,
	} {
		method, path, _ := strings.Cut(call, " ")
		got := rules.Stated(method, path, "")
		if want == "" {
			require.Nil(t, got, call)
			continue
		}
		require.NotNil(t, got, call)
		require.Equal(t, want, got.Level, call)
	}
	imported := &actions.Action{Method: "POST", Path: "/payouts/{id}",
		Parameters: []actions.Parameter{{Property: "after"}}}
	rules.Complete(imported)
	require.Equal(t, "Idempotency-Key", imported.Idempotency.Header)
	require.Equal(t, "after", imported.Pagination.Parameter)
	require.Empty(t, imported.Pagination.Size, "it has no such input")
	require.Equal(t, risk.Critical, risk.Assess(&imported.Call).Level)
	own := &actions.Action{Method: "GET", Path: "/x", Pagination: &actions.Pagination{Type: actions.PagesByLink}}
	rules.Complete(own)
	require.Equal(t, actions.PagesByLink, own.Pagination.Type)
	require.Nil(t, own.Idempotency)
	var none *declared.Rules
	none.Complete(own)
	require.Nil(t, none.Stated("POST", "/payouts", ""))
}

// Lists continue as the action says, and otherwise as is usual for the inputs that it has.
func TestPagination(t *testing.T) {
	t.Parallel()
	list, _ := good(t, `
pagination: {type: link, size: per_page}
actions:
  inputs: {per_page: {type: integer, maximum: 100}}
  inline:
    a: {title: A, method: GET, path: /a, use: [per_page]}
    b: {title: B, method: GET, path: /b, use: [per_page], pagination: {items: /items}}
    c: {title: C, method: GET, path: /c, use: [per_page], pagination: none}
    d: {title: D, method: GET, path: /d}
    e:
      {title: E, method: GET, path: /e, input: {n: {type: integer}}, pagination: {type: page, parameter: n, first: 1}}
`)
	require.Equal(t, &actions.Pagination{Type: actions.PagesByLink, Size: "per_page", MaxSize: 100}, list[0].Pagination)
	require.Equal(t, "/items", list[1].Pagination.Items)
	require.Nil(t, list[2].Pagination)
	require.Nil(t, list[3].Pagination)
	require.Equal(t, &actions.Pagination{Type: actions.PagesByNumber, Parameter: "n", First: 1}, list[4].Pagination)
}

// Actions can be at a base URL of their own, and two that differ in it alone are two.
func TestBaseURLs(t *testing.T) {
	t.Parallel()
	list, _ := good(t, `
actions:
  inline:
    a: {title: A, method: GET, path: /a}
    b: {title: B, method: GET, path: /a, base_url: "https://api.acme.example/v3"}
    c: {title: C, method: GET, path: /a, base_url: "https://api.acme.example/v4"}
`)
	require.Empty(t, list[0].BaseURL)
	require.Equal(t, "https://api.acme.example/v3", list[1].BaseURL)
	require.Equal(t, "https://api.acme.example/v4", list[2].BaseURL)
}
