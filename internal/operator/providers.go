package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"sallyport/internal/app"
	"sallyport/internal/platform/config"
	"sallyport/internal/providers/registry"
)

// ProviderSummary holds the fields of a provider that commands show.
type ProviderSummary = registry.Summary

// ProviderMode is one of a provider's ways to authenticate.
type ProviderMode = registry.ModeSummary

// ProviderProblem is one error of a definition file.
type ProviderProblem = registry.Problem

// Providers describes every provider that a server with this configuration has, in the order of slugs.
func Providers(cfg *config.Config) ([]ProviderSummary, error) {
	live, err := app.LoadProviders(cfg, slog.New(slog.DiscardHandler))
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
func LintProviders(paths []string, shipping bool) (checked int, problems []ProviderProblem, err error) {
	problems = []ProviderProblem{}
	var builtin *registry.Registry
	if !shipping {
		if builtin, err = registry.Builtin(); err != nil {
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
			problems = append(problems, f)
		}
		checked += n
	}
	return checked, problems, nil
}
