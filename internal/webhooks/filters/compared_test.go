package filters_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/webhooks/filters"
)

// Only texts that are compared with the field count, in any form, and not those that stand elsewhere in the
// filter.
func TestComparedWith(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`event.type == "a"`:                                       {"a"},
		`"a" == event.type || event.type != 'b'`:                  {"a", "b"},
		`event.type in ["a", "b"] && event.body.topic == "c"`:     {"a", "b"},
		`event.type.startsWith("a") && !event.type.matches("b")`:  {"a", "b"},
		`event.type == event.body.topic && event.provider == "a"`: nil,
		`["a"].exists(t, t == event.type)`:                        nil,
		`event.body.type == "a"`:                                  nil,
		`event.type == `:                                          nil,
	} {
		require.Equal(t, want, filters.ComparedWith(text, "type"), text)
	}
}
