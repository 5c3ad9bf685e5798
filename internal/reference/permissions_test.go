package reference_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/reference"
)

// The published tables are the registry and the operations, so that who may do what is seen in review.
func TestPermissionsAreCurrent(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, reference.Permissions(&b))
	golden(t, b.Bytes(), "docs", "reference", "permissions.md")
	for _, p := range access.Permissions() {
		require.Contains(t, b.String(), "\n| `"+string(p)+"` | ", p)
	}
	for _, op := range reference.API().Operations() {
		if !op.Public {
			require.Equal(t, 1, strings.Count(b.String(), "`"+op.Method+" "+op.Path+"`"), op.ID)
		}
	}
}

// A permission to see opens nothing that changes anything, and what only shows needs no permission to change,
// but for the operations named here and why.
func TestReadPermissionsChangeNothing(t *testing.T) {
	t.Parallel()
	exceptions := map[string]string{
		"create-webhook-event-stream-ticket": "opens no more than its maker reads anyway",
		"get-webhook-enrolment":              "shows what proves to the provider who enrols",
		"verify-api-key":                     "takes a secret, which belongs into no URL",
		"export-audit-events":                "has a permission of its own",
	}
	for _, op := range reference.API().Operations() {
		if op.Public {
			continue
		}
		reads := strings.HasSuffix(string(op.Permission), ":read")
		_, excepted := exceptions[op.ID]
		require.Equal(t, excepted, (op.Method == http.MethodGet) != reads, "%s opens with %q", op.ID, op.Permission)
	}
}
