package viewer

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The viewer that the page loads is the file of the npm package that vendored.json names, byte for byte but for the
// one text that is replaced: the placeholder of an empty field for a key.
func TestViewerIsTheVendoredFile(t *testing.T) {
	t.Parallel()
	v, err := included()
	require.NoError(t, err)
	require.Equal(t, "@scalar/api-reference", v.Package)
	require.Equal(t, "MIT", v.License)
	list, err := Files()
	require.NoError(t, err)
	found := false
	for _, f := range list {
		if !strings.HasPrefix(f.Path, PagePath+"/scalar-") {
			continue
		}
		found = true
		content, err := f.Content()
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(content), v.Replaced.To))
		require.Contains(t, v.Replaced.To, "spk_live_…")
		original := strings.Replace(string(content), v.Replaced.To, v.Replaced.From, 1)
		digest := sha256.Sum256([]byte(original))
		require.Equal(t, v.SHA256, hex.EncodeToString(digest[:]))
		require.Contains(t, f.Path, v.Version)
	}
	require.True(t, found)
}

// The page names every file by the path at which it is served, the licence of the viewer too, and contains no script of
// its own, which its content policy forbids.
func TestPageNamesItsFiles(t *testing.T) {
	t.Parallel()
	list, err := Files()
	require.NoError(t, err)
	paths := map[string]bool{}
	var page string
	for _, f := range list {
		paths[f.Path] = true
		content, err := f.Content()
		require.NoError(t, err)
		if f.Path == PagePath {
			page = string(content)
			require.False(t, f.Immutable)
		} else {
			require.True(t, f.Immutable, f.Path)
		}
	}
	require.NotEmpty(t, page)
	require.NotContains(t, page, "{{")
	require.NotRegexp(t, `<script>|\son[a-z]+=|style=`, page)
	named := regexp.MustCompile(`/docs/[\w.-]+`).FindAllString(page, -1)
	require.Len(t, named, len(list)-1)
	for _, path := range named {
		require.True(t, paths[path], path)
	}
}
