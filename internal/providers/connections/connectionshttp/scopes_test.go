package connectionshttp

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/credentials"
)

// A connection shows which requested scopes it does not have. Those that another one includes are there, and none is
// missing where the provider does not say what it has granted.
func TestScopesMissing(t *testing.T) {
	t.Parallel()
	view := func(granted ...string) string {
		b, err := json.Marshal(viewScopes(&credentials.Set{ScopesRequested: []string{"openid", "user:email", "write"},
			ScopesGranted: granted}).Value.Missing)
		require.NoError(t, err)
		return string(b)
	}
	require.Equal(t, `["write"]`, view("user"))
	require.Equal(t, "[]", view())
}
