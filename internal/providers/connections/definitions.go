package connections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"sallyport/internal/platform/db"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
)

// Providers gives the definition of a provider that is in force.
type Providers interface {
	Get(slug string) (*registry.Provider, bool)
}

var errNoWebhooks = errors.New("the provider has no webhooks")

// bind prepares a definition for one connection.
func (s *Service) bind(c *Connection, p *registry.Provider,
	secrets []verification.Secret) (*verification.Verifier, error) {
	if p.Webhooks == nil {
		return nil, errNoWebhooks
	}
	settings := c.Webhook.settings(secrets)
	settings.Keyring = s.keyring
	return p.Webhooks.Bind(settings)
}

// verifier binds the newest version of a definition that the connection's settings fit, and returns that version too.
// It fails closed: what none fits refuses every delivery, and misfit says why.
func (s *Service) verifier(ctx context.Context, c *Connection, newest *registry.Provider,
	secrets []verification.Secret) (
	v *verification.Verifier, used *registry.Provider, misfit error,
) {
	var reason error
	for p := newest; p != nil; p = p.Previous() {
		v, err := s.bind(c, p, secrets)
		if err != nil {
			if reason == nil {
				reason = err
			}
			continue
		}
		if p != newest {
			s.log.LogAttrs(ctx, slog.LevelWarn,
				"connection stays with an earlier version of its provider's definition: its settings do not fit the present one",
				slog.String("connection_uuid", c.UUID), slog.String("provider", c.Provider), slog.String("error", reason.Error()))
		}
		return v, p, nil
	}
	s.log.LogAttrs(ctx, slog.LevelWarn, "connection refuses deliveries: its settings do not fit the provider's definition",
		slog.String("connection_uuid", c.UUID), slog.String("provider", c.Provider), slog.String("error", reason.Error()))
	return s.refusing, newest, reason
}

// ProvidersChanged makes every lookup that begins from now on use the definitions in force.
func (s *Service) ProvidersChanged() { s.inbound.DropAll() }

// UsedProviders returns the slugs of the providers that connections of any environment have, sorted.
func (s *Service) UsedProviders(ctx context.Context) ([]string, error) {
	return UsedProviders(ctx, s.db)
}

// UsedProviders is the method of that name for those who have a database and no Service.
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

// unfitPage is how many connections Unfit reads at once.
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
			secrets, err := s.secrets(ctx, s.db.Read(), c.UUID)
			if err != nil {
				return nil, 0, err
			}
			if _, err := s.bind(c, p, secrets); err == nil {
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
