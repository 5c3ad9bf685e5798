package operator

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sallyport/internal/platform/longtext"
	"sallyport/internal/providers/comparison"
	"sallyport/internal/providers/documents"
	"sallyport/internal/providers/registry"
)

// LintOptions say how definition files are checked.
type LintOptions struct {
	// Shipping checks them as ones that are to ship, and not as an operator's.
	Shipping bool
	// Documents are files that describe the APIs of providers, by the slugs of these.
	Documents map[string]string
}

// LintProviders checks definition files, and the definitions in folders. It returns how many it looked at and
// everything wrong with them. A path that leads nowhere, or to a folder without definitions, is an error, and so is a
// document that cannot be read or belongs to none of them.
func LintProviders(paths []string, o LintOptions) (checked int, problems []ProviderProblem, err error) {
	problems = []ProviderProblem{}
	lint := registry.LintOptions{}
	if !o.Shipping {
		if lint.Builtin, err = registry.Builtin(); err != nil {
			return 0, nil, err
		}
	}
	opened, err := openDocuments(o.Documents)
	if err != nil {
		return 0, nil, err
	}
	seen := map[string]bool{}
	var failed error
	lint.Compare = func(p *registry.Provider) (found []registry.Finding) {
		slug := p.Definition.Slug
		d := opened[slug]
		if d == nil {
			return nil
		}
		seen[slug] = true
		differences, err := comparison.Compare(p, d)
		if err != nil {
			failed = fmt.Errorf("%s: %w", o.Documents[slug], err)
		}
		for _, one := range differences {
			found = append(found, registry.Finding(one))
		}
		return found
	}
	for _, path := range paths {
		n, found, err := lintPath(path, lint)
		if err != nil {
			return 0, nil, err
		}
		problems = append(problems, found...)
		checked += n
	}
	if failed != nil {
		return 0, nil, failed
	}
	for _, slug := range slices.Sorted(maps.Keys(opened)) {
		if !seen[slug] && len(problems) == 0 { // a definition with errors is not compared
			return 0, nil, fmt.Errorf("%s is a document for %s, and no definition of that slug is checked", o.Documents[slug],
				slug)
		}
	}
	return checked, problems, nil
}

// openDocuments reads documents, by the slugs of their providers.
func openDocuments(files map[string]string) (map[string]*documents.Document, error) {
	out := map[string]*documents.Document{}
	for _, slug := range slices.Sorted(maps.Keys(files)) {
		text, err := os.ReadFile(files[slug])
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s does not exist", files[slug])
		}
		if err != nil {
			return nil, fmt.Errorf("read a document: %w", err)
		}
		if out[slug], err = documents.OpenAny(longtext.Of(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", files[slug], err)
		}
	}
	return out, nil
}

// lintPath checks a file, or the definitions in a folder.
func lintPath(path string, o registry.LintOptions) (checked int, problems []ProviderProblem, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, fmt.Errorf("%s does not exist", path)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("look at the definitions: %w", err)
	}
	dir := path
	if !info.IsDir() {
		dir, o.Name = filepath.Split(path)
	}
	if dir == "" {
		dir = "."
	}
	checked, problems, err = registry.Lint(os.DirFS(dir), o)
	if err != nil {
		return 0, nil, err
	}
	if checked == 0 {
		return 0, nil, fmt.Errorf("%s holds no definition: they are files that end in .yaml", path)
	}
	for i := range problems {
		problems[i].File = filepath.Join(dir, problems[i].File)
	}
	return checked, problems, nil
}
