package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"sallyport/definitions"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/obs"
	"sallyport/internal/providers/registry"
)

// builtinProviders loads the definitions that ship.
func builtinProviders() (*registry.Registry, error) {
	r, err := registry.Load(definitions.FS())
	if err != nil {
		return nil, fmt.Errorf("load the provider definitions: %w", err)
	}
	return r, nil
}

// ProviderSummary is what commands show of a provider.
type ProviderSummary = registry.Summary

// ProviderFault is one thing wrong with a definition file.
type ProviderFault = registry.Fault

// liveProviders loads the definitions that ship and those of the operator's folder.
func liveProviders(cfg *config.Config, log *slog.Logger, metrics *obs.Metrics) (*registry.Live, error) {
	builtin, err := builtinProviders()
	if err != nil {
		return nil, err
	}
	var folder *registry.Folder
	if cfg.ProvidersDir != "" {
		folder = &registry.Folder{FS: os.DirFS(cfg.ProvidersDir), Path: cfg.ProvidersDir}
	}
	live, err := registry.NewLive(builtin, folder, log, metrics)
	if err != nil {
		return nil, definitionsError{err}
	}
	return live, nil
}

// definitionsError says that the operator's definitions cannot be used.
type definitionsError struct{ error }

func (e definitionsError) Unwrap() error { return e.error }

// Providers describes every provider that a server with this configuration has, in the order of slugs.
func Providers(cfg *config.Config) ([]ProviderSummary, error) {
	live, err := liveProviders(cfg, slog.New(slog.DiscardHandler), obs.NewMetrics())
	if err != nil {
		return nil, err
	}
	out := []ProviderSummary{}
	for _, p := range live.Registry().List() {
		out = append(out, p.Summary())
	}
	return out, nil
}

// LintProviders checks definition files, and the definitions in folders: as an operator's, or as ones that are to ship.
// It returns how many it looked at and everything wrong with them; a path that leads nowhere, or to a folder without
// definitions, is an error.
func LintProviders(paths []string, shipping bool) (checked int, faults []ProviderFault, err error) {
	faults = []ProviderFault{}
	var builtin *registry.Registry
	if !shipping {
		if builtin, err = builtinProviders(); err != nil {
			return 0, nil, err
		}
	}
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
		n, found, err := registry.Lint(os.DirFS(dir), name, builtin)
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
	return registry.Reference(w, r)
}
