package documents_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/documents"
)

// parameters writes query parameters: name, type and further members of the schema.
func parameters(list ...string) string {
	out := ""
	for pair := range slices.Chunk(list, 2) {
		if out != "" {
			out += ","
		}
		out += fmt.Sprintf(`{"name":%q,"in":"query","schema":{"type":%s}}`, pair[0], pair[1])
	}
	return out
}

// paged reads an operation with parameters and a response.
func paged(t *testing.T, parameters, response, header, more string) *actions.Pagination {
	t.Helper()
	r := read(t, fmt.Sprintf(`{"openapi":"3.0.0","paths":{"/v1/pets":{"get":{%s"parameters":[%s],"responses":{"200":{
		"headers":{%q:{"description":"URLs of pages"}},"content":{"application/json":{"schema":%s}}}}}}}}`, more,
		parameters, header,
		response))
	return r["GET /v1/pets"].Action.Pagination
}

const (
	integer = `"integer"`
	text    = `"string"`
	array   = `{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"}}}}`
)

// object writes the schema of an object.
func object(members string) string { return `{"type":"object","properties":{` + members + `}}` }

// A list continues as parameters and response say together; the most certain way wins.
func TestPagination(t *testing.T) {
	t.Parallel()
	data := `"data":` + array
	for name, c := range map[string]struct {
		parameters, response string
		want                 actions.Pagination
	}{
		"a cursor in an object about pages": {parameters("cursor", text, "limit", `"integer","maximum":200`),
			object(data + `,"response_metadata":` + object(`"next_cursor":{"type":"string"}`)),
			actions.Pagination{Type: actions.PagesByCursor, Items: "/data", Parameter: "cursor", Size: "limit", MaxSize: 200,
				Next: "/response_metadata/next_cursor"}},
		"a token, and a flag": {parameters("pageToken", text, "page", integer),
			object(`"pets":` + array + `,"tags":` + array + `,"nextPageToken":{"allOf":[{"type":"string"},{"description":"x"}]},
				"has_more":{"type":"boolean"}`),
			actions.Pagination{Type: actions.PagesByCursor, Items: "/pets", Parameter: "pageToken", Next: "/nextPageToken",
				More: "/has_more"}},
		"the id of the last item": {parameters("starting_after", text, "ending_before", text, "limit", integer),
			object(data + `,"has_more":{"type":"boolean"}`),
			actions.Pagination{Type: actions.PagesByCursor, Items: "/data", Parameter: "starting_after", Size: "limit",
				Next:       "/id",
				NextOfLast: true, More: "/has_more"}},
		"a URL in the response": {parameters("limit", integer, "offset", integer),
			object(`"results":` + array + `,"next":{"type":"string","format":"uri","nullable":true},"count":{"type":"integer"}`),
			actions.Pagination{Type: actions.PagesByBodyLink, Items: "/results", Size: "limit", Next: "/next"}},
		"a link of HAL": {parameters("q", text), object(`"_embedded":` + object(`"pets":`+array) + `,"_links":` +
			object(`"self":`+object(`"href":{"type":"string"}`)+`,"next":`+object(`"href":{"type":"string"}`))),
			actions.Pagination{Type: actions.PagesByBodyLink, Items: "/_embedded/pets", Next: "/_links/next/href"}},
		"a link of OData": {"", object(`"value":` + array + `,"@odata.nextLink":{"type":"string"}`),
			actions.Pagination{Type: actions.PagesByBodyLink, Items: "/value", Next: "/@odata.nextLink"}},
		"the header Link": {parameters("page", integer, "per_page", integer), array,
			actions.Pagination{Type: actions.PagesByLink, Size: "per_page"}},
	} {
		require.Equal(t, &c.want, paged(t, c.parameters, c.response, "link", ""), name)
	}
}

// Pages by number and by offset need to know where the first one is.
func TestPaginationByNumbers(t *testing.T) {
	t.Parallel()
	number := func(first int, size string) *actions.Pagination {
		return &actions.Pagination{Type: actions.PagesByNumber, Items: "/data", Parameter: "page", Size: size, First: first}
	}
	offset := func(name, size string) *actions.Pagination {
		return &actions.Pagination{Type: actions.PagesByOffset, Items: "/data", Parameter: name, Size: size}
	}
	for list, want := range map[string]*actions.Pagination{
		parameters("page", `"integer","default":0`, "size", integer):                    number(0, "size"),
		parameters("page", `"integer","minimum":1`):                                     number(1, ""),
		parameters("page", integer, "per_page", integer):                                number(1, "per_page"),
		parameters("page", integer, "limit", integer, "page_size", integer):             number(1, "page_size"),
		parameters("page", `"integer","description":"Zero-based"`, "size", integer):     number(0, "size"),
		parameters("page", `"integer","default":1`, "count", integer, "limit", integer): number(1, ""),
		parameters("offset", integer, "limit", integer, "pageSize", integer):            offset("offset", "limit"),
		parameters("$skip", integer, "$top", integer):                                   offset("skip", "top"),
		parameters("startAt", integer, "maxResults", integer):                           offset("startAt", "maxResults"),
		parameters("start", `"integer","minimum":0`, "count", integer):                  offset("start", "count"),
		parameters("page", integer, "size", integer):                                    nil,
		parameters("page", integer):                                                     nil,
		parameters("page", text, "limit", integer):                                      nil,
		parameters("pageIndex", integer, "pageSize", integer):                           nil,
		parameters("page", `"integer","minimum":5`, "limit", integer):                   nil,
		parameters("offset", integer):                                                   nil,
		parameters("offset", text, "limit", integer):                                    nil,
		parameters("offset", `"integer","default":1`, "limit", integer):                 nil,
		parameters("offset", `"integer","description":"Page number"`, "limit", integer): nil,
		parameters("start", integer, "end", integer, "limit", integer):                  nil,
		parameters("start", `"integer","description":"Unix time"`, "limit", integer):    nil,
		parameters("start", `"integer","minimum":0`, "end", integer, "limit", integer):  nil,
		parameters("startIndex", integer, "count", integer):                             nil,
		parameters("from", integer, "to", integer, "size", integer):                     nil,
		parameters("limit", integer):                                                    nil,
		"":                                                                              nil,
	} {
		r := read(t, fmt.Sprintf(`{"openapi":"3.1.0","paths":{"/a":{"get":{"parameters":[%s],"responses":{"200":{"content":{
			"application/json":{"schema":%s}}}}}}}}`, list, object(`"data":`+array)))
		require.Equal(t, want, r["GET /a"].Action.Pagination, list)
	}
}

// Without certainty there is no pagination: a wrong one would leave out items, or never end.
func TestNoPagination(t *testing.T) {
	t.Parallel()
	next := `,"next_cursor":{"type":"string"}`
	cursor := parameters("cursor", text)
	for name, c := range map[string][2]string{
		"no list": {cursor, object(`"name":{"type":"string"}` + next)},
		"two lists": {cursor, object(`"pets":` + `{"type":"string"},"dogs":` + array + `,
			"cats":` + array + next)},
		"errors are no list":            {cursor, object(`"errors":` + array + next)},
		"no member with the next value": {cursor, object(`"data":` + array)},
		"a member that is an object":    {cursor, object(`"data":` + array + `,"next_cursor":{"type":"object"}`)},
		"the cursor that was sent":      {cursor, object(`"data":` + array + `,"cursor":{"type":"string"}`)},
		"next of something else": {"", object(`"data":` + array + `,"next":{"type":"string",
			"description":"The next step"}`)},
		"a cursor and no parameter":  {parameters("filter", text), object(`"data":` + array + next)},
		"a parameter that is a list": {parameters("cursor", `"array"`), object(`"data":` + array + next)},
		"a last item without an id": {parameters("starting_after", text), object(`"data":{"type":"array",
			"items":{"type":"string"}},"has_more":{"type":"boolean"}`)},
	} {
		require.Nil(t, paged(t, c[0], c[1], "x-other", ""), name)
	}
	require.Nil(t, paged(t, "", array, "Link", ""), "a Link that may be any")
}

// Schemas that contain themselves in many ways end all the same, for each of many operations.
func TestPagesOfEndlessSchemas(t *testing.T) {
	t.Parallel()
	self := strings.TrimSuffix(strings.Repeat(`{"$ref":"#/components/schemas/A"},`, 1000), ",")
	var paths strings.Builder
	for i := range 20 {
		fmt.Fprintf(&paths, `"/%d":{"get":{"parameters":[%s],"responses":{"200":{"content":{"application/json":{"schema":{
			"$ref":"#/components/schemas/A"}}}}}}},`, i, parameters("cursor", text))
	}
	d, err := documents.Open([]byte(openAPI("3.1.0", "{"+strings.TrimSuffix(paths.String(), ",")+"}", `{"A":{
		"allOf":[`+self+`],"oneOf":[`+self+`],"properties":{"data":{"anyOf":[`+self+`]},
		"meta":{"$ref":"#/components/schemas/A"}}}}`)))
	require.NoError(t, err)
	list, err := d.Operations()
	require.NoError(t, err)
	for r := range list {
		require.Nil(t, r.Action.Pagination)
	}
}

// Extensions say how a list continues; one that does not fit the operation counts for nothing.
func TestStatedPagination(t *testing.T) {
	t.Parallel()
	response := object(`"value":` + array + `,"others":` + array + `,"nextLink":{"type":"string"},"meta":` +
		object(`"next":{"type":"string"}`))
	query := parameters("cursor", text, "page", integer, "offset", integer, "limit", integer)
	for stated, want := range map[string]*actions.Pagination{
		`"x-ms-pageable":{"nextLinkName":"nextLink"},`: {Type: actions.PagesByBodyLink, Items: "/value", Next: "/nextLink",
			Size: "limit"},
		`"x-ms-pageable":{"nextLinkName":"@odata.nextLink","itemName":"others"},`: {Type: actions.PagesByBodyLink,
			Items: "/others",
			Next:  "/@odata.nextLink", Size: "limit"},
		`"x-ms-pageable":{"nextLinkName":null},`: nil,
		`"x-speakeasy-pagination":{"type":"cursor","inputs":[{"name":"cursor","in":"parameters","type":"cursor"}],"outputs":{
			"results":"$.value","nextCursor":"$.meta.next"}},`: {Type: actions.PagesByCursor, Items: "/value",
			Parameter: "cursor",
			Size:      "limit", Next: "/meta/next"},
		`"x-speakeasy-pagination":{"type":"offsetLimit","inputs":[{"name":"page","in":"parameters","type":"page"}],"outputs":{
			"results":"$.others"}},`: {Type: actions.PagesByNumber, Items: "/others", Parameter: "page", Size: "limit",
			First: 1},
		`"x-speakeasy-pagination":{"type":"offsetLimit","inputs":[{"name":"offset","type":"offset"},{"name":"limit",
			"type":"limit"}],
			"outputs":{"results":"$.others"}},`: {Type: actions.PagesByOffset, Items: "/others", Parameter: "offset",
			Size: "limit"},
		`"x-speakeasy-pagination":{"type":"url","outputs":{"results":"$.value","nextUrl":"$.nextLink"}},`: {
			Type: actions.PagesByBodyLink, Items: "/value", Next: "/nextLink", Size: "limit"},
		`"x-speakeasy-pagination":{"type":"cursor","inputs":[{"name":"other","type":"cursor"}],
			"outputs":{"results":"$.value"}},`: nil,
		`"x-speakeasy-pagination":{"type":"url","outputs":{"results":"$.value",
			"nextUrl":"$..x[0]"}},`: nil,
		`"x-fern-pagination":{"cursor":"$request.cursor","next_cursor":"$response.meta.next","results":"$response.value"},`: {
			Type: actions.PagesByCursor, Items: "/value", Parameter: "cursor", Size: "limit", Next: "/meta/next"},
		`"x-fern-pagination":{"offset":"$request.page","results":"$response.value"},`: {Type: actions.PagesByNumber,
			Items:     "/value",
			Parameter: "page", Size: "limit", First: 1},
		`"x-fern-pagination":{"offset":"$request.none","results":"$response.value"},`: nil,
	} {
		require.Equal(t, want, paged(t, query, response, "link", stated), stated)
	}
}

// A POST continues a list only if it reads, with a member of its body; other calls never do.
func TestPaginationOfWrites(t *testing.T) {
	t.Parallel()
	const operation = `{"operationId":%q,"parameters":[{"name":"NextToken","in":"query","schema":{"type":"string"}}],
		"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"MaxResults":{"type":"integer"},
		"NextToken":{"type":"string"}}}}}},"responses":{"200":{"content":{"application/json":{"schema":{"type":"object",
			"properties":{
		"Jobs":{"type":"array","items":{"type":"string"}},"NextToken":{"type":"string"}}}}}}}}`
	r := read(t, fmt.Sprintf(`{"openapi":"3.0.0","paths":{"/a":{"post":`+operation+`},"/b":{"post":`+operation+`},
		"/c":{"delete":`+operation+`}}}`, "ListJobs", "CreateJobs", "DeleteJobs"))
	require.Equal(t, &actions.Pagination{Type: actions.PagesByCursor, Items: "/Jobs", Parameter: "NextToken",
		Size: "MaxResults",
		Next: "/NextToken"}, r["POST /a"].Action.Pagination)
	require.Nil(t, r["POST /b"].Action.Pagination)
	require.Nil(t, r["DELETE /c"].Action.Pagination)
}

// The header with a key is not the caller's to set in a call that writes, because the gateway sends its own.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	const operation = `{"parameters":[{"name":%q,"in":%q,"required":true,"schema":{"type":"string"}}],"responses":{}}`
	for name, want := range map[string]*actions.Idempotency{
		"Idempotency-Key":   {Header: "Idempotency-Key"},
		"X-idempotency_key": {Header: "X-idempotency_key"},
		"idempotency-id":    {Header: "idempotency-id"},
		"Idempotency Key":   nil,
		"X-Request-Id":      nil,
	} {
		r := read(t, fmt.Sprintf(`{"openapi":"3.0.0","paths":{"/a":{"post":`+operation+`,"get":`+operation+`},
			"/b":{"post":`+operation+`}}}`,
			name, "header", name, "header", name, "query"))
		require.Equal(t, want, r["POST /a"].Action.Idempotency, name)
		require.Equal(t, want == nil, len(r["POST /a"].Action.Parameters) == 1, name)
		require.Nil(t, r["GET /a"].Action.Idempotency)
		require.Len(t, r["GET /a"].Action.Parameters, 1)
		require.Nil(t, r["POST /b"].Action.Idempotency, "a key in the query is not sent by itself")
		require.Equal(t, want != nil, valid(t, r["POST /a"].Action.Input, `{}`), name)
	}
}

// Parameters that carry the connection's credentials are no inputs: a caller could use them in place of those.
func TestCredentialsAreNoInput(t *testing.T) {
	t.Parallel()
	r := read(t, `{"openapi":"3.0.0","paths":{"/{key}":{"get":{"parameters":[{"name":"key","in":"path"},
		{"name":"x-API-key","in":"header"},
		{"name":"API_KEY","in":"query"},{"name":"api_key","in":"query"},{"name":"Authorization","in":"header"},
		{"name":"access_token","in":"query"},{"name":"X-Amz-Date","in":"header"},{"name":"x-other","in":"header"},
		{"name":"X-Amz-Signature","in":"query"}],"responses":{}}}},"components":{"securitySchemes":{
		"a":{"type":"apiKey","in":"header","name":"X-Api-Key"},"b":{"type":"apiKey","in":"query","name":"api_key"},
		"c":{"type":"apiKey","in":"cookie","name":"x-other"},"o":{"type":"oauth2","flows":{}},
		"s":{"type":"apiKey","in":"header","name":"Authorization","x-amazon-apigateway-authtype":"awsSigv4"}}}}`)
	var names []string
	for _, p := range r["GET /{key}"].Action.Parameters {
		names = append(names, string(p.Place)+" "+p.Name)
	}
	require.Equal(t, []string{"path key", "query API_KEY", "header x-other"}, names)
}

// An operation with a server of its own says so, because it is sent to the base URL.
func TestOwnServers(t *testing.T) {
	t.Parallel()
	text := `{"openapi":"3.0.0","servers":[{"url":"https://api.acme.com/"}],"paths":{"/a":{"get":{"servers":[{
		"url":"https://files.acme.com"}]}},"/b":{"servers":[{"url":"https://api.acme.com"}],"get":{}}}}`
	r := read(t, text)
	require.Equal(t, `it has a server of its own, to which the provider's credentials are not sent: `+
		`"https://files.acme.com"`,
		r["GET /a"].Left.Message)
	require.Empty(t, r["GET /b"].Notes)
	require.Contains(t, draft(t, text, documents.DraftOptions{}).Notes,
		`line 1, column 97: 1 operations have servers of their own, `+
			`such as "https://files.acme.com", and are sent to the base URL all the same`)
}
