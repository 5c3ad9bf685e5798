package toolformat

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits of Structured Outputs.
const (
	maxStrictProperties = 5000
	maxStrictDepth      = 10
	maxStrictCharacters = 120_000
	maxStrictValues     = 1000
	// An enum of strings with more values than the first has at most so many characters.
	manyValues, maxManyCharacters = 250, 15_000
)

func (c *checker) openAI(tool map[string]any) {
	c.members("the tool", tool, []string{"type", "name", "description", "parameters", "strict"}, nil)
	c.limit(tool["type"] == "function", "the type is not function")
	c.named(tool, functionName, 1024)
	parameters, ok := tool["parameters"].(map[string]any)
	c.limit(ok && parameters["type"] == "object", "parameters are no schema of objects")
	_, ok = parameters["properties"].(map[string]any)
	c.limit(ok, "parameters have no properties")
	for _, name := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		c.limit(parameters[name] == nil, "parameters have %s at the top", name)
	}
	strict, isFlag := tool["strict"].(bool)
	c.limit(isFlag, "strict is no boolean")
	if strict {
		c.strict(parameters)
		return
	}
	c.each(parameters, func(at map[string]any) {
		if hasType(at, "array") {
			c.limit(at["items"] != nil, "an array has no items")
		}
	})
}

// hasType reports whether a type is the only one or one of several.
func hasType(schema map[string]any, name string) bool {
	list, _ := schema["type"].([]any)
	return schema["type"] == name || slices.Contains(list, any(name))
}

func (c *checker) strict(root map[string]any) {
	c.definitions, _ = root["$defs"].(map[string]any)
	c.open = map[string]bool{}
	c.strictSchema("parameters", root, 0, true)
	for name, value := range c.definitions {
		c.characters += utf8.RuneCountInString(name)
		c.count(value)
	}
	c.count(root)
	c.limit(c.properties <= maxStrictProperties, "there are %d properties", c.properties)
	c.limit(c.values <= maxStrictValues, "there are %d values of enums", c.values)
	c.limit(c.characters <= maxStrictCharacters, "names and values have %d characters", c.characters)
	c.limit(c.deepest <= maxStrictDepth, "there are %d levels", c.deepest)
}

// count counts what a schema has without its definitions.
func (c *checker) count(value any) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		c.properties++
		c.characters += utf8.RuneCountInString(name)
		c.count(property)
	}
	enum, _ := schema["enum"].([]any)
	characters := 0
	for _, v := range enum {
		c.values++
		if text, ok := v.(string); ok {
			characters += utf8.RuneCountInString(text)
		}
	}
	c.characters += characters
	c.limit(len(enum) <= manyValues || characters <= maxManyCharacters, "an enum has %d values with %d characters",
		len(enum), characters)
	c.count(schema["items"])
	branches, _ := schema["anyOf"].([]any)
	for _, b := range branches {
		c.count(b)
	}
}

// strictKeywords are what Structured Outputs knows: of all values, and of one type.
func strictKeywords(kind string) []string {
	switch kind {
	case "string":
		return []string{"pattern", "format"}
	case "number", "integer":
		return []string{"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"}
	case "array":
		return []string{"items", "minItems", "maxItems"}
	case "object":
		return []string{"properties", "required", "additionalProperties"}
	default:
		return nil
	}
}

// strictSchema checks a schema below so many arrays, objects and alternatives. Definitions are followed where they are
// used, until they contain themselves.
func (c *checker) strictSchema(at string, value any, level int, top bool) {
	schema, ok := value.(map[string]any)
	if !ok {
		c.report("%s is no object", at)
		return
	}
	if c.deepest = max(c.deepest, level); level > maxStrictDepth {
		return
	}
	if ref, ok := schema["$ref"].(string); ok {
		c.members(at, schema, []string{"$ref"}, nil)
		name := strings.TrimPrefix(ref, "#/$defs/")
		target, there := c.definitions[name]
		c.limit(there, "%s refers to %s, which is not there", at, ref)
		if there && !c.open[name] {
			c.open[name] = true
			c.strictSchema(name, target, level, false)
			delete(c.open, name)
		}
		return
	}
	if branches, ok := schema["anyOf"].([]any); ok && !top {
		c.members(at, schema, []string{"anyOf"}, []string{"description"})
		c.limit(len(branches) > 0, "%s has no alternatives", at)
		for _, b := range branches {
			c.strictSchema(at, b, level+1, false)
		}
		return
	}
	kinds := strictTypes(schema)
	c.limit(len(kinds) > 0, "%s has no type", at)
	allowed := []string{"description", "enum"}
	if top {
		allowed = append(allowed, "$defs")
	}
	for _, kind := range kinds {
		allowed = append(allowed, strictKeywords(kind)...)
	}
	c.members(at, schema, []string{"type"}, allowed)
	c.strictValues(at, schema, kinds)
	if slices.Contains(kinds, "array") {
		c.strictSchema(at+"[]", schema["items"], level+1, false)
	}
	if slices.Contains(kinds, "object") {
		c.strictObject(at, schema, level)
	}
}

func strictTypes(schema map[string]any) (kinds []string) {
	if kind, ok := schema["type"].(string); ok {
		return []string{kind}
	}
	list, _ := schema["type"].([]any)
	for _, item := range list {
		kind, _ := item.(string)
		kinds = append(kinds, kind)
	}
	return kinds
}

func (c *checker) strictValues(at string, schema map[string]any, kinds []string) {
	for _, kind := range kinds {
		c.limit(slices.Contains([]string{"string", "number", "integer", "boolean", "array", "object", "null"}, kind),
			"%s has the type %q", at, kind)
	}
	if format, ok := schema["format"]; ok {
		c.limit(slices.Contains([]any{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6",
			"uuid"}, format), "%s has the format %v", at, format)
	}
	enum, there := schema["enum"].([]any)
	c.limit(!there || len(enum) > 0, "%s has an enum without values", at)
	for _, v := range enum {
		c.limit(slices.ContainsFunc(kinds, func(kind string) bool { return isOf(v, kind) }), "%s has the value %v, of "+
			"another type", at, v)
	}
}

// isOf reports whether a value is of a type that enums can have.
func isOf(v any, kind string) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case json.Number:
		f, err := v.Float64()
		return kind == "number" || kind == "integer" && err == nil && f == float64(int64(f))
	default:
		return false
	}
}

func (c *checker) strictObject(at string, schema map[string]any, level int) {
	c.limit(schema["additionalProperties"] == false, "%s permits other properties", at)
	properties, ok := schema["properties"].(map[string]any)
	c.limit(ok, "%s has no properties", at)
	required, ok := schema["required"].([]any)
	c.limit(ok && len(required) == len(properties), "%s does not require every property", at)
	for _, name := range required {
		text, _ := name.(string)
		_, there := properties[text]
		c.limit(there, "%s requires %v, which is not there", at, name)
	}
	for name, property := range properties {
		c.strictSchema(at+"."+name, property, level+1, false)
	}
}
