package app

import (
	"context"
	"strings"
	"time"

	"sallyport/internal/identity"
	"sallyport/internal/identity/setup"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
)

// clockInterval is how often the database's clock is compared.
const clockInterval = 10 * time.Second

// databaseModule keeps the database in shape.
func (p *parts) databaseModule() module.Module {
	m := module.Module{Name: "platform/db", Tables: []module.Table{{Name: "installation"}, {Name: "cache_versions"}}}
	if p.cfg.SQLite() {
		m.Jobs = []jobs.Periodic{{Name: "checkpoint", Failure: "cannot checkpoint the database", Run: p.db.Checkpoint}}
		return m
	}
	m.Jobs = []jobs.Periodic{{Name: "compare-clock", Failure: "cannot go by the database's clock",
		Run: jobs.Every(clockInterval, func(ctx context.Context) error {
			if err := p.clock.Sync(ctx); err != nil {
				return err
			}
			return p.clock.Check()
		})}}
	return m
}

// serverModule serves requests. It starts last, because before the first request a user must be able to sign in.
func (a *App) serverModule(ids *identity.Services) module.Module {
	return module.Module{Name: "platform/httpserver", Services: []module.Service{
		{Name: "public-listener", Start: a.public.Listen, Drain: a.public.Shutdown},
		{Name: "admin-listener", Start: a.admin.Listen, Drain: a.admin.Shutdown},
		{Name: "first-people", Start: func(ctx context.Context) error {
			return ids.Setup.Ensure(ctx, setup.Options{Dev: a.cfg.Dev, DataDir: a.cfg.Data, URL: a.clientURL() + httpapi.Prefix,
				Token: a.cfg.ReadSetupToken, Logger: a.log})
		}},
		{Name: "requests", Start: func(ctx context.Context) error {
			a.ready.Store(true)
			a.public.Serve(ctx)
			a.admin.Serve(ctx)
			return nil
		}},
	}}
}

// clientURL is the URL at which clients reach the server: the public URL, or the listener's if that took any free port.
func (a *App) clientURL() string {
	if strings.HasSuffix(a.cfg.PublicURL, ":0") {
		return "http://" + a.Addr()
	}
	return a.cfg.PublicURL
}
