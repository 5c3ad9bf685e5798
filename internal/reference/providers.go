package reference

import (
	"io"

	"sallyport/internal/providers/registry"
)

// Providers writes docs/reference/providers.md: one table of the providers that ship, and how each is set up.
func Providers(w io.Writer) error {
	r, err := registry.Builtin()
	if err != nil {
		return err
	}
	return registry.Reference(w, r)
}
