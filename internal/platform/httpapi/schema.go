package httpapi

import (
	"maps"

	"sallyport/internal/platform/httpapi/oas"

	"github.com/danielgtaylor/huma/v2"
)

// maxInteger is the greatest integer that is exact in every JSON parser (RFC 8259 section 6).
const maxInteger = 1<<53 - 1

// RuleLimits is embedded in a body whose rules check the limits of its fields, alongside those that no schema can
// express. The document shows the limits, and only the rules enforce them: a body that broke a limit of the schema
// would get the errors of the rules in a second response only.
type RuleLimits struct{}

// TransformSchema implements the interface through which Huma lets a type change its schema.
func (RuleLimits) TransformSchema(_ oas.Registry, s *oas.Schema) *oas.Schema { return DocumentOnly(s) }

// DocumentOnly keeps the limits of a body's properties, and of those of the objects in it, in the document and takes
// them out of Huma's checks. It is for bodies whose rules check the limits themselves, beside those that no schema can
// express: a body that broke a limit in Huma's view would get the faults against the rules in a second answer only. A
// body's TransformSchema calls it.
func DocumentOnly(s *huma.Schema) *huma.Schema {
	for name, p := range s.Properties {
		limits := map[string]any{}
		keep(limits, "minLength", &p.MinLength)
		keep(limits, "maxLength", &p.MaxLength)
		keep(limits, "minimum", &p.Minimum)
		keep(limits, "maximum", &p.Maximum)
		keep(limits, "minItems", &p.MinItems)
		keep(limits, "maxItems", &p.MaxItems)
		keep(limits, "minProperties", &p.MinProperties)
		keep(limits, "maxProperties", &p.MaxProperties)
		if len(p.Enum) > 0 {
			limits["enum"], p.Enum = p.Enum, nil
		}
		if p.Pattern != "" {
			limits["pattern"] = p.Pattern
			// Huma keeps the compiled pattern out of reach; only another schema is without it.
			p = &huma.Schema{Type: p.Type, Nullable: p.Nullable, WriteOnly: p.WriteOnly, Description: p.Description,
				Examples: p.Examples}
			s.Properties[name] = p
		}
		if p.Type == huma.TypeInteger {
			// What no integer of Go can hold never reaches the rules.
			low, high := -float64(maxInteger), float64(maxInteger)
			p.Minimum, p.Maximum = &low, &high
		}
		maps.Copy(limits, p.Extensions)
		p.Extensions = limits
		DocumentOnly(p)
		p.PrecomputeMessages()
	}
	return s
}

func keep[T any](limits map[string]any, name string, limit **T) {
	if *limit != nil {
		limits[name] = **limit
		*limit = nil
	}
}
