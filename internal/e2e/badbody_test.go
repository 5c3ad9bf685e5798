package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
)

// canary stands for a value that must stay private: no response and no line of the log may hold it.
const canary = "zqx7unwelcome"

// candidates are values of every kind. The published schema says which of them a property must refuse.
func candidates() []any {
	many := make([]any, 300)
	for i := range many {
		many[i] = canary + strconv.Itoa(i)
	}
	wide := object{}
	for i := range 60 {
		wide[canary+strconv.Itoa(i)] = canary
	}
	number := func(s string) any { return json.Number(s) }
	return []any{
		nil, true, number("0"), number("-1"), number("1.5"), number("2000.0"), number("2e3"), number("12345678901234567890"),
		number("-9223372036854775809"), number("1e300"), "", canary, canary + "\x00", canary + "\u202e",
		strings.Repeat(canary, 500), []any{}, []any{canary}, []any{number("1")}, []any{nil}, []any{canary, canary}, many,
		object{}, object{canary: canary}, object{canary: number("1")}, object{canary: nil},
		object{canary: object{canary: []any{canary}}}, object{"": ""}, wide,
	}
}

// bodySchema returns the schema of an operation's body and the names that lead to it.
func bodySchema(s sample) ([]string, map[string]any) {
	names := []string{"paths", s.op.Path, strings.ToLower(s.op.Method), "requestBody", "content", "application/json",
		"schema"}
	return names, members(at(published().root, names...))
}

// property is a place in a body: its path in the body, and the names that lead to its schema.
type property struct {
	path  []any
	names []string
}

func (p property) location() string {
	var b strings.Builder
	b.WriteString("body")
	for _, step := range p.path {
		if n, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", n)
		} else {
			fmt.Fprintf(&b, ".%v", step)
		}
	}
	return b.String()
}

// properties returns every property below a schema, objects in arrays included, and the objects that have a fixed set
// of members.
func properties(names []string, path []any) (all, closed []property) {
	schema := members(at(published().root, names...))
	if ref := text(schema["$ref"]); ref != "" {
		names = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		schema = published().resolve(schema)
	}
	if schema["additionalProperties"] == false {
		closed = append(closed, property{path, names})
	}
	deeper := func(names []string, step any) {
		a, c := properties(names, append(slices.Clone(path), step))
		all, closed = append(all, a...), append(closed, c...)
	}
	for _, name := range slices.Sorted(maps.Keys(members(schema["properties"]))) {
		below := append(slices.Clone(names), "properties", name)
		all = append(all, property{append(slices.Clone(path), name), below})
		deeper(below, name)
	}
	if items := members(schema["items"]); items["$ref"] != nil || items["properties"] != nil {
		deeper(append(slices.Clone(names), "items"), 0)
	}
	return all, closed
}

// changed returns a copy of the body with the value at the path, or without what is there.
func changed(w *world, body object, path []any, value any, remove bool) object {
	w.t.Helper()
	encoded, err := json.Marshal(body)
	require.NoError(w.t, err)
	out := object{}
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.UseNumber()
	require.NoError(w.t, d.Decode(&out))
	var place any = out
	for i, step := range path {
		last := i == len(path)-1
		switch step := step.(type) {
		case string:
			m, ok := place.(object)
			require.True(w.t, ok)
			switch {
			case last && remove:
				delete(m, step)
			case last:
				m[step] = value
			case m[step] == nil:
				m[step] = object{}
			}
			place = m[step]
		case int:
			list, ok := place.([]any)
			require.True(w.t, ok, "the sample has nothing at %v", path)
			place = list[step]
		}
	}
	return out
}

// A value that the published schema refuses gets 422 and the place of the validation error, for every property of every
// body. A value that the schema permits is accepted, or refused for a reason, and never causes an error of the server.
// A refusal writes nothing and quotes nothing.
func TestBadProperties(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		samples := w.samples(f)
		var passing []func()
		var accepted []string
		refused := 0
		for _, s := range samples {
			if s.body == nil {
				continue
			}
			names, _ := bodySchema(s)
			all, closed := properties(names, nil)
			require.NotEmpty(w.t, all)
			w.unchanged(func() {
				for _, p := range all {
					if s.body["operation"] != nil && p.path[0] != "operation" {
						continue // an operation stands alone
					}
					schema := published().schema(w.t, p.names...)
					for _, v := range candidates() {
						body := changed(w, s.body, p.path, v, false)
						if schema.Validate(plain(w, v)) == nil {
							passing = append(passing, func() { w.harmless(w.callSample(w.user(w.env), s, body)) })
							continue
						}
						refused++
						a := w.callSample(w.user(w.env), s, body)
						if a.status != http.StatusUnprocessableEntity {
							accepted = append(accepted, fmt.Sprintf("%s %s %.60q: %d", s.op.ID, p.location(), fmt.Sprint(v), a.status))
							continue
						}
						w.at(a, p.location())
					}
				}
				for _, c := range closed {
					a := w.callSample(w.user(w.env), s, changed(w, s.body, append(slices.Clone(c.path), "no_such_field"), canary,
						false))
					require.Contains(w.t, a.violations(w), c.location()+".no_such_field unknown_field")
					w.secretive(a)
				}
				w.missing(s, closed)
				require.Empty(w.t, accepted, "what the schema refuses and the server takes")
			})
		}
		require.Greater(w.t, refused, 500)
		for _, fn := range passing {
			fn()
		}
		require.NotContains(w.t, w.logs.String(), canary)
	})
}

// missing leaves out each required member.
func (w *world) missing(s sample, closed []property) {
	w.t.Helper()
	for _, c := range closed {
		required, _ := members(at(published().root, c.names...))["required"].([]any)
		for _, name := range required {
			path := append(slices.Clone(c.path), name)
			a := w.callSample(w.user(w.env), s, changed(w, s.body, path, nil, true))
			require.Contains(w.t, a.violations(w), property{path: path}.location()+" required")
		}
	}
}

// plain is a value as a JSON parser sees it.
func plain(w *world, v any) any {
	w.t.Helper()
	encoded, err := json.Marshal(v)
	require.NoError(w.t, err)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(encoded))
	require.NoError(w.t, err)
	return parsed
}

// at requires a validation error at the location or below it, and no value in it.
func (w *world) at(a response, location string) {
	w.t.Helper()
	violations := a.violations(w)
	require.True(w.t, slices.ContainsFunc(violations, func(f string) bool {
		rest, ok := strings.CutPrefix(f, location)
		return ok && strings.ContainsAny(rest[:1], " .[")
	}), "%s %s: no fault at %s: %s", a.method, a.path, location, a.body)
	w.secretive(a)
}

// secretive requires that no message quotes the value.
func (w *world) secretive(a response) {
	w.t.Helper()
	for _, d := range a.envelope(w).Error.Details {
		require.NotContains(w.t, d.Message, canary)
	}
}

// harmless requires anything but an error of the server.
func (w *world) harmless(a response) {
	w.t.Helper()
	require.Less(w.t, a.status, http.StatusInternalServerError, "%s %s: %s", a.method, a.path, a.body)
}

// A body that is no JSON object of the right kind, or none at all, or too much of it, is refused before anything is
// looked up.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		for _, s := range w.samples(f) {
			if s.body == nil {
				continue
			}
			w.run(s.op.ID, func(w *world) {
				w.unchanged(func() { w.badBodies(s) })
			})
		}
		require.NotContains(w.t, w.logs.String(), canary)
	})
}

func (w *world) badBodies(s sample) {
	w.t.Helper()
	good, err := json.Marshal(s.body)
	require.NoError(w.t, err)
	required := at(published().root, "paths", s.op.Path, strings.ToLower(s.op.Method), "requestBody", "required") == true
	for _, broken := range []string{
		"{", "}", `{"a":}`, `{"` + canary + `"`, `{"a":"` + canary, "nul", canary, "\xff\xfe{}", "\x00", string(good) +
			"x", string(good) + string(good), string(good[:len(good)-1]), `{"a":1,}`, `{'a':1}`, strings.Repeat("[", 20_000),
		strings.Repeat(`{"a":`, 20_000), `{"a":01}`, `{"a":"` + "\x01" + `"}`,
	} {
		w.at(w.callSample(w.user(w.env), s, raw(broken)), "body")
	}
	for _, other := range []string{"[]", `"` + canary + `"`, "1", "true", `[{}]`} {
		w.at(w.callSample(w.user(w.env), s, raw(other)), "body")
	}
	if required {
		w.at(w.callSample(w.user(w.env), s, raw("null")), "body")
		w.at(w.callSample(w.user(w.env), s, raw("")), "body")
		w.at(w.callSample(w.user(w.env), s, raw(" \n")), "body")
	}
	for _, contentType := range []string{"text/plain", "application/xml", "application/x-www-form-urlencoded",
		"multipart/form-data; boundary=x", canary, "application/jsonx"} {
		c := func(h http.Header) {
			w.user(w.env)(h)
			h.Set("Content-Type", contentType)
		}
		a := w.callSample(c, s)
		a.refused(w, http.StatusUnsupportedMediaType, apperr.CodeHTTP)
		require.NotContains(w.t, string(a.body), canary)
	}
	big := `{"` + canary + `":"` + strings.Repeat("x", int(max(s.op.MaxBodyBytes, 256<<10))) + `"}`
	w.callSample(w.user(w.env), s, raw(big)).refused(w, http.StatusRequestEntityTooLarge, apperr.CodePayloadTooLarge)
}
