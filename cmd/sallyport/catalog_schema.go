package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sallyport/internal/platform/terminal"
)

// objectSchema is the part of an object's JSON Schema that commands show.
type objectSchema struct {
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
}

// names lists the properties; those that can be left out are marked.
func (s *objectSchema) names() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.Required, name) {
			name += " (optional)"
		}
		list = append(list, name)
	}
	return strings.Join(list, ", ")
}

// maxDescription is how many characters of a property's description the table of inputs shows.
const maxDescription = 160

// printInputs prints the properties of an action's input in the order of its parameters: first those that are required.
func (e *env) printInputs(d *actionDetail) error {
	places := map[string]string{}
	var names []string
	for i := range d.ParameterMap {
		p := &d.ParameterMap[i]
		if _, ok := places[p.Property]; !ok {
			names = append(names, p.Property)
		}
		places[p.Property] = p.place()
	}
	for _, name := range slices.Sorted(maps.Keys(d.Input.Properties)) {
		if _, ok := places[name]; !ok {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return d.Input.rank(a) - d.Input.rank(b)
	})
	t := e.table(terminal.Column{Title: "INPUT", Fixed: true}, terminal.Column{Title: "TYPE"},
		terminal.Column{Title: "REQUIRED"}, terminal.Column{Title: "IN"}, terminal.Column{Title: "DESCRIPTION"})
	for _, name := range names {
		required := ""
		if slices.Contains(d.Input.Required, name) {
			required = "yes"
		}
		property := d.Input.Properties[name]
		t.Row(name, typeOf(property, 0), required, places[name], describe(property))
	}
	return e.section("Inputs", len(names), t)
}

func (s *objectSchema) rank(name string) int {
	if slices.Contains(s.Required, name) {
		return 0
	}
	return 1
}

// shape is the part of a JSON Schema that a type is named by.
type shape struct {
	Type        json.RawMessage   `json:"type"`
	Format      string            `json:"format"`
	Enum        []json.RawMessage `json:"enum"`
	Const       json.RawMessage   `json:"const"`
	Items       json.RawMessage   `json:"items"`
	AnyOf       []json.RawMessage `json:"anyOf"`
	OneOf       []json.RawMessage `json:"oneOf"`
	Description string            `json:"description"`
	Default     json.RawMessage   `json:"default"`
}

const (
	// maxTypeDepth is how many arrays within each other the name of a type shows, and maxValues how many values.
	maxTypeDepth, maxValues = 3, 6
	// anyType is the type of a schema that restricts nothing, or nothing that has a short name.
	anyType = "any"
)

// typeOf names the type of a JSON Schema for people.
func typeOf(schema json.RawMessage, depth int) string {
	var s shape
	if err := json.Unmarshal(schema, &s); err != nil {
		return anyType // a schema can be a boolean, too
	}
	types := typeNames(s.Type)
	switch {
	case len(s.Enum) > 0:
		return valuesOf(s.Enum)
	case s.Const != nil:
		return valuesOf([]json.RawMessage{s.Const})
	case len(types) == 0 && depth < maxTypeDepth:
		for _, part := range slices.Concat(s.AnyOf, s.OneOf) {
			if name := typeOf(part, depth+1); name != anyType && !slices.Contains(types, name) {
				types = append(types, name)
			}
		}
	}
	for i, name := range types {
		switch {
		case name == "array" && len(s.Items) > 0 && depth < maxTypeDepth:
			types[i] = "array of " + typeOf(s.Items, depth+1)
		case name == "string" && s.Format != "":
			types[i] = s.Format
		}
	}
	if len(types) == 0 {
		return anyType
	}
	return strings.Join(types, " or ")
}

// typeNames returns the types that a schema names: one as a text, or several.
func typeNames(raw json.RawMessage) (types []string) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	if json.Unmarshal(raw, &types) != nil {
		return nil
	}
	return types
}

func valuesOf(list []json.RawMessage) string {
	var values []string
	for _, raw := range list[:min(len(list), maxValues)] {
		text := string(raw)
		if strings.HasPrefix(text, `"`) {
			_ = json.Unmarshal(raw, &text) // it is valid JSON, as a part of such
		}
		values = append(values, text)
	}
	if more := len(list) - maxValues; more > 0 {
		values = append(values, fmt.Sprintf("%d more", more))
	}
	return strings.Join(values, "|")
}

// describe returns the beginning of a property's description, and its default.
func describe(schema json.RawMessage) string {
	var s shape
	if err := json.Unmarshal(schema, &s); err != nil {
		return ""
	}
	text := strings.Join(strings.Fields(s.Description), " ")
	if runes := []rune(text); len(runes) > maxDescription {
		text = string(runes[:maxDescription]) + "…"
	}
	if len(s.Default) > 0 && len(s.Default) <= maxDescription {
		text = strings.TrimSpace(text + " Default: " + string(s.Default))
	}
	return text
}
