package registry_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
)

// kind is a kind of value in a file.
type kind string

const (
	aMapping kind = "mapping"
	aList    kind = "list"
	aText    kind = "text"
	aWhole   kind = "whole number"
	aNumber  kind = "number"
	aBoolean kind = "boolean"
)

// values are values of each kind, also ones that no field can have.
func values() map[kind][]string {
	return map[kind][]string{
		aMapping: {"{}", "{zz_field: 1}", "{\"\": {\"\": []}}"},
		aList:    {"[]", "[zz]", "[[], [[]]]", "[{zz_field: 1}]"},
		aText: {`""`, "zz", `"a\u0000\u202Eb"`, `"${cred.token}"`, `"/../{thing}"`, `"` + strings.Repeat("a", 5000) + `"`,
			"'(?P<a>'"},
		aWhole:   {"0", "-1", "9223372036854775807", "99999999999999999999"},
		aNumber:  {"7.5", "1e400", ".nan"},
		aBoolean: {"true", "false"},
	}
}

// place is a field of a file: its line, and the types that describe what it may have.
type place struct {
	line  int
	field string
	types []reflect.Type
}

// accepts are the kinds that a field may have.
func (p *place) accepts() map[kind]bool {
	out := map[kind]bool{}
	for _, t := range p.types {
		switch t.Kind() {
		case reflect.Struct, reflect.Map:
			out[aMapping] = true
		case reflect.Slice:
			out[aList] = true
		case reflect.Bool:
			out[aBoolean] = true
		case reflect.Int, reflect.Int64:
			out[aWhole] = true
		default:
			for _, k := range []kind{aText, aWhole, aNumber, aBoolean} {
				out[k] = true
			}
		}
	}
	return out
}

// shapesOf are the types that describe a value of a type.
func shapesOf(t reflect.Type) []reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	several, ok := reflect.Zero(t).Interface().(interface{ YAMLShapes() []reflect.Type })
	if !ok {
		return []reflect.Type{t}
	}
	var out []reflect.Type
	for _, shape := range several.YAMLShapes() {
		if shape == t {
			continue
		}
		out = append(out, shapesOf(shape)...)
	}
	return out
}

// within returns the types of a member of a mapping, or of an entry of a list where the name is empty.
func within(types []reflect.Type, name string) (out []reflect.Type) {
	for _, t := range types {
		switch {
		case t.Kind() == reflect.Slice && name == "":
			out = append(out, shapesOf(t.Elem())...)
		case t.Kind() == reflect.Map && name != "":
			out = append(out, shapesOf(t.Elem())...)
		case t.Kind() == reflect.Struct && name != "":
			for i := range t.NumField() {
				f := t.Field(i)
				tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
				if f.Anonymous || strings.HasSuffix(f.Tag.Get("yaml"), ",inline") {
					out = append(out, within([]reflect.Type{f.Type}, name)...)
				} else if tag == name {
					out = append(out, shapesOf(f.Type)...)
				}
			}
		}
	}
	return out
}

var keyOfLine = regexp.MustCompile(`^( *)(- )?([A-Za-z_]+):`)

// placesOf are the fields of a file whose lists and mappings stand on lines of their own, with one key a line.
func placesOf(t *testing.T, lines []string, root reflect.Type) []place {
	t.Helper()
	type level struct {
		indent int
		field  string
		types  []reflect.Type
	}
	stack := []level{{-1, "", []reflect.Type{root}}}
	var out []place
	entries := map[string]int{}
	for i, line := range lines {
		m := keyOfLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		indent := len(m[1])
		for stack[len(stack)-1].indent >= indent {
			stack = stack[:len(stack)-1]
		}
		if m[2] != "" { // the entry of a list is a level of its own, at the dash
			up := stack[len(stack)-1]
			field := up.field + "[" + string(rune('0'+entries[up.field])) + "]"
			entries[up.field]++
			stack = append(stack, level{indent, field, within(up.types, "")})
			indent += 2
		}
		up := stack[len(stack)-1]
		p := place{line: i, field: strings.TrimPrefix(up.field+"."+m[3], "."), types: within(up.types, m[3])}
		require.NotEmpty(t, p.types, "%d: %s", i+1, line)
		out = append(out, p)
		stack = append(stack, level{indent, p.field, p.types})
	}
	return out
}

// with returns the file with another value of a field, on one line.
func (p *place) with(lines []string, value string) string {
	m := keyOfLine.FindStringSubmatch(lines[p.line])
	indent := len(m[1]) + len(m[2])
	end := p.line + 1
	for end < len(lines) && len(lines[end])-len(strings.TrimLeft(lines[end], " ")) > indent {
		end++
	}
	out := append(slices.Clone(lines[:p.line]), m[0]+" "+value)
	return strings.Join(append(out, lines[end:]...), "\n") + "\n"
}

// Each field of a whole definition that gets a value of a kind that it cannot have is reported on its line, and by its
// name. Values of any kind, also those that no field can have, make nothing panic, and each problem has its place.
func TestEveryFieldWithEveryKindOfValue(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{"actions": everyAction, "outbound": everyOutboundInLines} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := strings.Split(strings.TrimSuffix(file, "\n"), "\n")
			load(t, file)
			wrong, all := 0, 0
			for _, p := range placesOf(t, lines, reflect.TypeFor[registry.Definition]()) {
				accepted := p.accepts()
				for of, list := range values() {
					if !accepted[of] {
						list = list[:2] // that the kind is wrong is found before the value is looked at
					}
					for _, value := range list {
						all++
						text := p.with(lines, value)
						loaded, err := registry.Load(folder("acme.yaml", text))
						if err == nil {
							require.NotNil(t, loaded)
							require.True(t, accepted[of], "%s: %s is accepted", p.field, value)
							continue
						}
						var failed *registry.LoadError
						require.ErrorAs(t, err, &failed)
						found := false
						for _, problem := range failed.Problems {
							require.NotEmpty(t, problem.Message)
							require.LessOrEqual(t, problem.Line, strings.Count(text, "\n"))
							found = found || problem.Line == p.line+1 && (problem.Field == p.field || problem.Field == "")
						}
						if !accepted[of] {
							wrong++
							require.True(t, found, "%s: %s on line %d: %v", p.field, value, p.line+1, err)
						}
					}
				}
			}
			require.Greater(t, wrong, 400)
			t.Logf("%d values, %d of a wrong kind", all, wrong)
		})
	}
}

// everyOutboundInLines has the fields about requests, each on a line of its own.
const everyOutboundInLines = minimal + `connection_config:
  site:
    type: string
    title: Site
    description: The site.
    pattern: "[a-z]+"
    example: eu
    optional: true
    required_for: [user]
base_url: "https://api.acme.example"
allowed_hosts: [api.acme.example]
auth:
  - mode: api_key
    name: user
    title: A key
    description: It acts for a user.
    docs_url: https://acme.example/docs
    setup: Make a key.
    fields:
      api_key:
        title: The key
        pattern: "[a-z]+"
        example: abc
    request:
      headers:
        Authorization: "${cred.api_key} ${config.site}"
request:
  query:
    v: "1"
  user_agent: sallyport
  follow_redirects: reads
health:
  probes:
    - method: POST
      path: /me
      body: "{}"
      ok: [200]
      modes: [user]
      account:
        id: /id
        label: /name
rate_limit:
  retry_statuses: [429]
  limited_when:
    - status: 403
      header: x-left
      equals: "0"
  wait:
    - header: retry-after
      kind: seconds
  min_wait: 1s
  max_wait: 60s
  budget:
    - limit: 10
      per: 1s
      scope: connection
  learn:
    - limit: x-limit
      remaining: x-left
      reset: x-reset
      reset_kind: epoch_s
errors:
  success_when:
    body: /ok
    equals: "true"
  message: /message
  request_id_header: x-request-id
  auth_failed_when:
    - status: 401
`
