package connectionshttp

import "github.com/danielgtaylor/huma/v2"

// TransformSchema documents the limits of the body and leaves checking them to the domain.
func (*creation) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return documentOnly(s)
}

// TransformSchema documents the limits of the body and leaves checking them to the domain.
func (*request) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema { return documentOnly(s) }

// TransformSchema documents the limits of the body and leaves checking them to the domain.
func (*patch) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema { return documentOnly(s) }

// documentOnly keeps the limits of every property in the document and takes them out of Huma's checks. The domain checks
// them beside the rules that no schema can express (the provider's parameters, the form of the secret), and a request that
// broke a limit here would get those faults only in a second answer.
func documentOnly(s *huma.Schema) *huma.Schema {
	for name, p := range s.Properties {
		limits := map[string]any{}
		keep(limits, "minLength", &p.MinLength)
		keep(limits, "maxLength", &p.MaxLength)
		keep(limits, "minimum", &p.Minimum)
		keep(limits, "maximum", &p.Maximum)
		keep(limits, "maxProperties", &p.MaxProperties)
		if len(p.Enum) > 0 {
			limits["enum"], p.Enum = p.Enum, nil
		}
		if p.Pattern != "" {
			limits["pattern"] = p.Pattern
			// Huma keeps the compiled pattern out of reach; only another schema is without it.
			p = &huma.Schema{Type: p.Type, Nullable: p.Nullable, Description: p.Description, Examples: p.Examples}
			s.Properties[name] = p
		}
		if len(limits) > 0 {
			p.Extensions = limits
		}
		if p.Type == huma.TypeInteger {
			// What no integer of Go can hold never reaches the domain.
			low, high := -float64(maxInteger), float64(maxInteger)
			p.Minimum, p.Maximum = &low, &high
		}
		documentOnly(p)
		p.PrecomputeMessages()
	}
	return s
}

// maxInteger is the greatest integer that is exact in every JSON parser (RFC 8259 section 6).
const maxInteger = 1<<53 - 1

func keep[T any](limits map[string]any, name string, limit **T) {
	if *limit != nil {
		limits[name] = **limit
		*limit = nil
	}
}
