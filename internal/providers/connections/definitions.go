package connections

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/registry"
)

// Providers returns the present definition of a provider.
type Providers interface {
	// Find returns the definition that a slug has in an environment, which may have definitions of its own.
	Find(env id.Environment, slug string) (*registry.Provider, bool)
	// All returns all providers of an environment, sorted by slug.
	All(env id.Environment) []*registry.Provider
}

// ProvidersChanged makes every lookup that begins from now on use the present definitions.
func (s *Service) ProvidersChanged() { s.inbound.DropAll() }

// UsedProviders returns the slugs of the providers that connections of any environment have, sorted.
func (s *Service) UsedProviders(ctx context.Context) ([]string, error) {
	return UsedProviders(ctx, s.db)
}

// UsedProviders is the method of that name for callers that have a database and no Service.
func UsedProviders(ctx context.Context, d *db.DB) ([]string, error) {
	rows, err := d.Read().QueryContext(ctx, `SELECT DISTINCT provider FROM connections ORDER BY provider`)
	if err != nil {
		return nil, fmt.Errorf("list the providers in use: %w", err)
	}
	out := []string{}
	err = db.Each(rows, func(r *sql.Rows) error {
		var slug string
		if err := r.Scan(&slug); err != nil {
			return fmt.Errorf("list the providers in use: %w", err)
		}
		out = append(out, slug)
		return nil
	})
	return out, err
}

// unfitPage is how many connections Unfit reads at a time.
const unfitPage = 200

// Unfit returns the UUIDs of the connections, of any environment, whose settings or secrets a definition refuses, at
// most limit of them, and how many there are.
func (s *Service) Unfit(ctx context.Context, p *registry.Provider, limit int) (uuids []string, total int, err error) {
	for after := ""; ; {
		page, err := listByProvider(ctx, s.db.Read(), p.Definition.Slug, after, unfitPage)
		if err != nil {
			return nil, 0, err
		}
		for i := range page {
			c := &page[i]
			secrets, err := s.secrets.open(ctx, s.db.Read(), c.UUID)
			if err != nil {
				return nil, 0, err
			}
			if _, err := s.loader.bind(c, p, secrets); err == nil {
				continue
			}
			if total++; total <= limit {
				uuids = append(uuids, c.UUID)
			}
		}
		if len(page) < unfitPage {
			return uuids, total, nil
		}
		after = page[len(page)-1].UUID
	}
}

func listByProvider(ctx context.Context, q querier, slug, after string, limit int) ([]Connection, error) {
	w := new(db.Where).And("provider = ?", slug).And("uuid > ?", after)
	return readAll(ctx, q, w, "ORDER BY uuid LIMIT "+strconv.Itoa(limit))
}
