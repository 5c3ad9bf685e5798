package toolformat

import (
	"encoding/json"
	"slices"
	"strconv"
)

func (c *checker) gemini(tool map[string]any) {
	c.members("the declaration", tool, []string{"name", "description"}, []string{"parameters"})
	c.named(tool, geminiName, maxDefinition)
	if parameters, there := tool["parameters"]; there {
		schema, _ := parameters.(map[string]any)
		c.limit(schema["type"] == "OBJECT", "parameters are not of the type OBJECT")
		properties, _ := schema["properties"].(map[string]any)
		c.limit(len(properties) > 0, "parameters have no properties")
		c.geminiSchema("parameters", parameters, 1)
	}
}

// geminiFields are the members of Schema that values of a type have.
func geminiFields(kind any) []string {
	switch kind {
	case "STRING":
		return []string{"format", "enum", "minLength", "maxLength", "pattern"}
	case "NUMBER", "INTEGER":
		return []string{"format", "minimum", "maximum"}
	case "ARRAY":
		return []string{"items", "minItems", "maxItems"}
	case "OBJECT":
		return []string{"properties", "required", "propertyOrdering", "minProperties", "maxProperties"}
	default:
		return nil
	}
}

func (c *checker) geminiSchema(at string, value any, level int) {
	c.limit(level <= geminiDepth, "%s is at level %d", at, level)
	schema, ok := value.(map[string]any)
	if !ok {
		c.report("%s is no object", at)
		return
	}
	if branches, ok := schema["anyOf"].([]any); ok {
		c.members(at, schema, []string{"anyOf"}, nil)
		c.limit(len(branches) > 0, "%s has no alternatives", at)
		for _, b := range branches {
			c.geminiSchema(at, b, level+1)
		}
		return
	}
	kind := schema["type"]
	c.limit(slices.Contains([]any{"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}, kind),
		"%s has the type %v", at, kind)
	c.members(at, schema, []string{"type"}, append(geminiFields(kind), "description", "nullable"))
	c.geminiValues(at, schema)
	if kind == "ARRAY" {
		c.geminiSchema(at+"[]", schema["items"], level+1)
	}
	if kind == "OBJECT" {
		c.geminiObject(at, schema, level)
	}
}

func (c *checker) geminiValues(at string, schema map[string]any) {
	formats := map[any][]any{"STRING": {"enum", "date-time"}, "NUMBER": {"float", "double"},
		"INTEGER": {"int32", "int64"}}
	if format, there := schema["format"]; there {
		c.limit(slices.Contains(formats[schema["type"]], format), "%s has the format %v", at, format)
	}
	if enum, there := schema["enum"]; there {
		list, _ := enum.([]any)
		c.limit(len(list) > 0, "%s has an enum without values", at)
		for _, v := range list {
			text, ok := v.(string)
			c.limit(ok && text != "", "%s has the value %v", at, v)
		}
	}
	if nullable, there := schema["nullable"]; there {
		_, ok := nullable.(bool)
		c.limit(ok, "%s has nullable %v", at, nullable)
	}
	for _, name := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"} {
		if v, there := schema[name]; there {
			text, _ := v.(string)
			n, err := strconv.ParseInt(text, 10, 64)
			c.limit(err == nil && n >= 0, "%s has %s %v", at, name, v)
		}
	}
	for _, name := range []string{"minimum", "maximum"} {
		if v, there := schema[name]; there {
			n, ok := v.(json.Number)
			_, err := n.Float64()
			c.limit(ok && err == nil, "%s has %s %v", at, name, v)
		}
	}
}

func (c *checker) geminiObject(at string, schema map[string]any, level int) {
	value, there := schema["properties"]
	properties, _ := value.(map[string]any)
	c.limit(!there || len(properties) > 0, "%s has no property in properties", at)
	for _, list := range []string{"required", "propertyOrdering"} {
		names, _ := schema[list].([]any)
		for _, name := range names {
			text, _ := name.(string)
			_, there := properties[text]
			c.limit(there, "%s of %s has %v, which is no property", list, at, name)
		}
	}
	for name, property := range properties {
		c.limit(parameterName.MatchString(name), "the property %q has not the form %s", name, parameterName)
		c.geminiSchema(at+"."+name, property, level+1)
	}
}
