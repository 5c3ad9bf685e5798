package registry

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"sallyport/definitions"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/actions"
	"sallyport/internal/providers/declared"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/verification"
)

// Registry holds the loaded providers. It is immutable and safe for concurrent use.
type Registry struct {
	bySlug map[string]*Provider
	sorted []*Provider
	types  []*eventtypes.Provider
}

// Source is the origin of a definition.
type Source string

// The sources.
const (
	// SourceBuiltin is the program itself.
	SourceBuiltin Source = "builtin"
	// SourceFolder is the operator's folder.
	SourceFolder Source = "folder"
	// SourceImport is a description of an API, in one environment.
	SourceImport Source = "import"
)

// Provider is a checked definition, ready for use. It is shared: read it only.
type Provider struct {
	Definition Definition
	// Webhooks is nil for a provider without webhooks.
	Webhooks *verification.Engine
	// Outbound is nil for a provider to which no requests are made.
	Outbound *outbound.Engine
	// Actions are what can be done at the provider, in the order of the definition.
	Actions []*actions.Action
	// Rules say what the definition states about actions that are declared elsewhere.
	Rules  *declared.Rules
	Source Source

	sum      [sha256.Size]byte // of the file
	previous *Provider
}

// Previous returns the version of the definition that this one has replaced while the process runs. It is nil if there
// is none, or none that a connection still needs.
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

// Load reads every .yaml file at the root of fsys and checks it. It skips files of other kinds, except .yml, which is a
// definition with the wrong name. The error is a *LoadError with the problems of all files, or the error of reading
// fsys.
func Load(fsys fs.FS) (*Registry, error) {
	files, problems, err := readFolder(fsys)
	if err != nil {
		return nil, err
	}
	var list []*Provider
	for _, file := range files {
		provider, wrong := parse(file, nil)
		problems = append(problems, wrong...)
		list = append(list, provider)
	}
	if len(problems) > 0 {
		return nil, newLoadError(problems)
	}
	return newRegistry(list), nil
}

func newRegistry(list []*Provider) *Registry {
	r := &Registry{bySlug: make(map[string]*Provider, len(list)), sorted: list}
	for _, p := range list {
		r.bySlug[p.Definition.Slug] = p
	}
	slices.SortFunc(r.sorted, func(a, b *Provider) int { return strings.Compare(a.Definition.Slug, b.Definition.Slug) })
	for _, p := range r.sorted {
		if p.Webhooks == nil {
			r.types = append(r.types, &eventtypes.Provider{Slug: p.Definition.Slug, Name: p.Definition.DisplayName,
				Aliases: p.Definition.Aliases, NoWebhooks: true})
		} else {
			o := onwardOf(p.Definition.Webhooks, p.Webhooks.Outline().Redacted)
			r.types = append(r.types, &eventtypes.Provider{Slug: p.Definition.Slug, Name: p.Definition.DisplayName,
				Rules: p.Webhooks.TypeRules(), Known: p.Webhooks.KnownTypes(), Aliases: p.Definition.Aliases,
				MaxAge: o.maxAge, Replaced: o.replaced, Svix: o.svix, Removed: o.removed})
		}
	}
	return r
}

// EventTypes returns what the definitions say about the types of events, in the order of the slugs. It is shared: do
// not modify it.
func (r *Registry) EventTypes() []*eventtypes.Provider { return r.types }

// Get returns the provider with that slug.
func (r *Registry) Get(slug string) (*Provider, bool) {
	p, ok := r.bySlug[slug]
	return p, ok
}

// List returns all providers in the order of their slugs.
func (r *Registry) List() []*Provider { return slices.Clone(r.sorted) }

// Find is Get for an environment: these definitions are those of all.
func (r *Registry) Find(_ id.Environment, slug string) (*Provider, bool) { return r.Get(slug) }

// All is List for an environment.
func (r *Registry) All(id.Environment) []*Provider { return r.List() }
