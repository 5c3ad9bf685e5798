package httpapi

import (
	"maps"

	"sallyport/internal/platform/httpapi/oas"

	"github.com/danielgtaylor/huma/v2"
)

// maxInteger is the greatest integer that is exact in every JSON parser (RFC 8259 section 6).
const maxInteger = 1<<53 - 1

// RuleLimits is embedded in a body whose rules check the limits of its fields. The document shows the limits and only
// the rules enforce them, so that one response has all errors.
type RuleLimits struct{}

// TransformSchema implements Huma's interface for types that change their schema. It moves the limits of the
// properties, and of the objects in them, to where Huma does not check them. Otherwise a body that breaks a limit would
// get the errors of the rules only in a second response.
func (RuleLimits) TransformSchema(_ oas.Registry, s *oas.Schema) *oas.Schema {
	moveLimits(s)
	return s
}

func moveLimits(s *huma.Schema) {
	for name, p := range s.Properties {
		limits := map[string]any{}
		moveLimit(limits, "minLength", &p.MinLength)
		moveLimit(limits, "maxLength", &p.MaxLength)
		moveLimit(limits, "minimum", &p.Minimum)
		moveLimit(limits, "maximum", &p.Maximum)
		moveLimit(limits, "minItems", &p.MinItems)
		moveLimit(limits, "maxItems", &p.MaxItems)
		moveLimit(limits, "minProperties", &p.MinProperties)
		moveLimit(limits, "maxProperties", &p.MaxProperties)
		if len(p.Enum) > 0 {
			limits["enum"], p.Enum = p.Enum, nil
		}
		if p.Pattern != "" {
			limits["pattern"] = p.Pattern
			// Huma compiles the pattern into the schema. Only a new schema is without it.
			p = &huma.Schema{Type: p.Type, Nullable: p.Nullable, WriteOnly: p.WriteOnly, Description: p.Description,
				Examples: p.Examples}
			s.Properties[name] = p
		}
		if p.Type == huma.TypeInteger {
			// The rules only see values that fit an integer of Go.
			low, high := -float64(maxInteger), float64(maxInteger)
			p.Minimum, p.Maximum = &low, &high
		}
		maps.Copy(limits, p.Extensions)
		p.Extensions = limits
		moveLimits(p)
		p.PrecomputeMessages()
	}
}

// moveLimit moves a limit from the schema to the extensions of the document.
func moveLimit[T any](limits map[string]any, name string, limit **T) {
	if *limit != nil {
		limits[name] = **limit
		*limit = nil
	}
}
