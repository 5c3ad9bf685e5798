package app

import (
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"time"

	"sallyport/internal/identity"
	"sallyport/internal/identity/setup"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpserver"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/role"
)

// clockInterval is how often the database's clock is compared. After the node's clock was set, or the machine slept,
// the next comparison follows within clockWatch.
const clockInterval, clockWatch = 10 * time.Second, time.Second

// databaseModule keeps the database in shape.
func (p *parts) databaseModule() module.Module {
	m := module.Module{Name: "platform/db", Tables: []module.Table{{Name: "installation"}, {Name: "cache_versions"},
		{Name: "cache_changes"}}, Metrics: p.db.Metrics()}
	if p.cfg.SQLite() {
		m.Jobs = []jobs.Periodic{{Name: "follow-clock", Failure: "cannot move due times along with the machine's clock",
			Run: jobs.Every(clockWatch, func(ctx context.Context) error { return p.clock.Follow(ctx, p.shiftTimes) })},
			{Name: "checkpoint", Failure: "cannot checkpoint the database", Run: p.db.Checkpoint}}
		return m
	}
	var compared clock.Moment
	m.Jobs = []jobs.Periodic{{Name: "compare-clock", Failure: "cannot go by the database's clock",
		Run: jobs.Every(clockWatch, func(ctx context.Context) error {
			now := p.clock.Moment()
			if !p.clock.IsUncertain() && !compared.IsZero() && compared.AtMost(now) < clockInterval {
				return nil
			}
			compared = now
			if err := p.clock.Sync(ctx); err != nil {
				return err
			}
			return p.clock.Check()
		})}}
	return m
}

// maxSetBack is how far the machine's clock may be behind what it showed last without a move of due times: a
// synchronisation steps it by less.
const maxSetBack = time.Second

// followSetBack moves due times along if the machine's clock was set back while the server did not run. Otherwise
// retries would wait for as much longer. A clock that was set ahead looks like a longer stop: what is due is sent. If
// the times cannot be moved, the server starts all the same, and the log says so.
func (a *App) followSetBack(ctx context.Context) error {
	by, err := a.storing.SetBack(ctx)
	if err != nil || by <= maxSetBack {
		return err
	}
	if err := a.db.Tx(ctx, func(tx *sql.Tx) error { return a.shiftTimes(ctx, tx, -by) }); err != nil {
		a.log.ErrorContext(ctx, "cannot move due times along with the machine's clock; retries are late",
			slog.String("error", err.Error()))
	}
	return ctx.Err()
}

// shiftTimes moves the stored due times of all capabilities.
func (p *parts) shiftTimes(ctx context.Context, tx *sql.Tx, by time.Duration) error {
	p.log.WarnContext(ctx, "the machine's clock was set, or the machine slept; due times are moved along",
		slog.Duration("by", by))
	for _, shift := range p.shifts {
		if err := shift(ctx, tx, by); err != nil {
			return err
		}
	}
	return nil
}

// serverModule serves requests. It starts last, because before the first request a user must be able to sign in.
func (a *App) serverModule(ids *identity.Services) module.Module {
	return module.Module{Name: "platform/httpserver", Services: []module.Service{
		{Name: "public-listener", Start: a.public.Listen, Drain: a.public.Shutdown},
		{Name: "admin-listener", Start: a.admin.Listen, Drain: a.admin.Shutdown},
		{Name: "first-people", Part: role.Serving, Start: func(ctx context.Context) error {
			return ids.Setup.Ensure(ctx, setup.Options{Dev: a.cfg.Dev, DataDir: a.cfg.Data, URL: a.clientURL() + httpapi.Prefix,
				Token: a.cfg.ReadSetupToken, Logger: a.log})
		}},
		{Name: "requests", Start: func(ctx context.Context) error {
			a.warnOfAddress(ctx)
			a.ready.Store(true)
			a.public.Serve(ctx)
			a.admin.Serve(ctx)
			return nil
		}},
	}}
}

// listeners returns the configurations of both listeners, without their handlers.
func (p *parts) listeners() (public, admin httpserver.Config) {
	public = httpserver.Config{Name: "public", Setting: "listen", Address: p.cfg.Listen, CertFile: p.cfg.TLSCert,
		KeyFile: p.cfg.TLSKey, Logger: p.log, ErrorBody: httpapi.ErrorBody}
	// A profile or a trace is written for as long as its caller asked.
	admin = httpserver.Config{Name: "admin", Setting: "admin-listen", Address: p.cfg.AdminListen,
		WriteTimeout: 10 * time.Minute, Logger: p.log, ErrorBody: httpapi.ErrorBody}
	return public, admin
}

// clientURL is the URL at which people and commands reach the server: the public URL, or the listener's in development
// mode, where they are on the same machine, and if it took any free port.
func (a *App) clientURL() string {
	base := a.cfg.PublicURL
	if a.cfg.Dev && a.cfg.TLSCert == "" { // a certificate is for the public name
		base = a.cfg.ListenURL()
	}
	if scheme, _, _ := strings.Cut(base, "://"); strings.HasSuffix(base, ":0") {
		return scheme + "://" + a.Addr()
	}
	return base
}

// warnOfAddress logs that webhook URLs and links lead to this machine only although others may use the server, or that
// the server cannot distinguish its clients.
func (a *App) warnOfAddress(ctx context.Context) {
	if a.cfg.HidesClients() {
		a.log.WarnContext(ctx, "requests come through a proxy or tunnel and trusted-proxies is not set: all clients appear "+
			"under one address, and rejected webhooks of a stranger use up the limit of all senders; set trusted-proxies to "+
			"the address of the proxy or tunnel, such as 127.0.0.1", slog.String("public_url", a.cfg.PublicURL))
	}
	if a.cfg.GuessesPublicURL() {
		a.log.WarnContext(ctx, "the listener takes requests at all addresses and public-url is not set: webhook URLs and "+
			"links contain an address that only this machine reaches; set public-url to the URL that providers and users use",
			slog.String("listen", a.cfg.Listen), slog.String("public_url", a.cfg.PublicURL))
	}
}
