package registry_test

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/declared"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/risk"
)

// everyAction has every field of the format that is about actions, each on a line of its own.
const everyAction = minimal + `base_url: https://api.acme.example
allowed_hosts: [api.acme.example]
auth:
  - mode: bearer
pagination:
  type: cursor
  items: /data
  parameter: after
  size: limit
  max_size: 100
  next: /id
  next_of_last: true
  more: /more
idempotency:
  header: Idempotency-Key
  methods: [POST]
risk:
  rules:
    - match:
        method: POST
        path: /things/{thing}/**
        action: change_thing
      level: high
      operation: update
      flags: [bulk]
      reason: It says so.
actions:
  style: deep
  body: form
  inputs:
    thing:
      in: path
      name: thing
      type: string
      reserved: true
      title: The thing
      description: What is changed.
      format: uuid
      minLength: 1
      maxLength: 40
      pattern: "^[a-z]+$"
      default: a
      examples: [a]
    list:
      type: array
      style: comma
      items:
        type: string
        enum: [a, b]
      minItems: 1
      maxItems: 5
      uniqueItems: true
    after:
      in: query
      type: string
    limit:
      in: query
      type: integer
      minimum: 1
      maximum: 100
      exclusiveMinimum: 0
      exclusiveMaximum: 101
      multipleOf: 1
      const: 5
      deprecated: true
    more:
      type: object
      properties:
        a:
          ref: text
      required: [a]
      additionalProperties: false
      minProperties: 1
      maxProperties: 4
    any:
      anyOf:
        - type: string
        - type: integer
  schemas:
    text:
      type: string
  inline:
    change_thing:
      title: Change a thing
      description: It changes.
      method: POST
      path: /things/{thing}/all
      tags: [things]
      scopes: [write]
      deprecated: true
      docs_url: https://acme.example/docs
      use: [thing, list, after, limit, more, any]
      required: [list]
      body: form
      output:
        type: object
        properties:
          data:
            type: array
            items:
              type: object
              properties:
                id:
                  ref: text
          more:
            type: boolean
      pagination:
        items: /data
      idempotency:
        header: X-Once
      risk:
        level: medium
        operation: update
        flags: [bulk]
        reason: It changes a thing.
    list_things:
      title: List things
      method: GET
      path: /things
      input:
        page:
          type: integer
      pagination:
        type: page
        parameter: page
        first: 1
    other_thing:
      title: Do another thing
      method: POST
      path: /others
      graphql: "mutation ($x: String) { other(x: $x) { id } }"
      base_url: https://api.acme.example/v2
      input:
        x:
          type: string
`

// compileSchema reads a schema with a validator that is not ours.
func compileSchema(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	require.NoError(t, c.AddResource("schema.json", v))
	compiled, err := c.Compile("schema.json")
	require.NoError(t, err, string(text))
	return compiled
}

// problemsOf returns the problems of a definition by their lines.
func problemsOf(t *testing.T, text string) map[int][]string {
	t.Helper()
	loaded, err := registry.Load(folder("acme.yaml", text))
	require.Nil(t, loaded, text)
	var load *registry.LoadError
	require.ErrorAs(t, err, &load)
	out := map[int][]string{}
	for _, p := range load.Problems {
		require.Equal(t, "acme.yaml", p.File)
		out[p.Line] = append(out[p.Line], p.Field+": "+p.Message)
	}
	return out
}

// Every field that is about actions is in the test of strictness below.
func TestEveryFieldOfActions(t *testing.T) {
	t.Parallel()
	p := load(t, everyAction)
	require.Len(t, p.Actions, 3)
	require.True(t, p.Definition.Calls.Empty(), "what was compiled is not kept")
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		if seen[of] {
			return
		}
		seen[of] = true
		if of.Kind() == reflect.Pointer {
			walk(of.Elem())
			return
		}
		if several, ok := reflect.Zero(of).Interface().(interface{ YAMLShapes() []reflect.Type }); ok {
			for _, shape := range several.YAMLShapes() {
				walk(shape)
			}
			return
		}
		switch of.Kind() {
		case reflect.Slice, reflect.Map:
			walk(of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				f := of.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
				if name != "" && name != "-" {
					require.Contains(t, everyAction, " "+name+":", "%s of %s", name, of)
				}
				walk(f.Type)
			}
		default:
		}
	}
	text := reflect.TypeFor[declared.Declaration]()
	for i := range text.NumField() {
		walk(text.Field(i).Type)
	}
}

// A field that does not exist, or that has a value of another kind, is reported with its line, wherever it is.
func TestActionsAreStrict(t *testing.T) {
	t.Parallel()
	lines := strings.Split(strings.TrimSuffix(everyAction, "\n"), "\n")
	first := 0
	for lines[first] != "pagination:" {
		first++
	}
	changed := 0
	for i := first; i < len(lines); i++ {
		body := strings.TrimLeft(lines[i], " -")
		name, value, _ := strings.Cut(body, ":")
		indent := lines[i][:len(lines[i])-len(body)]
		// A list in which the field stands goes on, so that only its first field has the dash.
		plain := strings.ReplaceAll(indent, "-", " ")
		if indent == plain && len(indent) > 0 && !isNamed(lines, i) {
			text := strings.Join(lines[:i], "\n") + "\n" + plain + "zz_field: 1\n" + strings.Join(lines[i:], "\n") + "\n"
			found := problemsOf(t, text)[i+1]
			require.NotEmpty(t, found, "an unknown field on line %d", i+1)
			require.Contains(t, found[0], "zz_field: is not a field of the format", "line %d", i+1)
			changed++
		}
		if value = strings.TrimSpace(value); value == "" || name == "const" || name == "default" {
			continue // its fields are changed one by one; values of these two are of any kind
		}
		wrong := "{zz_field: 1}"
		if strings.HasPrefix(value, "[") && name != "examples" && name != "enum" {
			wrong = "7.5"
		}
		text := strings.Join(lines[:i], "\n") + "\n" + indent + name + ": " + wrong + "\n" +
			strings.Join(lines[i+1:], "\n") + "\n"
		require.NotEmpty(t, problemsOf(t, text)[i+1], "line %d: %s", i+1, name+": "+wrong)
		changed++
	}
	require.Greater(t, changed, 150)
}

// isNamed reports whether a line is an entry of a mapping whose names the file makes up.
func isNamed(lines []string, i int) bool {
	depth := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	for j := i - 1; j >= 0; j-- {
		if depth(lines[j]) < depth(lines[i]) {
			switch strings.TrimSpace(lines[j]) {
			case "inputs:", "schemas:", "inline:", "properties:", "input:":
				return true
			}
			return false
		}
	}
	return false
}

// Problems within actions name the file, the line and the field.
func TestProblemsOfActions(t *testing.T) {
	t.Parallel()
	line := func(text string) int { return strings.Count(everyAction[:strings.Index(everyAction, text)], "\n") + 1 }
	for _, tt := range []struct{ before, after, want string }{
		{"      format: uuid", "      format: guid", "actions.inputs.thing.format: must be one of"},
		{"      title: Change a thing", "      title: \"\"", "actions.inline.change_thing.title: must be one line"},
		{"      use: [thing, ", "      use: [things, thing, ",
			"actions.inline.change_thing.use[0]: is not one of actions.inputs"},
		{"        flags: [bulk]\n        reason: It changes", "        flags: [bulk, moves]\n        reason: It changes",
			"actions.inline.change_thing.risk.flags[1]: must be one of"},
		{"      flags: [bulk]\n", "      flags: [grave]\n", "risk.rules[0].flags[0]: must be one of"},
		{"        operation: update\n        flags: [bulk]\n        reason: It changes",
			"        operation: read\n        flags: [moves_money]\n        reason: It changes",
			"actions.inline.change_thing.risk: contradicts itself"},
		{"  type: cursor", "  type: cursors", "pagination.type: must be one of"},
		{"auth:\n  - mode: bearer\n", "auth:\n  - mode: bearers\n", "auth[0].mode: "},
	} {
		changed := strings.Replace(everyAction, tt.before, tt.after, 1)
		require.NotEqual(t, everyAction, changed, tt.before)
		at := line(tt.before)
		var all []string
		for n, found := range problemsOf(t, changed) {
			for _, text := range found {
				all = append(all, strconv.Itoa(n)+" "+text)
				if strings.HasPrefix(text, tt.want) {
					require.InDelta(t, at, n, 2, text)
				}
			}
		}
		require.Contains(t, strings.Join(all, "\n"), tt.want)
	}
	require.Contains(t, problemsOf(t, minimal+"risk: {rules: []}\n")[6][0], "risk: is about requests to the provider")
}

// Actions are in what people and programs see of a provider.
func TestActionsAreShown(t *testing.T) {
	t.Parallel()
	p := load(t, everyAction)
	s := p.Summary()
	require.Equal(t, registry.ActionSummary{Name: "change_thing", Title: "Change a thing", Method: "POST",
		Path: "/things/{thing}/all", Tags: []string{"things"}, Risk: "medium", Flags: []risk.Flag{risk.Bulk},
		Scopes: [][]string{{"write"}}, Pages: actions.PagesByCursor, PageSize: 100, KeyHeader: "X-Once", Deprecated: true,
		DocsURL: "https://acme.example/docs"}, s.Actions[0])
	require.Contains(t, s.Text(), "\nActions\n  change_thing  medium    Change a thing (deprecated)\n"+
		"  list_things   low       List things\n"+
		"  other_thing   medium    Do another thing\n")
	out := page(t, everyAction)
	require.Contains(t, out, "\n## What it can do\n\n3 actions, by [risk](../risk.md): 1 low, 2 medium. ")
	require.Contains(t, out, "\n### Actions: things\n\n| Action | | Request | Risk | Pages | Scopes |\n|---|---|---|---|---|---|\n"+
		"| `change_thing` | [Change a thing (deprecated)](https://acme.example/docs) | `POST /things/{thing}/all` | "+
		"medium, bulk | cursor, up to 100 | `write` |\n")
	require.Contains(t, out, "\n### Actions: other\n")
	require.Contains(t, out, "\n| `list_things` | List things | `GET /things` | low, idempotent | page | – |\n")
	require.Contains(t, out, "\n- Actions: 1 of 3 link the provider's page.\n")
	require.Contains(t, out, "\n- 2 actions are recognised when sent again, by `Idempotency-Key`, `X-Once`.\n")
	loaded, err := registry.Load(folder("acme.yaml", everyAction))
	require.NoError(t, err)
	var list strings.Builder
	require.NoError(t, registry.Reference(&list, loaded))
	require.Contains(t, list.String(), "\n1 provider: 1 to which accounts connect, 1 with 3 actions, and 0 with webhooks, ")
	require.Contains(t, list.String(), "\n| [Acme](providers/acme.md) | `acme` | `bearer` | 3 | – | – | – |\n")
}

// The page of a provider says what its documentation says about limits, and what holds where it says nothing.
func TestPageOfLimits(t *testing.T) {
	t.Parallel()
	require.Contains(t, page(t, everyAction), "\n## Limits\n\n- No number of requests is declared; the provider's responses decide.\n"+
		"- A later attempt may succeed after `429`, `502`, `503`, `504`. How long to wait is in `retry-after`.\n")
	out := page(t, everyAction+`rate_limit:
  retry_statuses: [429, 503]
  wait: [{header: x-reset, kind: seconds}]
  max_wait: 60s
  budget: [{limit: 100, per: 1m}, {limit: 1, per: 1s, scope: client}]
  learn: [{remaining: x-left}, {remaining: x-left, limit: x-all}]
`)
	require.Contains(t, out, "\n## Limits\n\n- 100 requests in 1m for each connection\n- 1 request in 1s for each client\n"+
		"- A later attempt may succeed after `429`, `503`. How long to wait is in `x-reset`; a request waits at most 60s.\n"+
		"- How many requests are left is in `x-left`.\n")
}
