package registry_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"sallyport/internal/providers/registry"
)

// A definition that an import has made may name no documentation, and nothing in its place. One in a folder has to.
func TestImportWithoutDocumentation(t *testing.T) {
	t.Parallel()
	const text = "schema: 1\nslug: acme\ndisplay_name: Acme\ncategories: [imported]\nbase_url: https://api.acme.dev\n" +
		"allowed_hosts: [api.acme.dev]\nauth:\n  - mode: bearer\n"
	p, err := registry.Import("acme", []byte(text))
	require.NoError(t, err)
	require.Empty(t, p.Definition.DocsURL)
	_, err = registry.Import("acme", []byte(strings.Replace(text, "auth:", "docs_url: http://acme.dev\nauth:", 1)))
	require.ErrorContains(t, err, "docs_url: must be an https URL")
	builtin, err := registry.Builtin()
	require.NoError(t, err)
	_, problems, err := registry.Lint(fstest.MapFS{"acme.yaml": {Data: []byte(text), Mode: 0o644}},
		registry.LintOptions{Builtin: builtin})
	require.NoError(t, err)
	require.Len(t, problems, 1)
	require.Equal(t, "docs_url", problems[0].Field)
}
