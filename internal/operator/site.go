package operator

import (
	"context"
	"log/slog"

	"sallyport/internal/app"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/imports"
	"sallyport/internal/providers/registry"
)

// site is one environment with what commands need that work on its providers.
type site struct {
	db        *db.DB
	providers *registry.Live
	// definitions are those of the environments, too.
	definitions *imports.Definitions
	configs     *configs.Service
	client      *egress.Client
	actor       access.Principal
}

// withSite calls fn with the environment with that id or name.
func (s *Store) withSite(ctx context.Context, cfg *config.Config, environment string, log *slog.Logger,
	fn func(site) error) error {
	actor := commandLine()
	env, err := findEnvironment(ctx, s.Identity.Team, actor, environment)
	if err != nil {
		return err
	}
	if actor.Team, err = s.Identity.Team.TeamOf(ctx, actor); err != nil {
		return err
	}
	actor.Environment = env.ID
	providers, err := app.LoadValidProviders(cfg, log)
	if err != nil {
		return err
	}
	client := app.NewEgress(cfg, clock.System())
	defer client.Close()
	definitions := imports.NewDefinitions(providers, s.DB, log)
	if err := definitions.Refresh(ctx); err != nil {
		return err
	}
	return fn(site{db: s.DB, providers: providers, definitions: definitions, client: client, actor: actor,
		configs: app.NewProviderConfigs(app.ProviderConfigs{DB: s.DB, Clock: clock.System(), Box: s.Box,
			Providers: definitions, Environments: s.Identity.Team, Client: client})})
}

// Skipped returns the problems of definitions in the operator's folder, which cannot be worked with.
func (s *site) Skipped() []ProviderProblem { return s.providers.Skipped() }
