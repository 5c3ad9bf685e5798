package app

import (
	"fmt"
	"io"

	"sallyport/internal/providers"
	definitions "sallyport/providers"
)

// builtinProviders loads the definitions that ship.
func builtinProviders() (*providers.Registry, error) {
	r, err := providers.Load(definitions.FS())
	if err != nil {
		return nil, fmt.Errorf("load the provider definitions: %w", err)
	}
	return r, nil
}

// ProvidersReference writes docs/reference/providers.md: one table of the providers that ship, and how each is set up.
func ProvidersReference(w io.Writer) error {
	r, err := builtinProviders()
	if err != nil {
		return err
	}
	return providers.Reference(w, r)
}
