package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/app"
)

// root is the repository's root, from this package's folder.
const root = "../../.."

// The published table is that of the code, so that no one has to maintain it.
func TestOverviewIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := render(root, app.Dependencies(), app.TableOwners())
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "run .ci/drift --write")
}

// A row says what the package does, which tables are its own, and what it and its HTTP package may import. Districts
// come in the order of their imports.
func TestRender(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(folder, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(page, "Before\n"+begin+"old\n"+end+"After\n")
	write("internal/platform/db/db.go", "// Package db opens the\n// database. And more.\npackage db\n")
	write("internal/identity/a/b.go", "package a\n")
	write("internal/identity/a/a.go", "// Package a knows users | people.\npackage a\n")
	write("internal/webhooks/e/e.go", "// Package e stores events\npackage e\n")
	got, err := render(folder, map[string][]string{"webhooks/e": {"identity/a"}, "webhooks/ehttp": {"identity/a"},
		"identity/a": {}}, map[string]string{"u": "identity/a", "t": "identity/a", "v": "platform/db"})
	require.NoError(t, err)
	require.Equal(t, "Before\n"+begin+"| Package | Purpose | Tables | May import |\n|---|---|---|---|\n"+
		"| [`platform/db`](../../internal/platform/db) | Opens the database | `v` | `platform` |\n"+
		"| [`identity/a`](../../internal/identity/a) | Knows users \\| people | `t` `u` | — |\n"+
		"| [`webhooks/e`](../../internal/webhooks/e) | Stores events | — | `identity/a`; its HTTP package also "+
		"`identity/a` |\n"+
		end+"After\n", string(got))

	write("internal/identity/a/a.go", "package a\n")
	_, err = render(folder, map[string][]string{"identity/a": {}}, nil)
	require.ErrorContains(t, err, "no package comment")
	write(page, "no place")
	_, err = render(folder, nil, nil)
	require.ErrorContains(t, err, "no place")
}
