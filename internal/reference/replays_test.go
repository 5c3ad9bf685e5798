package reference_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/reference"
)

// A bulk replay takes every filter of the list of events, under the same name and within the same limits, so that a
// user who has found events by a list can replay them by the same filter.
func TestReplaysTakeTheFiltersOfTheList(t *testing.T) {
	t.Parallel()
	text, err := reference.Document()
	require.NoError(t, err)
	type bounds struct {
		Type                           any
		Enum                           []any
		Pattern                        string
		MinLength, MaxLength, MaxItems *int
		Minimum, Maximum               *float64
		Items                          *bounds
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema bounds
			}
		}
		Components struct {
			Schemas map[string]struct{ Properties map[string]bounds }
		}
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	fields := doc.Components.Schemas["replays.Filter"].Properties
	require.NotEmpty(t, fields)
	found := 0
	for _, p := range doc.Paths["/webhook-events"]["get"].Parameters {
		switch p.Name {
		case "limit", "cursor", "order", "include": // do not select events
			continue
		}
		require.Contains(t, fields, p.Name)
		field := fields[p.Name]
		found++
		switch p.Name {
		case "duplicate", "control": // text in a URL
			require.Equal(t, "boolean", field.Type)
			continue
		case "idempotency_key": // may contain commas, so a URL has one
			field = *field.Items
		case "received_after", "received_before": // whose form bounds them
			require.Equal(t, p.Schema.Type, field.Type)
			continue
		}
		require.Equal(t, p.Schema, field, p.Name)
	}
	require.Greater(t, found, 10)
}
