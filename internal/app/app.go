// Package app puts the process together: configuration, database, capabilities, HTTP and workers, and the order in
// which they start and stop. It holds no rules.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"sallyport/internal/identity"
	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/audit/audithttp"
	"sallyport/internal/identity/identityhttp"
	"sallyport/internal/identity/mails"
	"sallyport/internal/identity/sso"
	"sallyport/internal/identity/sso/ssohttp"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpserver"
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/migrate"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/connections/connectionshttp"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/deliveries/deliverieshttp"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/events/eventshttp"
	"sallyport/internal/webhooks/eventstream"
	"sallyport/internal/webhooks/ingest"
	"sallyport/internal/webhooks/ingest/ingesthttp"
	"sallyport/internal/webhooks/ownevents"
	"sallyport/internal/webhooks/rejections"
	"sallyport/internal/webhooks/rejections/rejectionshttp"
	"sallyport/internal/webhooks/replays"
	"sallyport/internal/webhooks/replays/replayshttp"
	"sallyport/internal/webhooks/retention"
	"sallyport/internal/webhooks/subscriptions"
	"sallyport/internal/webhooks/subscriptions/subscriptionshttp"
)

// lease is how long a worker that says nothing keeps a delivery. Four times the longest time-out leaves a wide margin.
const lease = 2 * time.Minute

// Options are what a process is made from.
type Options struct {
	Config  config.Config
	Logger  *slog.Logger
	Clock   clock.Clock
	Version string
	// ClockOffset measures how far the database's clock is ahead of the node's; nil means db.ClockOffset. A test that
	// moves the clock has no database whose clock moves along.
	ClockOffset func(ctx context.Context, d *db.DB, clk clock.Clock) (time.Duration, error)
}

// App is one server process.
type App struct {
	cfg     config.Config
	log     *slog.Logger
	clock   *db.Clock
	lock    *flock.Flock
	store   *Store
	metrics *obs.Metrics
	api     *httpapi.API
	client  *egress.Client

	providers     *registry.Live
	connections   *connections.Service
	subscriptions *subscriptions.Service
	events        *events.Store
	stream        *eventstream.Service
	deliveries    *deliveries.Service
	ingest        *ingest.Service
	rejections    *rejections.Service
	audit         *audit.Store
	retention     *retention.Worker
	replays       *replays.Service
	idempotency   *idempotency.Store
	sso           *sso.Service
	mails         *mails.Service
	limiter       *ratelimit.Limiter

	ready         atomic.Bool
	public, admin *httpserver.Server
	runner        *module.Runner
}

// New opens the database and builds the process, without starting anything.
func New(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{cfg: o.Config, log: o.Logger, metrics: obs.NewMetrics()}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.close())
		}
	}()
	// Before anything is changed, such as the schema: definitions that a new release refuses must not keep the old one
	// from starting.
	if a.providers, err = liveProviders(&a.cfg, a.log, a.metrics); err != nil {
		return nil, err
	}
	var node string
	if a.lock, node, err = lockData(&a.cfg); err != nil {
		return nil, err
	}
	if err = ensureKeyset(&a.cfg); err != nil {
		return nil, fmt.Errorf("make the keyset: %w", err)
	}
	d, err := db.Open(ctx, a.cfg.DatabaseURL.Reveal(), a.cfg.Data)
	if err != nil {
		return nil, err
	}
	a.store = &Store{DB: d}
	if err = a.migrate(ctx); err != nil {
		return nil, err
	}
	a.clock = db.NewClock(d, o.Clock, o.ClockOffset)
	if err = a.clock.Sync(ctx); err != nil {
		return nil, err
	}
	if a.store, err = openStore(ctx, &a.cfg, d, a.clock, a.log); err != nil {
		a.store = &Store{DB: d}
		return nil, err
	}
	if err = a.build(ctx, node, o.Version); err != nil {
		return nil, err
	}
	return a, nil
}

// migrate brings the schema up where that is this process's task, and checks it elsewhere.
func (a *App) migrate(ctx context.Context) error {
	d := a.store.DB
	if a.cfg.SQLite() || a.cfg.Dev || a.cfg.Migrate {
		before, after, err := migrate.Up(ctx, d)
		if err == nil && before.Current != after.Current {
			a.log.InfoContext(ctx, "migrated the database", slog.Int64("from", before.Current), slog.Int64("to", after.Current))
		}
		return err
	}
	state, err := migrate.Read(ctx, d)
	if err != nil {
		return err
	}
	return state.Check()
}

// build wires the capabilities. The order is that of the dependency table.
func (a *App) build(ctx context.Context, node, version string) error {
	d, box, clk := a.store.DB, a.store.Box, a.clock
	var err error
	a.client = newEgress(&a.cfg, clk)
	a.events = events.New(events.Config{DB: d, Deliveries: deliveries.Filter{}, Clock: clk,
		Retention: lifetimes{a.store.Identity}})
	a.rejections = rejections.New(rejections.Config{DB: d, Clock: clk})
	directory := subscriptions.NewDirectory(d)
	own := ownevents.New(ownevents.Config{DB: d, Events: a.events, Subscriptions: directory, Clock: clk,
		Metrics: a.metrics})
	if a.connections, err = connections.New(connections.Config{DB: d, Clock: clk, Box: box, Providers: a.providers,
		Environments: a.store.Identity, Keyring: verification.NewKeyring(keyFetcher{a.client}), Logger: a.log,
		OnDelete: []connections.DeleteHook{a.rejections.Forget},
		OnChange: []connections.ChangeHook{own.ConnectionChanged}}); err != nil {
		return err
	}
	queue := deliveries.NewStore(deliveries.StoreConfig{DB: d, Events: a.events, Logger: a.log,
		Announcers: []deliveries.Announcer{own}})
	a.subscriptions = subscriptions.New(subscriptions.Config{DB: d, Box: box, Clock: clk, Targets: a.client,
		Connections: a.connections, Environments: a.store.Identity, Deliveries: queue, Directory: directory,
		Announcers: []subscriptions.Announcer{own}, PublicURL: a.cfg.PublicURL})
	a.audit = audit.New(audit.Config{DB: d})
	a.idempotency = idempotency.New(idempotency.Config{DB: d, Box: box, Clock: clk})
	if a.limiter, err = a.newLimiter(node); err != nil {
		return err
	}
	a.deliveries = deliveries.New(deliveries.Config{Store: queue, Subscriptions: a.subscriptions, Client: a.client,
		Clock: clk, Logger: a.log, Metrics: a.metrics, Options: deliveries.Options{
			Concurrency: a.cfg.DeliveryConcurrency, PerSubscription: a.cfg.DeliveryConcurrencyPerSubscription,
			PerHost: a.cfg.DeliveryConcurrencyPerHost, Lease: lease, Node: node,
		}})
	a.stream = a.newStream()
	a.retention = retention.New(retention.Config{DB: d, Events: a.events, Deliveries: a.deliveries.Store(),
		Lifetimes: lifetimes{a.store.Identity}, Clock: clk, Logger: a.log, Metrics: a.metrics})
	a.replays = replays.New(replays.Config{DB: d, Clock: clk, Events: a.events, Deliveries: a.deliveries,
		Subscriptions: a.subscriptions, Logger: a.log, Metrics: a.metrics, Node: node})
	a.sso = sso.New(sso.Config{DB: d, Box: box, Clock: clk, Identity: a.store.Identity, Egress: a.client,
		CallbackURL: func(providerID string) string { return a.cfg.PublicURL + ssohttp.CallbackPath(providerID) }})
	if a.mails, err = newMails(&a.cfg, a.store, clk, a.log, a.metrics); err != nil {
		return err
	}
	a.store.Identity.MailBy(mailer{a.mails})
	a.store.Identity.Ask(contents{connections: a.connections, subscriptions: a.subscriptions})
	spool := filepath.Join(a.cfg.Data, "spool")
	if err := clearSpool(spool); err != nil {
		return err
	}
	a.ingest = ingest.New(ingest.Config{DB: d, Connections: a.connections, Subscriptions: a.subscriptions,
		Events: a.events, Deliveries: a.deliveries, Rejections: a.rejections, Limiter: a.limiter, Clock: clk, Logger: a.log,
		Metrics: a.metrics, Options: ingest.Options{
			MaxBodyBytes: a.cfg.WebhookMaxBodyBytes, MemoryBudget: a.cfg.WebhookMemoryBudgetBytes,
			DedupeWindow: a.cfg.WebhookDedupeWindow, SpoolDir: spool, PublicURL: a.cfg.PublicURL,
		}})
	a.api = NewAPI(APIOptions{
		Config: httpapi.Config{Version: version, Logger: a.log, Clock: clk, Auth: a.store.Identity, Keys: a.store.Identity,
			TrustedProxies: a.cfg.TrustedProxies, Limits: a.limits(), Idempotency: a.idempotency, LoopbackHostsOnly: a.cfg.Dev,
			Ready: a.readiness, Observe: a.observe},
		PublicURL: a.cfg.PublicURL, Identity: a.store.Identity, Connections: a.connections, Subscriptions: a.subscriptions,
		Events: a.events, Stream: a.stream, Deliveries: a.deliveries, Ingest: a.ingest, Rejections: a.rejections,
		Audit: a.audit, Replays: a.replays, SSO: a.sso,
	})
	a.public = httpserver.New(httpserver.Config{Name: "public", Address: a.cfg.Listen, Handler: a.api,
		CertFile: a.cfg.TLSCert, KeyFile: a.cfg.TLSKey, Logger: a.log})
	a.admin = httpserver.New(httpserver.Config{Name: "admin", Address: a.cfg.AdminListen, Handler: a.adminHandler(),
		// A profile or a trace is written for as long as its caller asked.
		WriteTimeout: 10 * time.Minute, Logger: a.log})
	a.runner = module.NewRunner(module.Config{Clock: clk, Logger: a.log, StopTimeout: a.cfg.ShutdownTimeout})
	return ctx.Err()
}

// APIOptions are the capabilities that the API serves. For the document alone they may be nil.
type APIOptions struct {
	httpapi.Config
	PublicURL     string
	Identity      *identity.Service
	Connections   *connections.Service
	Subscriptions *subscriptions.Service
	Events        *events.Store
	Stream        *eventstream.Service
	Deliveries    *deliveries.Service
	Ingest        *ingest.Service
	Rejections    *rejections.Service
	Audit         *audit.Store
	Replays       *replays.Service
	SSO           *sso.Service
}

// NewAPI mounts every capability: the one list of modules.
func NewAPI(o APIOptions) *httpapi.API {
	api := httpapi.New(o.Config)
	ingesthttp.Mount(api, o.Ingest, o.Ingest)
	eventshttp.Mount(api, o.Events, o.Deliveries, o.Stream)
	rejectionshttp.Mount(api, o.Rejections)
	audithttp.Mount(api, o.Audit, o.Identity)
	replayshttp.Mount(api, o.Replays)
	deliverieshttp.Mount(api, o.Events, o.Deliveries, o.Subscriptions)
	subscriptionshttp.Mount(api, o.Subscriptions)
	connectionshttp.Mount(api, o.Connections, o.PublicURL)
	identityhttp.Mount(api, o.Identity)
	ssohttp.Mount(api, o.SSO, identityhttp.RefreshCookie{})
	return api
}

// clearSpool makes the folder of large bodies and removes what a crash left in it.
func clearSpool(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("clear the spool folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the spool folder: %w", err)
	}
	return nil
}

func (a *App) observe(route string, status int, seconds float64) {
	a.metrics.Requests.WithLabelValues(route, strconv.Itoa(status/100)+"xx").Observe(seconds)
}

var errStopping = errors.New("the server is starting or stopping")

func (a *App) readiness(ctx context.Context) error {
	if !a.ready.Load() {
		return errStopping
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := a.store.DB.Ping(ctx); err != nil {
		return err
	}
	return a.clock.Check()
}

// Start starts the workers and the listeners. When it returns the server is ready. When it fails it leaves no worker
// running; Stop must follow all the same.
func (a *App) Start(ctx context.Context) error { return a.runner.Start(ctx, a.modules()) }

// Addr is the address of the public listener.
func (a *App) Addr() string { return a.public.Addr() }

// AdminAddr is the address of the admin listener; empty when it is off.
func (a *App) AdminAddr() string { return a.admin.Addr() }

// API returns the API, for tests that read its declarations.
func (a *App) API() *httpapi.API { return a.api }

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
	if a.store != nil {
		err = a.store.Close()
	}
	if a.lock != nil {
		err = errors.Join(err, a.lock.Unlock())
	}
	return err
}
