package testkit_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/testkit"
)

// The tests say on which engines they run, and fail where one is required and missing.
func TestEngines(t *testing.T) {
	t.Parallel()
	words, postgres := testkit.Engines()
	t.Log("the tests run on " + words)
	if os.Getenv(testkit.RequireEngines) != "" {
		require.True(t, postgres, words)
	}
}
