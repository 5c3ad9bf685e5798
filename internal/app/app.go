// Package app puts the process together: configuration, database, capabilities, HTTP and workers, and the order in
// which they start and stop. It holds no rules.
package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/signin"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/datadir"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/heaplimit"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpserver"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/storing"
)

// Options configure a process.
type Options struct {
	Config  config.Config
	Logger  *slog.Logger
	Clock   clock.Clock
	Version string
	// ClockOffset measures how far the database's clock is ahead of the node's; nil means db.ClockOffset. A test that
	// moves the clock has no database whose clock moves along.
	ClockOffset func(ctx context.Context, d *db.DB, clk clock.Clock) (time.Duration, error)
	// Derive hashes passwords; nil means Argon2id. Tests take one of less cost.
	Derive signin.DeriveFunc
	// Lease is how long a worker that is gone keeps a delivery; 0 means two minutes. It must be several times the longest
	// timeout of a subscription. The soak command takes a short one, so that leases end in its rounds.
	Lease time.Duration
	// Heap is the limit of the heap; nil if the process has set none.
	Heap *heaplimit.Limit
}

// App is one server process.
type App struct {
	parts
	lock          *datadir.Lock
	modules       []module.Module
	runner        *module.Runner
	public, admin *httpserver.Server
	ready         atomic.Bool
	storing       *storing.Monitor
}

// New opens the database and builds the process, without starting anything.
func New(ctx context.Context, o Options) (_ *App, err error) {
	outages := obs.NewOutages(o.Logger.Handler(), o.Clock)
	a := &App{parts: parts{cfg: &o.Config, log: slog.New(outages), outages: outages, derive: o.Derive,
		lease: cmp.Or(o.Lease, defaultLease), heap: o.Heap}}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	// Before anything is changed, such as the schema: definitions that a new release refuses must not keep the old one
	// from starting.
	if a.providers, err = LoadProviders(a.cfg, a.log); err != nil {
		return nil, err
	}
	if a.lock, err = datadir.Open(a.cfg.Data, a.cfg.SQLite()); err != nil {
		return nil, err
	}
	a.node = a.lock.Node
	// Before the database is created or migrated for a server that cannot start.
	listen, admin := a.listeners()
	if err = cmp.Or(httpserver.Check(ctx, listen), httpserver.Check(ctx, admin)); err != nil {
		return nil, err
	}
	if a.db, err = db.Open(ctx, a.cfg.DatabaseURL.Reveal(), a.cfg.Data); err != nil {
		return nil, err
	}
	if err = migrate.Ensure(ctx, a.db, a.cfg.SQLite() || a.cfg.Dev || a.cfg.Migrate, a.log); err != nil {
		return nil, err
	}
	if err = a.warnOfWeaknesses(ctx); err != nil {
		return nil, err
	}
	a.clock = db.NewClock(a.db, o.Clock, o.ClockOffset)
	if err = a.clock.Sync(ctx); err != nil {
		return nil, err
	}
	if err = ensureKeyset(ctx, a.cfg, a.db); err != nil {
		return nil, err
	}
	declared := Declared()
	a.contents = module.Contents(declared)
	if a.box, err = openKeyset(a.cfg, a.clock, a.log, module.SealedColumns(declared)); err != nil {
		return nil, err
	}
	a.installation, err = installation.Open(ctx, installation.Config{DB: a.db, Box: a.box, Clock: a.clock,
		Dev: a.cfg.Dev})
	if err != nil {
		return nil, err
	}
	if err = a.build(ctx, o.Version); err != nil {
		return nil, err
	}
	return a, nil
}

// warnOfWeaknesses logs settings of the database with which acknowledged events can be lost.
func (a *App) warnOfWeaknesses(ctx context.Context) error {
	weak, err := a.db.Weaknesses(ctx)
	for _, w := range weak {
		a.log.WarnContext(ctx, "the database does not keep what it acknowledges", slog.String("setting", w))
	}
	return err
}

// build makes the capabilities and what serves them.
func (a *App) build(ctx context.Context, version string) error {
	a.client = NewEgress(a.cfg, a.clock)
	p, err := a.parts.build()
	if err != nil {
		return err
	}
	if err := p.identity.EnsureSigningKey(ctx); err != nil {
		return err
	}
	a.storing = p.storing
	p.api.Version, p.api.Ready = version, a.readiness
	public := a.handler(p)
	metrics := obs.NewRegistry()
	for _, m := range p.modules {
		metrics.MustRegister(m.Metrics...)
	}
	listen, admin := a.listeners()
	listen.Handler = public
	a.public = httpserver.New(listen)
	admin.Handler = obs.AdminHandler(metrics, p.api.Ready, p.fleet.Warnings)
	a.admin = httpserver.New(admin)
	a.modules = append(p.modules, a.serverModule(p.identity))
	a.runner = module.NewRunner(module.Config{Clock: a.clock, Logger: a.log, StopTimeout: a.cfg.ShutdownTimeout,
		Role: a.cfg.Role})
	return ctx.Err()
}

// handler returns what the public listener serves: every operation or, on a node that serves no requests, health alone.
func (a *App) handler(p *process) http.Handler {
	if !a.cfg.Role.Does(role.Serving) {
		p.api.Elsewhere = "This node only sends deliveries (role worker): it accepts no webhooks and serves no API. " +
			"Send requests to a node of the role api or all"
		return httpapi.New(p.api)
	}
	api := httpapi.New(p.api)
	for _, m := range p.modules {
		if m.Mount != nil {
			m.Mount(api)
		}
	}
	return api
}

var errStopping = errors.New("the server is starting or stopping")

func (a *App) readiness(ctx context.Context) error {
	if !a.ready.Load() {
		return errStopping
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := a.db.Ping(ctx); err != nil {
		return err
	}
	if err := a.clock.Check(); err != nil {
		return err
	}
	return a.storing.Check()
}

// Start starts the workers and the listeners. When it returns the server is ready. When it fails it leaves no worker
// running; Stop must follow all the same.
func (a *App) Start(ctx context.Context) error {
	if err := a.followSetBack(ctx); err != nil {
		return err
	}
	return a.runner.Start(ctx, a.modules)
}

// Addr is the address of the public listener.
func (a *App) Addr() string { return a.public.Addr() }

// AdminAddr is the address of the admin listener; empty when it is off.
func (a *App) AdminAddr() string { return a.admin.Addr() }

// Stop ends the process in order: not ready, no new requests, workers softly and then hard when ctx ends, outcomes
// stored, database closed.
func (a *App) Stop(ctx context.Context) error {
	a.ready.Store(false)
	err := a.runner.Stop(ctx)
	a.client.Close()
	return errors.Join(err, a.close())
}

func (a *App) close() error {
	var err error
	if a.db != nil {
		err = a.db.Close()
	}
	if a.lock != nil {
		err = errors.Join(err, a.lock.Close())
	}
	return err
}
