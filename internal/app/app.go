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
	"sync"
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
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/migrate"
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
	// ClockOffset measures how far the database's clock is ahead of the node's; nil means the function of that name. A
	// test that moves the clock has no database whose clock moves along.
	ClockOffset func(ctx context.Context, d *db.DB, clk clock.Clock) (time.Duration, error)
}

// App is one server process.
type App struct {
	cfg config.Config
	log *slog.Logger
	// own is this node's clock, clock the database's as seen from here; on SQLite they are one.
	own     clock.Clock
	clock   *clock.Shifted
	offset  func(ctx context.Context, d *db.DB, clk clock.Clock) (time.Duration, error)
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

	ready   atomic.Bool
	servers servers
	loops   sync.WaitGroup
	cancel  context.CancelFunc
}

// New opens the database and builds the process, without starting anything.
func New(ctx context.Context, o Options) (_ *App, err error) {
	a := &App{cfg: o.Config, log: o.Logger, own: o.Clock, clock: clock.NewShifted(o.Clock), offset: o.ClockOffset,
		metrics: obs.NewMetrics()}
	if a.offset == nil {
		a.offset = ClockOffset
	}
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
	if _, err = a.syncClock(ctx); err != nil {
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
	if a.connections, err = connections.NewService(connections.Config{DB: d, Clock: clk, Box: box, Providers: a.providers,
		Environments: a.store.Identity, Keyring: verification.NewKeyring(keyFetcher{a.client}), Logger: a.log}); err != nil {
		return err
	}
	a.subscriptions = subscriptions.New(subscriptions.Config{DB: d, Box: box, Clock: clk, Targets: a.client,
		Connections: a.connections, Environments: a.store.Identity, PublicURL: a.cfg.PublicURL})
	a.events = events.NewStore(d, deliveries.Filter{})
	a.events.Retain(lifetimes{a.store.Identity}, clk)
	a.rejections = rejections.New(d, clk)
	a.audit = audit.NewStore(d)
	a.idempotency = idempotency.New(d, box, clk)
	if a.limiter, err = a.newLimiter(node); err != nil {
		return err
	}
	a.connections.OnDelete(a.rejections.Forget)
	a.deliveries = deliveries.New(d, a.events, a.subscriptions, a.client, clk, a.log, a.metrics, deliveries.Options{
		Concurrency: a.cfg.DeliveryConcurrency, PerSubscription: a.cfg.DeliveryConcurrencyPerSubscription,
		PerHost: a.cfg.DeliveryConcurrencyPerHost, Lease: lease, Node: node,
	})
	a.stream = a.newStream()
	a.subscriptions.Control(a.deliveries)
	own := ownevents.New(d, a.events, a.subscriptions, clk, a.metrics)
	a.deliveries.Announce(own)
	a.subscriptions.Announce(own)
	a.connections.OnChange(own.ConnectionChanged)
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
	a.ingest = ingest.New(d, a.connections, a.subscriptions, a.events, a.deliveries, a.rejections, a.limiter, clk, a.log,
		a.metrics, ingest.Options{
			MaxBodyBytes: a.cfg.WebhookMaxBodyBytes, MemoryBudget: a.cfg.WebhookMemoryBudgetBytes,
			DedupeWindow: a.cfg.WebhookDedupeWindow, SpoolDir: spool, PublicURL: a.cfg.PublicURL,
		})
	a.api = NewAPI(APIOptions{
		Config: httpapi.Config{Version: version, Logger: a.log, Clock: clk, Auth: a.store.Identity, Keys: a.store.Identity,
			TrustedProxies: a.cfg.TrustedProxies, Limits: a.limits(), Idempotency: a.idempotency, LoopbackHostsOnly: a.cfg.Dev,
			Ready: a.readiness, Observe: a.observe},
		PublicURL: a.cfg.PublicURL, Identity: a.store.Identity, Connections: a.connections, Subscriptions: a.subscriptions,
		Events: a.events, Stream: a.stream, Deliveries: a.deliveries, Ingest: a.ingest, Rejections: a.rejections,
		Audit: a.audit, Replays: a.replays, SSO: a.sso,
	})
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

// maxClockOffset is how far the node's clock may be from the database's: leases and due times assume that they agree.
const maxClockOffset = 2 * time.Second

var (
	errStopping = errors.New("the server is starting or stopping")
	errClock    = errors.New("the clock is more than two seconds off the database's")
)

func (a *App) readiness(ctx context.Context) error {
	if !a.ready.Load() {
		return errStopping
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := a.store.DB.Ping(ctx); err != nil {
		return err
	}
	if offset := a.clock.Offset(); offset.Abs() > maxClockOffset {
		return errClock
	}
	return nil
}

// syncClock measures how far the database's clock is ahead and lets the service go by it: leases and due times that
// several nodes share must not depend on which of them wrote them.
func (a *App) syncClock(ctx context.Context) (time.Duration, error) {
	offset, err := a.offset(ctx, a.store.DB, a.own)
	if err == nil {
		a.clock.Set(offset)
	}
	return offset, err
}

// clockInterval is how often the database's clock is compared.
const clockInterval = 10 * time.Second

func (a *App) compareClock(ctx context.Context) time.Duration {
	offset, err := a.syncClock(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		a.log.ErrorContext(ctx, "the database's clock could not be compared", slog.String("error", err.Error()))
	case offset.Abs() > maxClockOffset:
		a.log.ErrorContext(ctx, "this node's clock is wrong; it is not ready until that is mended",
			slog.Duration("offset", offset))
	}
	return clockInterval
}

// ClockOffset returns how far the database's clock is ahead of this node's. SQLite has no clock of its own: its offset
// is zero, and the query shows that it answers.
func ClockOffset(ctx context.Context, d *db.DB, clk clock.Clock) (time.Duration, error) {
	if d.Engine() == db.SQLite {
		return 0, d.Ping(ctx)
	}
	// Waiting for a connection is not part of the round trip.
	conn, err := d.Read().Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("reach the database's clock: %w", err)
	}
	defer func() { _ = conn.Close() }() // gives it back to the pool
	before := clk.Now()
	var ms float64
	if err := conn.QueryRowContext(ctx, "SELECT EXTRACT(EPOCH FROM clock_timestamp()) * 1000").Scan(&ms); err != nil {
		return 0, fmt.Errorf("read the database's clock: %w", err)
	}
	half := clk.Now().Sub(before) / 2
	return clock.FromMillis(int64(ms)).Sub(before.Add(half)), nil
}

// refreshInterval bounds how long a change made by another process goes unnoticed.
const refreshInterval = time.Second

// refresh looks whether another process has changed what is cached.
func (a *App) refresh(ctx context.Context) time.Duration {
	for _, r := range []func(context.Context) error{a.store.Identity.RefreshSettings, a.connections.Refresh, a.subscriptions.Refresh} {
		if err := r(ctx); err != nil && ctx.Err() == nil {
			a.log.ErrorContext(ctx, "cached data could not be compared with the database", slog.String("error", err.Error()))
		}
	}
	return refreshInterval
}

// matchInterval is how often it is looked whether a secret's last match is to be stored.
const matchInterval = 5 * time.Second

func (a *App) storeMatches(ctx context.Context) time.Duration {
	if err := a.connections.StoreMatches(ctx); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "the last matches of webhook secrets could not be stored", slog.String("error", err.Error()))
	}
	return matchInterval
}

// partitionInterval is how often the coming days' partitions are made.
const partitionInterval = time.Hour

func (a *App) partitions(ctx context.Context) time.Duration {
	if err := a.events.EnsurePartitions(ctx, a.clock.Now()); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "the coming days' partitions could not be made; their payloads go to the default one",
			slog.String("error", err.Error()))
	}
	return partitionInterval
}

// rejectionInterval is how often refusals that were only counted are stored; the others are stored at once.
const rejectionInterval = time.Second

func (a *App) storeRejections(ctx context.Context) time.Duration {
	if err := a.rejections.Flush(ctx); err != nil && ctx.Err() == nil {
		a.log.WarnContext(ctx, "refused requests could not be stored", slog.String("error", err.Error()))
	}
	return rejectionInterval
}

// sealInterval bounds how long an audit event waits for its number.
const sealInterval = time.Second

func (a *App) sealAudit(ctx context.Context) time.Duration {
	if err := a.audit.Seal(ctx); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "audit events could not be numbered", slog.String("error", err.Error()))
	}
	return sealInterval
}

// expireInterval is how often what has lived long enough is deleted.
const expireInterval = 10 * time.Minute

func (a *App) expire(ctx context.Context) time.Duration {
	if err := a.rejections.Expire(ctx, a.clock.Now()); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "old refused requests could not be deleted", slog.String("error", err.Error()))
	}
	a.expireKeysAndLimits(ctx)
	a.expireReplays(ctx)
	a.expireKeyUse(ctx)
	if err := a.subscriptions.ForgetSecrets(ctx); err != nil && ctx.Err() == nil {
		a.log.ErrorContext(ctx, "replaced signing secrets could not be removed", slog.String("error", err.Error()))
	}
	return expireInterval
}

// Start starts the workers and the listeners. When it returns the server is ready.
func (a *App) Start(ctx context.Context) error {
	if err := a.events.EnsurePartitions(ctx, a.clock.Now()); err != nil {
		return err
	}
	if err := a.deliveries.Start(ctx); err != nil {
		return err
	}
	if err := a.replays.Recover(ctx); err != nil {
		return err
	}
	a.ingest.Start()
	loopCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.refresh) })
	a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.partitions) })
	a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, a.rejections.Wake(), a.storeRejections) })
	a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.storeMatches) })
	a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.storeKeyUse) })
	a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.sealAudit) })
	a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.expire) })
	a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.retention.Run) })
	a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.trimLog) })
	a.loops.Go(func() { a.stream.Run(loopCtx) })
	a.loops.Go(func() { a.limiter.Run(loopCtx) })
	a.workOnReplays(loopCtx)
	a.startMails(loopCtx)
	if a.cfg.ProvidersDir != "" {
		a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.refreshProviders) })
	}
	if a.cfg.SQLite() {
		a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.checkpoint) })
	} else {
		a.loops.Go(func() { jobs.Loop(loopCtx, a.clock, nil, a.compareClock) })
	}
	if err := a.servers.listen(ctx, a); err != nil {
		return err
	}
	if err := a.ensurePeople(ctx); err != nil {
		return err
	}
	a.ready.Store(true)
	a.servers.serve(ctx, a.log)
	return nil
}

// Addr is the address of the public listener.
func (a *App) Addr() string { return a.servers.publicAddr() }

// AdminAddr is the address of the admin listener; empty when it is off.
func (a *App) AdminAddr() string { return a.servers.adminAddr() }

// API returns the API, for tests that read its declarations.
func (a *App) API() *httpapi.API { return a.api }

// Stop ends the process in order: not ready, no new requests, workers softly and then hard when ctx ends, outcomes
// stored, database closed.
func (a *App) Stop(ctx context.Context) error {
	a.ready.Store(false)
	// What waits to be sent goes back to the table while requests still end: neither takes the other's time.
	if a.cancel != nil {
		a.deliveries.Drain()
	}
	// Streams have no end of their own to wait for.
	a.stream.Stop()
	err := a.servers.shutdown(ctx)
	if a.cancel != nil {
		a.cancel()
		a.loops.Wait()
		a.storeRejections(ctx)
		a.storeMatches(ctx)
		a.storeLastKeyUse(ctx)
		a.releaseReplays(ctx)
		a.ingest.Stop()
		a.deliveries.Stop(ctx)
	}
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
