package comparison

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// schema is what is compared of a JSON Schema.
type schema struct {
	Ref                  string             `json:"$ref"`
	Defs                 map[string]*schema `json:"$defs"`
	Type                 kinds              `json:"type"`
	Enum                 []any              `json:"enum"`
	Const                json.RawMessage    `json:"const"`
	AnyOf                []*schema          `json:"anyOf"`
	OneOf                []*schema          `json:"oneOf"`
	AllOf                []*schema          `json:"allOf"`
	Items                *schema            `json:"items"`
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Deprecated           bool               `json:"deprecated"`
	// never is true of the schema false.
	never bool
}

// plainSchema is schema without its method.
type plainSchema schema

// UnmarshalJSON reads a schema, which may be a boolean.
func (s *schema) UnmarshalJSON(text []byte) error {
	switch string(bytes.TrimSpace(text)) {
	case "true", "null":
		return nil
	case "false":
		s.never = true
		return nil
	}
	if err := json.Unmarshal(text, (*plainSchema)(s)); err != nil {
		return fmt.Errorf("read a schema: %w", err)
	}
	return nil
}

// kinds are types of values.
type kinds []string

// UnmarshalJSON reads one type or several.
func (k *kinds) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*k = kinds{one}
		return nil
	}
	if err := json.Unmarshal(text, (*[]string)(k)); err != nil {
		return fmt.Errorf("read types: %w", err)
	}
	return nil
}

func readSchema(text []byte) (*schema, error) {
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	return &s, nil
}

// maxLevels is how many schemas within each other are looked at. Documents can have cycles.
const maxLevels = 12

// resolve follows references to definitions of the root.
func (s *schema) resolve(of *schema) *schema {
	for range maxLevels {
		name, found := strings.CutPrefix(of.Ref, "#/$defs/")
		if !found {
			return of
		}
		target := s.Defs[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
		if target == nil {
			return &schema{}
		}
		of = target
	}
	return &schema{}
}

// choices are the schemas one of which a value has; nil if there is no choice.
func (s *schema) choices() []*schema { return append(slices.Clone(s.AnyOf), s.OneOf...) }

// kindsOf returns the types that a value can have; nil for any.
func (s *schema) kindsOf(of *schema, level int) kinds {
	of = s.resolve(of)
	switch list := of.choices(); {
	case level > maxLevels:
		return nil
	case len(of.Type) > 0:
		return of.Type
	case of.Enum != nil || of.Const != nil:
		var out kinds
		for _, v := range of.values() {
			out = append(out, kindOf(v))
		}
		return out
	case len(list) > 0:
		var out kinds
		for _, one := range list {
			more := s.kindsOf(one, level+1)
			if more == nil {
				return nil
			}
			out = append(out, more...)
		}
		return out
	case of.Properties != nil:
		return kinds{"object"}
	case of.Items != nil:
		return kinds{"array"}
	}
	for _, one := range of.AllOf {
		if out := s.kindsOf(one, level+1); out != nil {
			return out
		}
	}
	return nil
}

func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		if v == float64(int64(v)) {
			return "integer"
		}
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// values are those that enum and const list.
func (s *schema) values() []any {
	if s.Const == nil {
		return s.Enum
	}
	var v any
	if json.Unmarshal(s.Const, &v) != nil {
		return nil
	}
	return []any{v}
}

// listed returns the values that are permitted, as texts; closed is false if others are, too.
func (s *schema) listed(of *schema, level int) (texts []string, closed bool) {
	of = s.resolve(of)
	list := of.choices()
	switch {
	case level > maxLevels:
		return nil, false
	case of.Enum != nil || of.Const != nil:
		for _, v := range of.values() {
			texts = append(texts, written(v))
		}
		return texts, true
	case len(list) > 0:
		for _, one := range list {
			more, ok := s.listed(one, level+1)
			if !ok && !slices.Equal(s.kindsOf(one, level+1), kinds{"null"}) {
				return nil, false
			}
			texts = append(texts, more...)
		}
		return texts, true
	}
	for _, one := range of.AllOf {
		if texts, closed = s.listed(one, level+1); closed {
			return texts, true
		}
	}
	return nil, false
}

// written returns a value as people and queries write it.
func written(v any) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(v)
}

// members returns the members of an object, with those of its parts and choices; open is true if it can have others.
func (s *schema) members(of *schema) (out map[string]*schema, open bool) {
	out = map[string]*schema{}
	return out, s.collect(of, out, 0) || len(out) == 0
}

func (s *schema) collect(of *schema, out map[string]*schema, level int) (open bool) {
	if level > maxLevels {
		return true
	}
	of = s.resolve(of)
	for name, one := range of.Properties {
		if one != nil && out[name] == nil {
			out[name] = one
		}
	}
	open = of.AdditionalProperties != nil && !of.AdditionalProperties.never
	for _, one := range append(of.choices(), of.AllOf...) {
		open = s.collect(one, out, level+1) || open
	}
	return open
}

// items returns the schema of the items of a list; nil for any.
func (s *schema) items(of *schema, level int) *schema {
	of = s.resolve(of)
	if of.Items != nil || level > maxLevels {
		return of.Items
	}
	for _, one := range append(of.choices(), of.AllOf...) {
		if found := s.items(one, level+1); found != nil {
			return found
		}
	}
	return nil
}

// values compares what an input permits with what the document permits. As text, lists and numbers are written out.
func (p *pair) values(field string, own, there *schema, text bool) {
	own = p.ours.resolve(own)
	if p.theirs.resolve(there).Deprecated && !own.Deprecated {
		p.c.add(field, "is deprecated in the document")
	}
	p.compare(field, "", own, there, text, 0)
}

// maxCompared is how deep members are compared.
const maxCompared = 6

// compare compares two schemas. within says which part of the input is meant.
func (p *pair) compare(field, within string, own, there *schema, text bool, level int) {
	if level > maxCompared {
		return
	}
	of := ""
	if within != "" {
		of = "has " + within + ", which "
	}
	ours, theirs := p.ours.kindsOf(own, 0), p.theirs.kindsOf(there, 0)
	for _, kind := range ours {
		if theirs != nil && !fits(kind, theirs, text) {
			p.c.add(field, "%sis %s, and in the document %s", of, kind, strings.Join(distinct(theirs), " or "))
			return
		}
	}
	if permitted, closed := p.theirs.listed(there, 0); closed {
		values, _ := p.ours.listed(own, 0)
		for _, value := range values {
			if !slices.Contains(permitted, value) {
				p.c.add(field, "%shas the value %s, and in the document there are %s", of, value, some(permitted))
			}
		}
	}
	if text && !slices.Contains(theirs, "array") && !slices.Contains(theirs, "object") {
		return
	}
	if item, other := p.ours.items(own, 0), p.theirs.items(there, 0); item != nil && other != nil {
		p.compare(field, strings.TrimSpace(within+" items"), item, other, text, level+1)
	}
	if !slices.Contains(ours, "object") || isFile(p.ours.resolve(own)) {
		return
	}
	ownMembers, _ := p.ours.members(own)
	members, open := p.theirs.members(there)
	for _, name := range sortedNames(ownMembers) {
		at := strings.TrimPrefix(within+"."+name, ".")
		switch other := members[name]; {
		case other != nil:
			p.compare(field, at, ownMembers[name], other, text, level+1)
		case !open:
			p.c.add(field, "has %s, which the document does not have", at)
		}
	}
	if len(ownMembers) == 0 {
		return
	}
	for _, name := range p.theirs.resolve(there).Required {
		if ownMembers[name] == nil {
			p.c.add(field, "does not have %s, which the document requires", strings.TrimPrefix(within+"."+name, "."))
		}
	}
}

// isFile reports whether a schema is that of a file, which is written in the same way on both sides.
func isFile(s *schema) bool { return s.Properties["base64"] != nil }

// fits reports whether a value of a type can be sent where the document has others.
func fits(kind string, there kinds, text bool) bool {
	if slices.Contains(there, kind) || kind == "integer" && slices.Contains(there, "number") {
		return true
	}
	scalar := kind == "string" || kind == "integer" || kind == "number" || kind == "boolean"
	// A number is written as text, and a list as one value or several with something between them.
	return text && scalar && (slices.Contains(there, "string") || slices.Contains(there, "array"))
}

func distinct(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// some lists the first of many values.
func some(list []string) string {
	const most = 12
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

func sortedNames(members map[string]*schema) []string {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
