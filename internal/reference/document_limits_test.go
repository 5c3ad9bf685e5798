package reference_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/reference"
)

// limits bound the values of a parameter.
type limits struct {
	Type                           string
	Enum                           []any
	MinLength, MaxLength, MaxItems *int
	Minimum, Maximum               *float64
	Items, AdditionalProperties    *limits
	MaxProperties                  *int
}

// Every parameter is bounded, and the document says how, also that none is ever empty: a client knows beforehand what
// the service would refuse.
func TestParametersAreBounded(t *testing.T) {
	t.Parallel()
	text, err := reference.Document()
	require.NoError(t, err)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name, In string
				Schema   limits
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	found := 0
	for path, item := range doc.Paths {
		for method, op := range item {
			for _, p := range op.Parameters {
				found++
				at, s := method+" "+path+": "+p.Name, &p.Schema
				if s.Type == "array" {
					require.NotNil(t, s.MaxItems, at)
					s = s.Items
				}
				if s.Type == "object" {
					require.NotNil(t, s.MaxProperties, at)
					s = s.AdditionalProperties
				}
				switch {
				case len(s.Enum) > 0 || s.Type == "boolean":
				case s.Type == "string":
					require.NotNil(t, s.MaxLength, at)
					if p.In == "query" {
						require.NotNil(t, s.MinLength, at)
						require.Positive(t, *s.MinLength, at)
					}
				case s.Type == "integer":
					require.NotNil(t, s.Minimum, at)
					require.NotNil(t, s.Maximum, at)
				default:
					require.Fail(t, "a type whose limits this test does not know", "%s: %s", at, s.Type)
				}
			}
		}
	}
	require.Greater(t, found, 50)
}
