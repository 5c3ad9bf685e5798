package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/httpapi/samples"
)

// documentRequest adds an example of the body to the document, and programs that send the request.
func (a *API) documentRequest(ho *huma.Operation, op Operation) {
	r := samples.Request{Method: op.Method, Path: Prefix + examplePath(ho), Credential: op.credential(),
		Stream: len(op.Stream) > 0 || len(op.Download) > 0}
	if schema := bodySchema(ho); schema != nil {
		body := json.RawMessage(op.Example)
		if op.Example == "" {
			body = exampleBody(a.huma.OpenAPI().Components.Schemas, schema)
		}
		ho.RequestBody.Content["application/json"].Example = body
		documentMergePatch(ho)
		documentUpload(ho, op)
		if ho.RequestBody.Required || string(body) != "{}" {
			r.Body = body
		}
	}
	if ho.Extensions == nil {
		ho.Extensions = map[string]any{}
	}
	ho.Extensions["x-codeSamples"] = samples.Of(r)
}

// credential returns the credential of the operation's samples: that of a program, if it accepts one.
func (op Operation) credential() samples.Credential {
	switch {
	case op.Public:
		return samples.None
	case op.Route != "":
		return samples.Key
	case op.Environment:
		return samples.UserInEnvironment
	default:
		return samples.User
	}
}

// examplePath returns the path with the examples of its parameters, and with those of the query that are required.
func examplePath(op *huma.Operation) string {
	path, query := op.Path, url.Values{}
	for _, p := range op.Parameters {
		example := fmt.Sprint(exampleOf(nil, p.Schema, 0))
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(example))
		case p.In == "query" && p.Required:
			query.Set(p.Name, example)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// exampleBody returns a body with the required properties of a schema. If none is required, the body has one that has
// an example, because most such bodies change what they name.
func exampleBody(registry huma.Registry, schema *huma.Schema) json.RawMessage {
	example := exampleOf(registry, schema, 0)
	if m, ok := example.(map[string]any); ok && len(m) == 0 {
		properties := resolved(registry, schema).Properties
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if p := properties[name]; len(p.Examples) > 0 {
				m[name] = p.Examples[0]
				break
			}
		}
	}
	text, err := json.Marshal(example)
	if err != nil {
		panic(fmt.Sprintf("the example of a body cannot be encoded: %v", err))
	}
	return text
}

func resolved(registry huma.Registry, s *huma.Schema) *huma.Schema {
	if s.Ref != "" && registry != nil {
		return registry.SchemaFromRef(s.Ref)
	}
	return s
}

// maxExampleDepth bounds the examples of schemas that contain themselves.
const maxExampleDepth = 8

// exampleOf returns a value of a schema: its example, or else one with the required properties only.
func exampleOf(registry huma.Registry, s *huma.Schema, depth int) any {
	s = resolved(registry, s)
	switch {
	case s == nil || depth > maxExampleDepth:
		return map[string]any{}
	case len(s.Examples) > 0:
		return s.Examples[0]
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Default != nil:
		return s.Default
	}
	if enum, ok := s.Extensions["enum"].([]any); ok && len(enum) > 0 { // see RuleLimits
		return enum[0]
	}
	switch s.Type {
	case huma.TypeString:
		return exampleText(s.Format)
	case huma.TypeInteger, huma.TypeNumber:
		return 1
	case huma.TypeBoolean:
		return true
	case huma.TypeArray:
		return []any{exampleOf(registry, s.Items, depth+1)}
	default:
		m := map[string]any{}
		for _, name := range s.Required {
			m[name] = exampleOf(registry, s.Properties[name], depth+1)
		}
		return m
	}
}

func exampleText(format string) string {
	switch format {
	case "date-time":
		return "2025-06-15T12:00:00.000Z"
	case "uuid":
		return "01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"
	case "email":
		return "ada@example.com"
	case "uri":
		return "https://example.com"
	default:
		return "text"
	}
}
