package catalog

import (
	"fmt"
	"sync"

	"sallyport/internal/providers/actionindex"
	"sallyport/internal/providers/registry"
)

// installedIndexes are those of the definitions of the installation. They are made when they are first needed, and
// dropped when a definition has another version.
type installedIndexes struct {
	mu    sync.Mutex
	known map[string]installedIndex
}

type installedIndex struct {
	of    *registry.Provider
	index *actionindex.Index
}

func (x *installedIndexes) get(p *registry.Provider) (*actionindex.Index, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	slug := p.Definition.Slug
	if known := x.known[slug]; known.of == p {
		return known.index, nil
	}
	b := actionindex.NewBuilder(slug, p.Definition.DisplayName)
	for _, a := range p.Actions {
		text, err := a.Encode()
		if err != nil {
			return nil, err //nolint:wrapcheck // it says what failed
		}
		summary := a.Summarize(text)
		b.Add(a, &summary)
	}
	index, err := b.Build()
	if err != nil {
		return nil, fmt.Errorf("index the actions of %s: %w", slug, err)
	}
	if x.known == nil {
		x.known = map[string]installedIndex{}
	}
	x.known[slug] = installedIndex{p, index}
	return index, nil
}
