package actiondiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// document is a JSON Schema with its definitions.
type document struct {
	root        any
	definitions map[string]any
}

// readSchema reads a schema that is stored; it is one that this release or an earlier one has written.
func readSchema(text json.RawMessage) (d document) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // numbers can have more digits than a float64 takes
	if decoder.Decode(&d.root) != nil {
		return document{root: true}
	}
	if object, ok := d.root.(map[string]any); ok {
		d.definitions, _ = object["$defs"].(map[string]any)
	}
	return d
}

const definitionsPath = "#/$defs/"

// resolve follows references, and returns the name of the last; empty for none.
func (d *document) resolve(schema any) (object map[string]any, name string) {
	for range maxDepth {
		object, _ = schema.(map[string]any)
		ref, ok := object["$ref"].(string)
		if !ok {
			// A reference with a description of its own is written as the only part of an allOf.
			parts, one := object["allOf"].([]any)
			if !one || len(parts) != 1 || len(object) > 2 || len(object) == 2 && object["description"] == nil {
				return object, name
			}
			schema = parts[0]
			continue
		}
		name = strings.TrimPrefix(ref, definitionsPath)
		if ref == "#" {
			schema, name = d.root, "#"
			continue
		}
		schema = d.definitions[name]
	}
	return object, name
}

// schemaComparison compares the schemas of one side of an action.
type schemaComparison struct {
	*comparison
	words *words
	input bool
	// old and now are the documents of both schemas.
	old, now document
	// seen are pairs of definitions that were compared.
	seen  map[[2]string]bool
	nodes int
	// same is true if both documents have the same definitions.
	same bool
}

func (s *schemaComparison) found(kind Kind, at, from, to string, breaking bool) {
	s.add(Difference{Kind: kind, At: at, From: from, To: to, Breaking: breaking})
}

// compare compares two schemas of the same value.
func (s *schemaComparison) compare(before, after any, at string, depth int) {
	if s.nodes++; s.nodes > maxNodes || depth > maxDepth {
		s.nodes = max(s.nodes, maxNodes+1)
		return
	}
	if reflect.DeepEqual(before, after) && (s.same || !refers(before)) {
		return
	}
	old, oldName := s.old.resolve(before)
	now, nowName := s.now.resolve(after)
	if oldName != "" && nowName != "" {
		pair := [2]string{oldName, nowName}
		if s.seen[pair] {
			return
		}
		s.seen[pair] = true
	}
	s.types(old, now, before, after, at)
	s.values(old, now, at)
	s.constraints(old, now, at)
	s.members(old, now, at, depth)
	s.parts(old, now, at, depth)
}

// refers reports whether a schema may refer to a definition, which may differ although the reference is the same.
func refers(schema any) bool {
	switch v := schema.(type) {
	case map[string]any:
		if _, is := v["$ref"]; is {
			return true
		}
		for _, child := range v {
			if refers(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, refers)
	}
	return false
}

// anyType are the types of a schema that names none.
const anyType = "any"

func typesOf(schema map[string]any) (out []string) {
	switch v := schema["type"].(type) {
	case string:
		return []string{v}
	case []any:
		for _, each := range v {
			if name, ok := each.(string); ok {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// accepts reports whether each value of the types of one schema has one of another's.
func accepts(wide, narrow []string) bool {
	if len(wide) == 0 {
		return true
	}
	if len(narrow) == 0 {
		return false
	}
	return !slices.ContainsFunc(narrow, func(t string) bool {
		return !slices.Contains(wide, t) && (t != "integer" || !slices.Contains(wide, "number"))
	})
}

// holds reports whether callers can go on: what they send is accepted still, and what they get is what they know.
func (s *schemaComparison) holds(before, after []string) bool {
	if s.input {
		return accepts(after, before)
	}
	return accepts(before, after)
}

func (s *schemaComparison) types(old, now map[string]any, before, after any, at string) {
	if before == false || after == false { // a schema that accepts nothing
		if before != after {
			s.found(s.words.typed, at, text(before), text(after), s.input && after == false)
		}
		return
	}
	from, to := typesOf(old), typesOf(now)
	if !slices.Equal(from, to) {
		s.found(s.words.typed, at, typeText(from), typeText(to), !s.holds(from, to))
	}
}

func typeText(types []string) string {
	if len(types) == 0 {
		return anyType
	}
	return strings.Join(types, " or ")
}

// text is a value as JSON.
func text(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(out)
}

// valuesOf are the values that a schema lists, as JSON; ok is false if it lists none.
func valuesOf(schema map[string]any) (out []string, ok bool) {
	if v, is := schema["const"]; is {
		return []string{text(v)}, true
	}
	list, ok := schema["enum"].([]any)
	for _, v := range list {
		out = append(out, text(v))
	}
	return out, ok
}

// values compares listed values. Values that results may have in addition are not breaking: providers add them.
func (s *schemaComparison) values(old, now map[string]any, at string) {
	before, had := valuesOf(old)
	after, has := valuesOf(now)
	switch {
	case !had && !has:
	case !had:
		s.found(s.words.enum, at, "", strings.Join(after, ", "), s.input)
	case !has:
		s.found(s.words.enum, at, strings.Join(before, ", "), "", false)
	default:
		gone, come := without(before, after), without(after, before)
		if len(gone)+len(come) > 0 {
			s.found(s.words.enum, at, strings.Join(gone, ", "), strings.Join(come, ", "), s.input && len(gone) > 0)
		}
	}
}

// without returns the members of a list that another one does not have.
func without(list, other []string) (out []string) {
	known := make(map[string]bool, len(other))
	for _, v := range other {
		known[v] = true
	}
	for _, v := range list {
		if !known[v] {
			out = append(out, v)
		}
	}
	return out
}

// bounds are keywords with a number. Those that are lower bounds narrow as they rise.
func bounds() map[string]bool {
	return map[string]bool{"minimum": true, "exclusiveMinimum": true, "minLength": true, "minItems": true,
		"minProperties": true, "maximum": false, "exclusiveMaximum": false, "maxLength": false, "maxItems": false,
		"maxProperties": false}
}

// constraints compares what limits values. Those of results are never breaking.
func (s *schemaComparison) constraints(old, now map[string]any, at string) {
	lower := bounds()
	for _, name := range slices.Sorted(maps.Keys(lower)) {
		from, had := number(old[name])
		to, has := number(now[name])
		if had == has && from == to {
			continue
		}
		narrower := has && (!had || (to > from) == lower[name])
		s.found(s.words.constraint, at, bound(name, from, had), bound(name, to, has), s.input && narrower)
	}
	for _, name := range []string{"pattern", "format", "multipleOf", "uniqueItems"} {
		if from, to := old[name], now[name]; !reflect.DeepEqual(from, to) {
			s.found(s.words.constraint, at, keyword(name, from), keyword(name, to), s.input && to != nil && to != false)
		}
	}
}

func number(v any) (float64, bool) {
	digits, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	n, _ := digits.Float64() // one out of range is infinite, which orders it as well
	return n, true
}

func bound(name string, n float64, there bool) string {
	if !there {
		return ""
	}
	return name + " " + strconv.FormatFloat(n, 'g', -1, 64)
}

func keyword(name string, v any) string {
	if v == nil {
		return ""
	}
	if value, ok := v.(string); ok {
		return name + " " + value
	}
	return name + " " + text(v)
}

func propertiesOf(schema map[string]any) map[string]any {
	properties, _ := schema["properties"].(map[string]any)
	return properties
}

func requiredOf(schema map[string]any) map[string]bool {
	list, _ := schema["required"].([]any)
	out := make(map[string]bool, len(list))
	for _, v := range list {
		if name, ok := v.(string); ok {
			out[name] = true
		}
	}
	return out
}

// escaped is a name within a JSON pointer (RFC 6901).
func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// members compares the members of objects and the items of arrays.
func (s *schemaComparison) members(old, now map[string]any, at string, depth int) {
	before, after := propertiesOf(old), propertiesOf(now)
	needed, needs := requiredOf(old), requiredOf(now)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		place := at + "/" + escaped(name)
		property, kept := after[name]
		if !kept {
			s.found(s.words.removed, place, s.describe(&s.old, before[name]), "", true)
			continue
		}
		switch {
		case needs[name] && !needed[name]:
			s.found(s.words.required, place, "", "", s.input)
		case needed[name] && !needs[name]:
			s.found(s.words.optional, place, "", "", !s.input)
		}
		s.compare(before[name], property, place, depth+1)
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, known := before[name]; known {
			continue
		}
		to := s.describe(&s.now, after[name])
		if needs[name] {
			to += ", required"
		}
		s.found(s.words.added, at+"/"+escaped(name), "", to, s.input && needs[name])
	}
	for _, name := range []string{"items", "additionalProperties"} {
		from, had := old[name]
		to, has := now[name]
		if !had && !has {
			continue
		}
		if !had {
			from = true
		}
		if !has {
			to = true
		}
		s.compare(from, to, at+"/*", depth+1)
	}
}

// describe is the type of a schema.
func (s *schemaComparison) describe(d *document, schema any) string {
	object, _ := d.resolve(schema)
	return typeText(typesOf(object))
}

// parts compares the schemas of which a value must match all, some or one, in their order.
func (s *schemaComparison) parts(old, now map[string]any, at string, depth int) {
	for _, name := range []string{"allOf", "anyOf", "oneOf"} {
		before, _ := old[name].([]any)
		after, _ := now[name].([]any)
		for i := range min(len(before), len(after)) {
			s.compare(before[i], after[i], at, depth+1)
		}
		if len(before) == len(after) {
			continue
		}
		count := func(n int) string {
			if n == 0 {
				return ""
			}
			return fmt.Sprintf("%s of %d schemas", name, n)
		}
		// Without any there is no restriction. More alternatives accept more, and more of allOf less.
		wider := len(after) == 0 || len(before) > 0 && (len(after) > len(before)) != (name == "allOf")
		s.found(s.words.typed, at, count(len(before)), count(len(after)), s.input != wider)
	}
	if from, to := old["not"], now["not"]; !reflect.DeepEqual(from, to) {
		s.found(s.words.constraint, at, keyword("not", from), keyword("not", to), s.input && to != nil)
	}
}
