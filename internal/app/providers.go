package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"sallyport/internal/platform/config"
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

// What commands show of definitions.
type (
	ProviderSummary = providers.Summary
	ProviderFault   = providers.Fault
)

// Providers describes every provider that a server with this configuration has, in the order of slugs.
func Providers(_ *config.Config) ([]ProviderSummary, error) {
	r, err := builtinProviders()
	if err != nil {
		return nil, err
	}
	out := []ProviderSummary{}
	for _, p := range r.List() {
		out = append(out, p.Summary())
	}
	return out, nil
}

// LintProviders checks definition files, and the definitions in folders. It returns how many it looked at and everything wrong
// with them; a path that leads nowhere, or to a folder without definitions, is an error.
func LintProviders(paths []string) (checked int, faults []ProviderFault, err error) {
	faults = []ProviderFault{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil, fmt.Errorf("%s does not exist", path)
		}
		if err != nil {
			return 0, nil, fmt.Errorf("look at the definitions: %w", err)
		}
		dir, name := path, ""
		if !info.IsDir() {
			dir, name = filepath.Split(path)
		}
		if dir == "" {
			dir = "."
		}
		n, found, err := providers.Lint(os.DirFS(dir), name)
		if err != nil {
			return 0, nil, err
		}
		if n == 0 {
			return 0, nil, fmt.Errorf("%s holds no definition: they are files that end in .yaml", path)
		}
		for _, f := range found {
			f.File = filepath.Join(dir, f.File)
			faults = append(faults, f)
		}
		checked += n
	}
	return checked, faults, nil
}

// ProvidersReference writes docs/reference/providers.md: one table of the providers that ship, and how each is set up.
func ProvidersReference(w io.Writer) error {
	r, err := builtinProviders()
	if err != nil {
		return err
	}
	return providers.Reference(w, r)
}
