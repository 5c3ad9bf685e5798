package documents_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/risk"
)

// readGraphQL returns the operations of a schema by kind and field. Each of them is valid, as another validator says.
func readGraphQL(t *testing.T, text string, schema *ast.Schema) map[string]documents.Result {
	t.Helper()
	d, err := documents.OpenGraphQL([]byte(text))
	require.NoError(t, err)
	require.Equal(t, documents.GraphQL, d.Format)
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
		compile(t, r.Action.Output)
		require.LessOrEqual(t, len(r.Action.Input), 64<<10)
		require.LessOrEqual(t, len(r.Action.Output), 64<<10)
		require.LessOrEqual(t, len(r.Action.Body.GraphQL), 16<<10)
		if schema != nil {
			_, errs := gqlparser.LoadQueryWithRules(schema, r.Action.Body.GraphQL, rules.NewDefaultRules())
			require.Empty(t, errs, r.Action.Body.GraphQL)
		} else {
			_, err := parser.ParseQuery(&ast.Source{Input: r.Action.Body.GraphQL})
			require.NoError(t, err, r.Action.Body.GraphQL)
		}
	}
	return out
}

// readSDL is readGraphQL of a valid schema.
func readSDL(t *testing.T, text string) map[string]documents.Result {
	t.Helper()
	schema, err := gqlparser.LoadSchema(&ast.Source{Input: text})
	require.NoError(t, err)
	return readGraphQL(t, text, schema)
}

const tracker = `
"A moment."
scalar DateTime
enum State { OPEN CLOSED }
type PageInfo { hasNextPage: Boolean! endCursor: String }
type User { id: ID! login: String! apiToken: String issues(first: Int!): IssueConnection! }
type IssueConnection { nodes: [Issue] pageInfo: PageInfo! totalCount: Int! }
type Label { name: String! issue: Issue labels: [Label!] }
type Issue {
  id: ID!
  "What it is about."
  title: String
  state: State
  old: String @deprecated
  made: DateTime!
  author: User
  labels(first: Int, after: String): [Label!]!
  comment(id: ID!): String
  parent: Issue
}
input IssueFilter { states: [State!] and: [IssueFilter!] text: String = "a\"b" size: Int! = 5 since: DateTime }
input ByKey @oneOf { id: ID name: String }
type Mutation {
  "Makes an issue."
  createIssue(title: String!, filter: IssueFilter, labels: [String!]! = ["x"], key: ByKey, state: State = OPEN): Issue!
  issues: Boolean
  resolveIssue(id: ID!): Issue
  createToken: User
}
type Query {
  issues(first: Int, after: String, filter: IssueFilter!): IssueConnection!
  count("Of this state." state: State!, since: DateTime): Int! @deprecated(reason: "Use issues.")
}
type Subscription { issueMade: Issue }
`

// Each field of the query and the mutation type is an action, whose operation, variables, input and output fit each
// other.
func TestGraphQLActions(t *testing.T) {
	t.Parallel()
	r := readSDL(t, tracker)
	require.Len(t, r, 7)
	require.Equal(t, "a subscription has no single response", r["subscription issueMade"].Left.Message)
	require.Equal(t, 34, r["subscription issueMade"].Left.Line)

	create := r["mutation createIssue"].Action
	require.Equal(t, "create_issue", create.Name)
	require.Equal(t, "Makes an issue.", create.Description)
	require.Equal(t, []string{"mutation"}, create.Tags)
	require.Equal(t, "POST", create.Method)
	require.Empty(t, create.Path, "the base URL is the endpoint")
	require.Equal(t, "application/json", create.Body.ContentType)
	require.Equal(t, `mutation createIssue($title: String!, $filter: IssueFilter, $labels: [String!], $key: ByKey, `+
		`$state: State) {
  createIssue(title: $title, filter: $filter, labels: $labels, key: $key, state: $state) {
    id
    title
    state
    made
    author {
      id
      login
      issues(first: 10) {
        pageInfo {
          hasNextPage
        }
        totalCount
        nodes {
          id
          title
          state
          made
        }
      }
    }
    labels(first: 10) {
      name
      issue {
        id
        title
        state
        made
      }
      labels {
        name
      }
    }
    parent {
      id
      title
      state
      made
    }
  }
}
`, create.Body.GraphQL)
	require.Equal(t, actions.Parameter{Property: "title", Name: "title", Place: actions.InBody}, create.Parameters[0])
	require.Nil(t, create.Pagination)
	for _, right := range []string{`{"title":"t"}`, `{"title":"t","filter":null,"state":"CLOSED","labels":[]}`,
		`{"title":"t","filter":{"and":[{"and":[{"states":["OPEN"]}]}],"since":5}}`, `{"title":"t","key":{"id":7}}`} {
		require.True(t, valid(t, create.Input, right), right)
	}
	for _, wrong := range []string{`{}`, `{"title":null}`, `{"title":"t","state":"open"}`, `{"title":"t","labels":null}`,
		`{"title":"t","filter":{"and":[{"and":[{"states":["x"]}]}]}}`, `{"title":"t","filter":{"size":null}}`,
		`{"title":"t","other":1}`, `{"title":"t","key":{"id":"7","name":"n"}}`, `{"title":"t","key":{}}`} {
		require.False(t, valid(t, create.Input, wrong), wrong)
	}
	require.Contains(t, string(create.Input), `"default":"a\"b"`)
	require.Contains(t, string(create.Input), `"default":["x"]`)
	require.Contains(t, string(create.Input), `"DateTime":{"title":"DateTime","description":"A moment."}`)
	require.True(t, valid(t, create.Output, `{"data":{"createIssue":{"id":"1","title":null,"made":5,"labels":[]}}}`))
	require.True(t, valid(t, create.Output, `{"data":null,"errors":[{"message":"m","path":["createIssue",0]}]}`))
	for _, wrong := range []string{`{"data":{"createIssue":null}}`, `{"data":{"createIssue":{"id":1}}}`,
		`{"data":{"createIssue":{"labels":[null]}}}`, `{"data":{"createIssue":{"state":"x"}}}`} {
		require.False(t, valid(t, create.Output, wrong), wrong)
	}

	count := r["query count"].Action
	require.True(t, count.Deprecated)
	require.Equal(t, "Deprecated: Use issues.", count.Description)
	require.Equal(t, "query count($state: State!, $since: DateTime) {\n  count(state: $state, since: $since)\n}\n",
		count.Body.GraphQL)
	require.True(t, valid(t, count.Output, `{"data":{"count":1}}`))
}

// Fields of the same name have names that are distinct and stay the same.
func TestGraphQLNames(t *testing.T) {
	t.Parallel()
	r := readSDL(t, tracker)
	require.Regexp(t, `^issues_[0-9a-f]{6}$`, r["query issues"].Action.Name)
	require.Regexp(t, `^issues_[0-9a-f]{6}$`, r["mutation issues"].Action.Name)
	require.NotEqual(t, r["query issues"].Action.Name, r["mutation issues"].Action.Name)
	turned := readSDL(t, strings.Replace(tracker, "type Query", "type Subscription2 { a: Int } type Query", 1))
	require.Equal(t, r["query issues"].Action.Name, turned["query issues"].Action.Name)
	d, err := documents.OpenGraphQL([]byte(`type Mutation { b: Int a: Int }
		type Query { _: Int fooBar: Int foo_bar: Int }`))
	require.NoError(t, err)
	list, err := d.Operations()
	require.NoError(t, err)
	var names []string
	for r := range list {
		names = append(names, r.Action.Name)
	}
	require.Equal(t, []string{"b", "a", "query"}, names[:3], "the order is that of the document")
	require.NotEqual(t, names[3], names[4])
}

// A connection is continued by its cursor, through nodes or edges.
func TestGraphQLPages(t *testing.T) {
	t.Parallel()
	p := readSDL(t, tracker)["query issues"].Action
	require.Equal(t, &actions.Pagination{Type: actions.PagesByCursor, Items: "/data/issues/nodes", Parameter: "after",
		Size: "first", Next: "/data/issues/pageInfo/endCursor", More: "/data/issues/pageInfo/hasNextPage"}, p.Pagination)
	require.Contains(t, p.Body.GraphQL, "      hasNextPage\n      endCursor\n")
	r := readSDL(t, `
		type Query { a(first: Int, after: String): C! b(first: Int): C c: [C!] d(first: Int, after: String): D }
		type C { edges: [E] pageInfo: P! } type E { cursor: String! role: String node: N } type N { c: C }
		type P { hasNextPage: Boolean! endCursor: ID } type D { nodes: [N] pageInfo: Q } type Q { hasNextPage: Boolean }`)
	require.Equal(t, "/data/a/edges", r["query a"].Action.Pagination.Items)
	require.Contains(t, r["query a"].Action.Body.GraphQL, "edges {\n      role\n      node {\n        __typename\n",
		"items are there even if nothing else can be requested of them")
	for _, other := range []string{"b", "c", "d"} {
		require.Nil(t, r["query "+other].Action.Pagination, other)
	}
}

// A query is assessed as a read, a mutation as a change even if its name reads; and no secret is requested by an
// operation whose name does not say so.
func TestGraphQLRisk(t *testing.T) {
	t.Parallel()
	r := readSDL(t, tracker)
	assess := func(name string) risk.Risk { return risk.Assess(&r[name].Action.Call) }
	require.Equal(t, risk.Low, assess("query issues").Level)
	require.Equal(t, risk.Medium, assess("mutation createIssue").Level)
	require.Equal(t, risk.Medium, assess("mutation resolveIssue").Level)
	require.NotEqual(t, risk.Read, assess("mutation resolveIssue").Operation)
	require.Equal(t, risk.Critical, assess("mutation createToken").Level)
	require.NotContains(t, r["mutation createIssue"].Action.Body.GraphQL, "apiToken")
	require.Contains(t, r["mutation createToken"].Action.Body.GraphQL, "apiToken")
}

// Of an interface or a union, each type gets its fields, and those of one name and different types do not meet.
func TestGraphQLAbstractTypes(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 20 {
		fmt.Fprintf(&many, "type M%d implements Many { id: ID! own: Int }\n", i)
	}
	r := readSDL(t, `
		interface Node { id: ID! }
		interface Many { id: ID! }
		type A implements Node { id: ID! name: String! size: Int to: A both: Label only: String }
		type B implements Node { id: ID! name: String size: Int to: B both: Label }
		type Label { text: String hit: Hit }
		type C { size: [Int] size_A: Int }
		union Hit = A | B | C
		type Query { node(id: ID!): Node hits: [Hit!] many: Many nested: Label }`+many.String())
	require.Equal(t, `query node($id: ID!) {
  node(id: $id) {
    __typename
    id
    ... on A {
      name
      size
      only
      to {
        id
        name
        size
        only
      }
      both {
        text
        hit {
          __typename
          ... on A {
            id
            name
            size
            only
          }
          ... on B {
            id
            name_B: name
            size
          }
          ... on C {
            size_C: size
            size_A
          }
        }
      }
    }
    ... on B {
      name_B: name
      size
      to_B: to {
        id
        name
        size
      }
      both {
        text
        hit {
          __typename
          ... on A {
            id
            name
            size
            only
          }
          ... on B {
            id
            name_B: name
            size
          }
          ... on C {
            size_C: size
            size_A
          }
        }
      }
    }
  }
}
`, r["query node"].Action.Body.GraphQL)
	out := r["query node"].Action.Output
	require.True(t, valid(t, out, `{"data":{"node":{"__typename":"B","name_B":null,"both":{"hit":{"size_C":[1]}}}}}`))
	require.False(t, valid(t, out, `{"data":{"node":{"both":{"hit":{"size_C":1}}}}}`))
	require.Contains(t, r["query many"].Notes[0], "Many has 20 types")
	require.NotContains(t, r["query many"].Action.Body.GraphQL, "own")
}

// However large and circular a schema is, its operations have at most 150 fields, and its schemas 64 KiB.
func TestGraphQLIsBounded(t *testing.T) {
	t.Parallel()
	var sdl strings.Builder
	sdl.WriteString("type Query {")
	for i := range 30 {
		fmt.Fprintf(&sdl, " q%d(filter: I%d): T%d", i, i, i)
	}
	sdl.WriteString(" }\n")
	for i := range 30 {
		fmt.Fprintf(&sdl, "type T%d {", i)
		for j := range 100 {
			fmt.Fprintf(&sdl, " %s%d(a: Int): String t%d: T%d list%d: [T%d!]!", strings.Repeat("x", 120), j, j, j%30, j, j%30)
		}
		fmt.Fprintf(&sdl, " }\ninput I%d {", i)
		for j := range 30 {
			fmt.Fprintf(&sdl, " %q i%d: I%d", strings.Repeat("d", 900), j, j)
		}
		sdl.WriteString(" }\n")
	}
	for _, r := range readSDL(t, sdl.String()) {
		require.Greater(t, len(r.Action.Body.GraphQL), 8<<10)
		require.Contains(t, strings.Join(r.Notes, " "), "too large")
	}
	for _, r := range readSDL(t, strings.ReplaceAll(sdl.String(), strings.Repeat("x", 120), "x")) {
		lines := strings.Split(strings.ReplaceAll(r.Action.Body.GraphQL, " ", ""), "\n")
		fields := slices.DeleteFunc(lines[2:], func(line string) bool { return line == "" || line == "}" })
		require.Greater(t, len(fields), 100)
		require.LessOrEqual(t, len(fields), 150)
	}
	deep := readSDL(t, `type Query { a: A } type A { id: ID b: B } type B { id: ID c: C } type C { id: ID d: D }
		type D { id: ID }`)
	require.Equal(t, 3, strings.Count(deep["query a"].Action.Body.GraphQL, " id\n"))
	none := readSDL(t, `type Query { a: A } type A { a(b: Int!): Int }`)
	require.Contains(t, none["query a"].Action.Body.GraphQL, "{\n    __typename\n  }")
}

// A schema that no server has is read as far as it goes.
func TestGraphQLMistakes(t *testing.T) {
	t.Parallel()
	r := readGraphQL(t, `extend type Query { a: Int b: Missing c(x: Missing!): Int d(x: Missing y: Int): Int e: In f: Obj }
		input In { x: Int x: String } type Obj { id: ID id: Int missing: Missing in: In obj(o: Obj!): Int } scalar DateTime
		scalar DateTime extend type Query { a: String } union U = Missing | Missing interface I { i: Int }
		type Twice implements I & I & None { i: Int }`, nil)
	require.Len(t, r, 6)
	for _, name := range []string{"b", "c", "e"} {
		require.Contains(t, r["query "+name].Left.Message, "is not one that", name)
	}
	require.Equal(t, "query d($y: Int) {\n  d(y: $y)\n}\n", r["query d"].Action.Body.GraphQL)
	require.Contains(t, r["query d"].Notes[0], "the argument x")
	require.Equal(t, "query f {\n  f {\n    id\n  }\n}\n", r["query f"].Action.Body.GraphQL)
}

// A schema that is none, or would take too much, is refused with the place.
func TestRefusedGraphQL(t *testing.T) {
	t.Parallel()
	const none = "the schema has no type Query or Mutation, so that it has no operations"
	for text, want := range map[string]string{
		"":                                 none,
		"type A { a: Int }":                none,
		"type Query {\n  a Int }":          "line 2, column 5: Expected :, found Name",
		"type Query { a: Int } type Query": "line 1, column 28: the type Query is defined twice",
		"type A {a:Int} extend enum A { B }": "line 1, column 28: the type A is extended as another " +
			"kind of type",
		"schema { query: A } scalar A":                      "line 1, column 10: the type A is no object of the schema",
		"schema { query: A query: A } type A":               "line 1, column 19: the schema names its type of a query twice",
		"type Query { a: Int }\n\"\xff\"":                   "line 2, column 2: the text is not UTF-8",
		"type Query {\n\"a\nb":                              "line 2, column 3: Unterminated string.",
		"type Query { a(b: A = " + strings.Repeat("[", 500): "line 1, column 521: more than 500 brackets within each other",
		"type Query { a: " + strings.Repeat("[", 500):       "line 1, column 516: more than 500 brackets within each other",
		strings.Repeat("{", 501):                            "line 1, column 2: expected the name of a member in quotes",
		strings.Repeat("a ", 500_001): "line 1, column 1000001: the schema has more than 500000 names, " +
			"values and signs",
		`{"data":{}}`: "line 1, column 1: expected the result of an introspection query, with __schema " +
			"in data",
		`{"__schema":{"types":[]}}`: none,
		`{"__schema":{"queryType":{"name":"A"},"types":[{"kind":"ENUM","name":"A"}]}}`: "line 1, column 48: the " +
			"type A has operations, and is no object",
		`{"__schema":{"types":[{"kind":"ENUM","name":"A"},{"kind":"ENUM","name":"A"}]}}`: "line 1, column 50: the " +
			"type A is there twice",
	} {
		_, err := documents.OpenGraphQL([]byte(text))
		var problem *documents.Problem
		require.ErrorAs(t, err, &problem, text[:min(len(text), 100)])
		require.EqualError(t, err, want)
	}
	_, err := documents.OpenGraphQL([]byte(`{"__schema":{"types":[{"kind":"OBJECT","name":"A","fields":[{}` +
		strings.Repeat(`,{"args":[{}]}`, 150_000) + `]}]}}`))
	require.EqualError(t, err, "line 1, column 23: the schema has more than 300000 fields, arguments and values")
	var many strings.Builder
	for i := range documents.MaxOperations + 1 {
		fmt.Fprintf(&many, "a%d:Int ", i)
	}
	d, err := documents.OpenGraphQL([]byte("type Query {" + many.String() + "}"))
	require.NoError(t, err)
	_, err = d.Operations()
	require.EqualError(t, err, "line 1, column 6: the document has more than 50000 operations")
}

// Names and defaults of an introspection result cannot add to the text of an operation.
func TestGraphQLNamesAreNames(t *testing.T) {
	t.Parallel()
	const integer = `{"kind":"SCALAR","name":"Int"}`
	field := func(name string) string {
		return `{"name":` + name + `,"args":[],"type":` + integer + `}`
	}
	argument := func(name, value string) string {
		return `{"name":` + name + `,"type":{"kind":"NON_NULL","ofType":` + integer + `},"defaultValue":` + value + `}`
	}
	arguments := []string{argument(`"a: Int) { b }"`, `"1"`), argument(`"b"`, `"1 c: 2"`), argument(`"c"`, `"1 @x"`),
		argument(`"d"`, `"2} type X {a: Int"`), argument(`"e"`, `"[1,{a:TRUE}]"`), argument(`"g"`, `"null"`)}
	fields := []string{field(`"a b"`), field(`"__typename"`), field(`"x\n"`), field(`""`), field(`"é"`), field(`7`),
		field(`"` + strings.Repeat("a", 200) + `"`), field(`"right"`),
		`{"name":"f","type":` + integer + `,"args":[` + strings.Join(arguments, ",") + `]}`}
	r := readGraphQL(t, `{"data":{"__schema":{"queryType":{"name":"Q"},"types":[{"kind":"OBJECT","name":"Q","fields":[`+
		strings.Join(fields, ",")+`]}]}}}`, nil)
	require.Len(t, r, 2)
	f := r["query f"].Action
	require.Equal(t, "query f($b: Int, $c: Int, $d: Int, $e: Int, $g: Int!) {\n"+
		"  f(b: $b, c: $c, d: $d, e: $e, g: $g)\n}\n", f.Body.GraphQL)
	var input struct {
		Properties map[string]struct{ Default json.RawMessage }
		Required   []string
	}
	require.NoError(t, json.Unmarshal(f.Input, &input))
	require.Equal(t, []string{"g"}, input.Required)
	require.JSONEq(t, `[1,{"a":"TRUE"}]`, string(input.Properties["e"].Default))
	require.Empty(t, input.Properties["b"].Default)
	require.NotNil(t, r["query right"].Action)
}
