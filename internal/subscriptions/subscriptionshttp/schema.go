package subscriptionshttp

import (
	"maps"

	"github.com/danielgtaylor/huma/v2"
)

// TransformSchema documents the limits of the body and leaves checking them to the rules of subscriptions.
func (*creation) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return documentOnly(s)
}

// TransformSchema documents the limits of the body and leaves checking them to the rules of subscriptions.
func (*patch) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema { return documentOnly(s) }

// documentOnly keeps the limits of every property in the document and takes them out of Huma's checks: a body that broke
// one here would never reach the rules that look at the database and the target, and get their faults in a second answer.
func documentOnly(s *huma.Schema) *huma.Schema {
	for _, p := range s.Properties {
		limits := map[string]any{}
		keep(limits, "minLength", &p.MinLength)
		keep(limits, "maxLength", &p.MaxLength)
		keep(limits, "minimum", &p.Minimum)
		keep(limits, "maximum", &p.Maximum)
		keep(limits, "minItems", &p.MinItems)
		keep(limits, "maxItems", &p.MaxItems)
		keep(limits, "maxProperties", &p.MaxProperties)
		if len(p.Enum) > 0 {
			limits["enum"], p.Enum = p.Enum, nil
		}
		if len(limits) > 0 {
			maps.Copy(limits, p.Extensions)
			p.Extensions = limits
		}
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
