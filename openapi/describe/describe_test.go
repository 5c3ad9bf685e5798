package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/reference"
)

// The committed descriptions are the comments, so that a change to a comment changes the document.
func TestDescriptionsAreCurrent(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	got, err := describe(root, reference.API().Fields())
	require.NoError(t, err)
	want, err := os.ReadFile(filepath.Join(root, "openapi", "descriptions.json"))
	require.NoError(t, err)
	require.Empty(t, addedLines(want, got), "comments that are not in descriptions.json: run .ci/drift --write")
	require.Empty(t, addedLines(got, want), "descriptions without a comment: run .ci/drift --write")
	require.True(t, bytes.Equal(want, got), "the order differs: run .ci/drift --write")
}

// addedLines returns the lines of the second text that are not in the first.
func addedLines(first, second []byte) []string {
	known := map[string]bool{}
	for line := range strings.Lines(string(first)) {
		known[line] = true
	}
	var added []string
	for line := range strings.Lines(string(second)) {
		if !known[line] {
			added = append(added, line)
		}
	}
	return added
}

// A description is the whole comment of the field, on one line for each paragraph and item of a list. A type declared
// from another's name has its fields. Fields that the document does not show are left out.
func TestDescribe(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "wire.go"), []byte("package wire\n\n"+
		"type body struct {\n"+
		"\t// The name,\n\t// \"quoted\" and `code` <b>.\n\t//\n"+
		"\t// Either:\n\t// - one, which is\n\t//   long\n\t// - two\n"+
		"\tName string `json:\"name\"`\n"+
		"\t// Both.\n\tA, B int\n"+
		"\tSilent int // not a description\n"+
		"\t// Not shown.\n\tHidden int\n"+
		"}\n\ntype derived body\n\ntype generic[T any] struct {\n\t// The value.\n\tValue T\n}\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "wire_test.go"), []byte("package wire\n\n"+
		"type body struct {\n\t// Of a test.\n\tName string\n}\n"), 0o600))
	field := func(structure, name string) httpapi.Field {
		return httpapi.Field{Package: module, Type: structure, Name: name}
	}

	text, err := describe(root, []httpapi.Field{field("body", "Name"), field("body", "A"), field("body", "B"),
		field("body", "Silent"), field("derived", "A"), field("generic", "Value"), field("absent", "A")})

	require.NoError(t, err)
	require.JSONEq(t, `{"sallyport/": {
		"body": {
			"Name": "The name, \"quoted\" and `+"`code`"+` <b>.\n\nEither:\n- one, which is long\n- two",
			"A": "Both.",
			"B": "Both."
		},
		"derived": {"A": "Both."},
		"generic": {"Value": "The value."}
	}}`, string(text))
	require.Contains(t, string(text), "<b>", "as people read it")
}

// A package that cannot be read ends the generator, because an empty file would take every description away.
func TestDescribeReportsUnreadableSource(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	_, err := describe(root, []httpapi.Field{{Package: module + "gone", Type: "body", Name: "Name"}})
	require.Error(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(root, "wire.go"), []byte("package"), 0o600))
	_, err = describe(root, []httpapi.Field{{Package: module, Type: "body", Name: "Name"}})
	require.Error(t, err)
}
