package providers

import "io/fs"

// Registry holds the loaded providers. It is immutable and safe for concurrent use.
type Registry struct {
	bySlug map[string]*Provider
	sorted []*Provider
}

// Load reads every .yaml file at the root of fsys and checks it.
func Load(fsys fs.FS) (*Registry, error) { return &Registry{}, nil }

// Get returns the provider with that slug.
func (r *Registry) Get(slug string) (*Provider, bool) {
	p, ok := r.bySlug[slug]
	return p, ok
}

// List returns all providers in the order of their slugs.
func (r *Registry) List() []*Provider { return append([]*Provider(nil), r.sorted...) }
