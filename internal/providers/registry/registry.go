package registry

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"sallyport/definitions"
	"sallyport/internal/providers/verification"
)

// Registry holds the loaded providers. It is immutable and safe for concurrent use.
type Registry struct {
	bySlug map[string]*Provider
	sorted []*Provider
}

// Source says where a definition comes from.
type Source string

// The sources.
const (
	// SourceBuiltin is the program itself.
	SourceBuiltin Source = "builtin"
	// SourceFolder is the operator's folder.
	SourceFolder Source = "folder"
)

// Provider is a checked definition, ready for use. It is shared: read it only.
type Provider struct {
	Definition Definition
	// Webhooks is nil for a provider without webhooks.
	Webhooks *verification.Engine
	Source   Source

	sum      [sha256.Size]byte // of the file
	previous *Provider
}

// Previous returns the version of the definition that this one has replaced while the process runs; nil where there is
// none, or none that a connection still needs.
func (p *Provider) Previous() *Provider { return p.previous }

// Builtin returns the definitions that ship, loaded once.
func Builtin() (*Registry, error) { return loadBuiltin() }

var loadBuiltin = sync.OnceValues(func() (*Registry, error) { //nolint:gochecknoglobals // a constant
	r, err := Load(definitions.FS())
	if err != nil {
		return nil, fmt.Errorf("load the provider definitions: %w", err)
	}
	return r, nil
})

// Load reads every .yaml file at the root of fsys and checks it. Files of other kinds are left alone, except .yml,
// which is a definition under the wrong name. The error is a *LoadError with the faults of all files, or what reading
// fsys returned.
func Load(fsys fs.FS) (*Registry, error) {
	files, faults, err := readFolder(fsys)
	if err != nil {
		return nil, err
	}
	var list []*Provider
	for _, file := range files {
		provider, wrong := parse(file, nil)
		faults = append(faults, wrong...)
		list = append(list, provider)
	}
	if len(faults) > 0 {
		return nil, newLoadError(faults)
	}
	return newRegistry(list), nil
}

func newRegistry(list []*Provider) *Registry {
	r := &Registry{bySlug: make(map[string]*Provider, len(list)), sorted: list}
	for _, p := range list {
		r.bySlug[p.Definition.Slug] = p
	}
	slices.SortFunc(r.sorted, func(a, b *Provider) int { return strings.Compare(a.Definition.Slug, b.Definition.Slug) })
	return r
}

// Get returns the provider with that slug.
func (r *Registry) Get(slug string) (*Provider, bool) {
	p, ok := r.bySlug[slug]
	return p, ok
}

// List returns all providers in the order of their slugs.
func (r *Registry) List() []*Provider { return slices.Clone(r.sorted) }

// Lint checks the definitions at the root of fsys, or the one with the name where there is one, and returns how many it
// looked at and everything wrong with them, in the order of files and lines. They are an operator's, to stand beside
// builtin; where that is nil they are to ship, and need evidence. The error is that of reading the folder.
func Lint(fsys fs.FS, name string, builtin *Registry) (checked int, faults []Fault, err error) {
	var files []definitionFile
	if name == "" {
		files, faults, err = readFolder(fsys)
		if err != nil {
			return 0, nil, err
		}
	} else if data, err := readFile(fsys, name); err != nil {
		faults = []Fault{unreadable(name, err)}
	} else {
		files = []definitionFile{{name: name, data: data}}
	}
	checked = len(files) + len(faults)
	for _, file := range files {
		p, wrong := parse(file, builtin)
		faults = append(faults, wrong...)
		if p != nil && builtin == nil && p.Webhooks != nil && p.Definition.Evidence == nil {
			faults = append(faults, Fault{File: file.name, Field: "evidence",
				Message: "must say what the definition rests on, because it is to ship"})
		}
	}
	return checked, newLoadError(faults).Faults, nil
}
