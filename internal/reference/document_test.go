package reference_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/reference"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing them")

func golden(t *testing.T, got []byte, path ...string) {
	t.Helper()
	file := filepath.Join(append([]string{"..", ".."}, path...)...)
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run go test ./internal/reference -update, and read the difference")
}

// The published document is the one the code would write, so that a change to the API is seen in review. That it is
// written at all shows that nothing has to run for it.
func TestDocumentIsCurrent(t *testing.T) {
	t.Parallel()
	doc, err := reference.Document()
	require.NoError(t, err)
	golden(t, doc, "openapi", "openapi.json")
	again, err := reference.Document()
	require.NoError(t, err)
	require.True(t, bytes.Equal(doc, again), "the order must not change from run to run")
}

// The published table of error codes is the registry.
func TestErrorCodesAreCurrent(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, reference.ErrorCodes(&b))
	golden(t, b.Bytes(), "docs", "reference", "error-codes.md")
	for _, c := range apperr.Codes() {
		require.Equal(t, 1, strings.Count(b.String(), "\n| `"+string(c.Code)+"` | "), c.Code)
		require.NotEmpty(t, c.Meaning, c.Code)
	}
}
