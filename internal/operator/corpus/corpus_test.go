package corpus_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/operator/corpus"
)

// The figures count what is there: documents, operations, schemas that a validator reads, and reasons.
func TestRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.ErrorContains(t, corpus.Read(t.Context(), &bytes.Buffer{}, corpus.Options{Path: folder}), "no documents")
	for name, text := range map[string]string{
		"a.json": `{"openapi":"3.0.0","paths":{"/a":{"get":{"responses":{"200":{"content":{"application/json":{"schema":
			{"$ref":"other.json"}}}}}},"options":{}},"/refunds":{"post":{}}}}`,
		"b.json": `{"openapi":"9"}`,
		"c.txt":  `{}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	var out bytes.Buffer
	require.NoError(t, corpus.Read(t.Context(), &out, corpus.Options{Path: folder, Every: 1, Formats: 1, Slowest: 1}))
	for _, line := range []string{`documents read +1 of 2 in `, `operations +3, of which 2 \(66\.67 %\) became actions`,
		`names +0 that two actions`, `schemas +3 checked, 0 not valid`, `tools mcp +2, 0 violations`,
		`tools openai +2, 0 violations, 2 strict`, `note mcp +1: Its output is no object`, `risk low +1`, `risk critical +1`,
		`refused +1: line 1, column 12`, `left out +1: OPTIONS does nothing`, `note +1: the reference … leads to nothing`,
		`slow .*a\.json`} {
		require.Regexp(t, line, out.String())
	}
}
