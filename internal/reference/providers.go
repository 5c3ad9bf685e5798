package reference

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"sallyport/internal/providers/registry"
)

// Providers writes docs/reference/providers.md: the list of the providers that ship.
func Providers(w io.Writer) error {
	r, err := registry.Builtin()
	if err != nil {
		return err
	}
	return registry.Reference(w, r)
}

// ProviderPages writes the pages of the providers that ship into a folder, one file <slug>.md each. The folder is made
// if it does not exist; other files in it stay.
func ProviderPages(folder string) error {
	r, err := registry.Builtin()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // documentation is for everyone
		return fmt.Errorf("make the folder of the pages: %w", err)
	}
	for _, p := range r.List() {
		var b bytes.Buffer
		if err := registry.Page(&b, p); err != nil {
			return err
		}
		path := filepath.Join(folder, p.Definition.Slug+".md")
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil { //nolint:gosec // documentation is for everyone
			return fmt.Errorf("write the page of a provider: %w", err)
		}
	}
	return nil
}
