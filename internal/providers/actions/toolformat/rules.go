package toolformat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Violations checks a definition against the published rules of its reader, and returns one line for each that it
// breaks, at most 20. It shares no code with what writes definitions. The rules and their sources are in README.md.
// That schemas are valid JSON Schema is for a validator to check.
func Violations(f Format, definition []byte) []string {
	c := &checker{}
	d := json.NewDecoder(bytes.NewReader(definition))
	d.UseNumber()
	var tool map[string]any
	if err := d.Decode(&tool); err != nil {
		return []string{"it is no JSON object: " + err.Error()}
	}
	c.limit(len(definition) <= maxDefinition, "it has %d bytes, more than %d", len(definition), maxDefinition)
	switch f {
	case MCP:
		c.mcp(tool)
	case OpenAI:
		c.openAI(tool)
	case Anthropic:
		c.anthropic(tool)
	case Gemini:
		c.gemini(tool)
	default:
		c.report("there is no format %q", string(f))
	}
	return c.lines
}

// checker collects violations.
type checker struct {
	lines []string
	// The counts of Structured Outputs.
	properties, values, characters, deepest int
	definitions                             map[string]any
	open                                    map[string]bool
}

func (c *checker) report(format string, args ...any) {
	if len(c.lines) < 20 {
		c.lines = append(c.lines, fmt.Sprintf(format, args...))
	}
}

func (c *checker) limit(holds bool, format string, args ...any) {
	if !holds {
		c.report(format, args...)
	}
}

// members checks which members an object has.
func (c *checker) members(at string, object map[string]any, required, optional []string) {
	for _, name := range required {
		if _, ok := object[name]; !ok {
			c.report("%s has no %s", at, name)
		}
	}
	for name := range object {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			c.report("%s has %s", at, name)
		}
	}
}

// The forms of names.
var (
	mcpName       = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
	functionName  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	claudeKey     = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
	geminiName    = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$`)
	parameterName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`)
)

func (c *checker) named(tool map[string]any, form *regexp.Regexp, longest int) {
	name, _ := tool["name"].(string)
	c.limit(form.MatchString(name), "the name %q has not the form %s", name, form)
	description, ok := tool["description"].(string)
	c.limit(ok && description != "", "there is no description")
	if n := utf8.RuneCountInString(description); n > longest {
		c.report("the description has %d characters, more than %d", n, longest)
	}
}

func (c *checker) mcp(tool map[string]any) {
	c.members("the tool", tool, []string{"name", "inputSchema"}, []string{"title", "description", "outputSchema",
		"annotations"})
	c.named(tool, mcpName, maxDefinition)
	for _, name := range []string{"inputSchema", "outputSchema"} {
		value, there := tool[name]
		if !there {
			continue
		}
		schema, ok := value.(map[string]any)
		c.limit(ok && schema["type"] == "object", "%s is no schema of objects", name)
		properties, ok := schema["properties"].(map[string]any)
		c.limit(ok || schema["properties"] == nil, "the properties of %s are no object", name)
		for property, v := range properties {
			_, ok := v.(map[string]any)
			c.limit(ok, "the schema of %s is no object", property)
		}
	}
	annotations, _ := tool["annotations"].(map[string]any)
	for name, v := range annotations {
		_, isText := v.(string)
		_, isFlag := v.(bool)
		c.limit(name == "title" && isText || strings.HasSuffix(name, "Hint") && isFlag, "the annotation %s", name)
	}
}

func (c *checker) anthropic(tool map[string]any) {
	c.members("the tool", tool, []string{"name", "description", "input_schema"}, nil)
	c.named(tool, functionName, maxDefinition)
	schema, ok := tool["input_schema"].(map[string]any)
	c.limit(ok && schema["type"] == "object", "input_schema is no schema of objects")
	for _, name := range []string{"oneOf", "anyOf", "allOf"} {
		c.limit(schema[name] == nil, "input_schema has %s at the top", name)
	}
	c.each(schema, func(at map[string]any) {
		for _, name := range []string{"$ref", "$defs", "$dynamicRef", "definitions"} {
			c.limit(at[name] == nil, "there is %s", name)
		}
		properties, _ := at["properties"].(map[string]any)
		for name := range properties {
			c.limit(claudeKey.MatchString(name), "the property %q has not the form %s", name, claudeKey)
		}
	})
}

// each visits a schema and those within it.
func (c *checker) each(value any, visit func(map[string]any)) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	visit(schema)
	for _, name := range []string{"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then",
		"else"} {
		c.each(schema[name], visit)
	}
	for _, name := range []string{"anyOf", "oneOf", "allOf", "prefixItems"} {
		list, _ := schema[name].([]any)
		for _, item := range list {
			c.each(item, visit)
		}
	}
	for _, name := range []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"} {
		object, _ := schema[name].(map[string]any)
		for _, item := range object {
			c.each(item, visit)
		}
	}
}
