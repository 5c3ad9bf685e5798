package declared_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/risk"
)

const issues = `
pagination: {type: cursor, parameter: cursor, items: /data, next: /next}
actions:
  body: form
  inputs:
    first: {type: integer, maximum: 250}
    after: {type: string}
  inline:
    list_issues:
      title: List issues
      method: POST
      path: /graphql
      graphql: |
        query ($first: Int = 50, $after: String, $states: [State!]) {
          all: issues(first: $first, after: $after, filter: {state: {in: $states}}) {
            nodes { ...Issue }
            pageInfo { hasNextPage endCursor }
          }
        }
        fragment Issue on Issue { id title }
      use: [first, after]
      input: {status: {name: states, type: array, items: {type: string, enum: [open, done]}}}
      output:
        type: object
        properties:
          data:
            type: object
            properties:
              all:
                type: object
                properties:
                  nodes: {type: array, items: {type: object, properties: {id: {type: string}}}}
                  pageInfo:
                    type: object
                    properties: {hasNextPage: {type: boolean}, endCursor: {type: [string, "null"]}}
    get_issue:
      title: Get an issue
      method: POST
      path: /graphql
      graphql: "query ($id: ID!, $deep: Boolean!) { issue(id: $id) { id parent @include(if: $deep) { id } } }"
      input: {id: {type: [string, integer]}, deep: {type: boolean}}
      required: [id, deep]
    read_later:
      title: Read an issue later
      method: POST
      path: /graphql
      graphql: "mutation ($id: ID!, $weight: Float) { get(id: $id, weight: $weight) { ok } }"
      input: {id: {type: string}, weight: {type: [number, "null"]}}
      required: [id]
`

// A GraphQL operation is sent as JSON with the inputs as its variables, and its text shows how its list continues and
// whether it reads.
func TestGraphQL(t *testing.T) {
	t.Parallel()
	list, _ := good(t, issues)
	a := list[0]
	require.Equal(t, []actions.Parameter{{Property: "first", Name: "first", Place: actions.InBody},
		{Property: "after", Name: "after", Place: actions.InBody},
		{Property: "status", Name: "states", Place: actions.InBody}}, a.Parameters)
	require.Equal(t, "application/json", a.Body.ContentType)
	require.True(t, a.Body.Required)
	require.True(t, strings.HasPrefix(a.Body.GraphQL, "query ("))
	require.True(t, strings.HasSuffix(a.Body.GraphQL, "{ id title }"))
	require.Equal(t, &actions.Pagination{Type: actions.PagesByCursor, Items: "/data/all/nodes", Parameter: "after",
		Size: "first", MaxSize: 250, Next: "/data/all/pageInfo/endCursor", More: "/data/all/pageInfo/hasNextPage"},
		a.Pagination)
	require.Equal(t, risk.Read, risk.Assess(&a.Call).Operation)
	require.Equal(t, "POST", a.Method)

	require.Nil(t, list[1].Pagination)
	require.True(t, valid(t, list[1].Input, `{"id":1,"deep":false}`))
	require.Equal(t, risk.Low, risk.Assess(&list[1].Call).Level)
	later := risk.Assess(&list[2].Call)
	require.NotEqual(t, risk.Read, later.Operation, "a mutation writes, although its words are those of one that reads")
	require.NotEqual(t, risk.Low, later.Level)
}

// The pagination that a connection shows can be changed or left out, and other selections show none.
func TestGraphQLPagination(t *testing.T) {
	t.Parallel()
	page := func(change, pagination string) *actions.Pagination {
		text := strings.NewReplacer(strings.Split(change, "|")...).Replace("query ($first: Int, $after: String) " +
			"{ issues(first: $first, after: $after) { edges { node { id } } pageInfo { hasNextPage endCursor } } }")
		list, _ := good(t, one("method: POST, path: /g, input: {first: {type: integer}, after: {type: string}}, graphql: '"+
			text+"'"+pagination))
		return list[0].Pagination
	}
	want := &actions.Pagination{Type: actions.PagesByCursor, Items: "/data/issues/edges", Parameter: "after",
		Size: "first", Next: "/data/issues/pageInfo/endCursor", More: "/data/issues/pageInfo/hasNextPage"}
	require.Equal(t, want, page("a|a", ""))
	require.Nil(t, page("a|a", ", pagination: none"))
	want.Items = "/data/issues/others"
	require.Equal(t, want, page("a|a", ", pagination: {items: /data/issues/others}"))
	for _, other := range []string{"edges|items", " endCursor|", " hasNextPage|", "pageInfo|info",
		"{ issues|{ viewer issues",
		"after: $after|before: $after", "first: $first|last: $first", "after: $after|after: [$after]",
		"{ issues|{ team { issues|endCursor } }|endCursor } } }"} {
		require.Nil(t, page(other, ""), other)
	}
}

// An operation has limits of its size and depth.
func TestGraphQLIsBounded(t *testing.T) {
	t.Parallel()
	require.Contains(t, problems(t, one("method: POST, path: /g, graphql: '{ a"+strings.Repeat(" b", 8<<10)+" }'")),
		"actions.inline.act.graphql: has more than 16 KiB")
	deep := strings.Repeat("{a", 5000) + strings.Repeat("}", 5000)
	require.Contains(t, problems(t, one("method: POST, path: /g, graphql: '"+deep+"'")), "maximum nesting depth")
}
