package providers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"sallyport/internal/verification"
)

// Registry holds the loaded providers. It is immutable and safe for concurrent use.
type Registry struct {
	bySlug map[string]*Provider
	sorted []*Provider
}

// Provider is a checked definition, ready for use. It is shared: read it only.
type Provider struct {
	Definition Definition
	// Webhooks is nil for a provider without webhooks.
	Webhooks *verification.Engine
}

// maxFileBytes bounds one definition.
const maxFileBytes = 256 << 10

// Load reads every .yaml file at the root of fsys and checks it. Files of other kinds are left alone, except .yml, which
// is a definition under the wrong name. The error is a *LoadError with the faults of all files, or what reading fsys
// returned. Within one file the first thing that is not well-formed YAML of the known shape hides the faults behind it.
func Load(fsys fs.FS) (*Registry, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read provider definitions: %w", err)
	}
	r := &Registry{bySlug: map[string]*Provider{}}
	var faults []Fault
	for _, entry := range entries { // ReadDir sorts by name
		name := entry.Name()
		switch {
		case entry.IsDir():
			continue
		case path.Ext(name) == ".yml":
			faults = append(faults, Fault{File: name, Message: "must end in .yaml"})
			continue
		case path.Ext(name) != ".yaml":
			continue
		}
		data, err := readFile(fsys, name)
		if errors.Is(err, errTooLarge) {
			faults = append(faults, Fault{File: name, Message: err.Error()})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read provider definition %s: %w", name, err)
		}
		provider, wrong := parse(name, data)
		if len(wrong) > 0 {
			faults = append(faults, wrong...)
			continue
		}
		r.bySlug[provider.Definition.Slug] = provider
		r.sorted = append(r.sorted, provider)
	}
	if len(faults) > 0 {
		return nil, &LoadError{Faults: faults}
	}
	slices.SortFunc(r.sorted, func(a, b *Provider) int { return strings.Compare(a.Definition.Slug, b.Definition.Slug) })
	return r, nil
}

var errTooLarge = fmt.Errorf("is larger than %d bytes", maxFileBytes)

func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, errTooLarge
	}
	return data, nil
}

// Get returns the provider with that slug.
func (r *Registry) Get(slug string) (*Provider, bool) {
	p, ok := r.bySlug[slug]
	return p, ok
}

// List returns all providers in the order of their slugs.
func (r *Registry) List() []*Provider { return slices.Clone(r.sorted) }
