package testkit

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// AuditDiff is the content of the columns changes and details of an audit event: the fields that differ, as JSON, with
// the details, where there are any, as one more field of that name.
func AuditDiff(t *testing.T, changes, details string) string {
	t.Helper()
	var c struct {
		Diff map[string]json.RawMessage `json:"diff"`
	}
	require.NoError(t, json.Unmarshal([]byte(changes), &c))
	if details != "{}" {
		c.Diff["details"] = json.RawMessage(details)
	}
	b, err := json.Marshal(c.Diff)
	require.NoError(t, err)
	return string(b)
}
