package app

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"time"

	"sallyport/internal/calls/calllog"
	"sallyport/internal/calls/calllog/callloghttp"
	"sallyport/internal/calls/executions"
	"sallyport/internal/calls/executions/executionshttp"
	"sallyport/internal/calls/gateway"
	"sallyport/internal/identity"
	"sallyport/internal/identity/accesstokens/accesstokenshttp"
	"sallyport/internal/identity/apikeys/apikeyshttp"
	"sallyport/internal/identity/audit"
	"sallyport/internal/identity/audit/audithttp"
	"sallyport/internal/identity/installation"
	"sallyport/internal/identity/invitations/invitationshttp"
	"sallyport/internal/identity/mails"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/members/membershttp"
	"sallyport/internal/identity/setup/setuphttp"
	"sallyport/internal/identity/signin"
	"sallyport/internal/identity/signin/signinhttp"
	"sallyport/internal/identity/sso"
	"sallyport/internal/identity/sso/ssohttp"
	"sallyport/internal/identity/team/teamhttp"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/config"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/fleet"
	"sallyport/internal/platform/heaplimit"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/obs"
	"sallyport/internal/platform/ratelimit"
	"sallyport/internal/platform/resealing"
	"sallyport/internal/platform/role"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/storing"
	"sallyport/internal/providers/catalog"
	"sallyport/internal/providers/catalog/cataloghttp"
	"sallyport/internal/providers/configs/configshttp"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connecting/connectinghttp"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/connections/connectionshttp"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/providers/imports"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/tokens"
	"sallyport/internal/providers/verification"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/deliveries/deliverieshttp"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/events/eventshttp"
	"sallyport/internal/webhooks/eventstream"
	"sallyport/internal/webhooks/filters"
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

// defaultLease is how long a worker that says nothing keeps a delivery. Four times the longest timeout leaves a wide
// margin.
const defaultLease = 2 * time.Minute

// parts are shared by all capabilities. Those of Declared have no database, keyset or definitions.
type parts struct {
	cfg       *config.Config
	log       *slog.Logger
	outages   *obs.Outages
	clock     *db.Clock
	db        *db.DB
	box       *secretbox.Box
	providers *registry.Live
	client    *egress.Client
	node      string
	// installation is read from the database.
	installation installation.Installation
	// derive hashes passwords; nil means Argon2id.
	derive signin.DeriveFunc
	// lease is how long a worker that says nothing keeps a delivery.
	lease time.Duration
	// heap is the limit of the heap; nil if there is none.
	heap *heaplimit.Limit
	// shifts move the stored due times of the capabilities; build sets them.
	shifts []func(ctx context.Context, tx *sql.Tx, by time.Duration) error
	// contents keep environments from being deleted; nil means that none can be deleted.
	contents []module.Content
}

// process is the result of build.
type process struct {
	modules  []module.Module
	identity *identity.Services
	storing  *storing.Monitor
	fleet    *fleet.Fleet
	// api has no version and no readiness reporter yet.
	api httpapi.Config
}

// build makes the capabilities, in the order in which they need each other, and returns their modules in the order in
// which they start. It reads and writes nothing.
func (p *parts) build() (*process, error) {
	password, err := p.cfg.ReadSMTPPassword()
	if err != nil {
		return nil, err
	}
	mail := mails.New(mails.Config{DB: p.db, Box: p.box, Clock: p.clock, Logger: p.log, Kinds: identity.MailKinds(),
		Server: mails.Server{Address: p.cfg.SMTPAddress, Encryption: mails.Encryption(p.cfg.SMTPTLS), User: p.cfg.SMTPUser,
			Password: password, From: p.cfg.SMTPFrom, Name: mails.HostName(p.cfg.PublicURL)}})
	accounts := identityConfig(p.cfg, p.db, p.box, p.clock)
	accounts.Installation, accounts.Mails, accounts.Derive = p.installation, mail, p.derive
	if p.contents != nil {
		accounts.Contents = func() []module.Content { return p.contents }
	}
	var conns *connections.Service // set below, before any request
	accounts.Belongings = func() members.Belongings { return belongings{connections.NewOwners(conns)} }
	ids, err := identity.New(accounts)
	if err != nil {
		return nil, err
	}
	auditStore := audit.New(audit.Config{DB: p.db})
	ssoService := sso.New(sso.Config{DB: p.db, Box: p.box, Clock: p.clock, Members: ids.Members, SignIn: ids.SignIn,
		Egress: p.client, CallbackURL: func(providerID string) string {
			return p.cfg.PublicURL + ssohttp.CallbackPath(providerID)
		}})

	var onChange []connections.ChangeHook // set below, before any request
	definitions := imports.NewDefinitions(p.providers, p.db, p.log)
	ofConfigs := ProviderConfigs{DB: p.db, Clock: p.clock, Box: p.box, Providers: definitions, Environments: ids.Team,
		Client: p.client, OnConnectionChange: func() []connections.ChangeHook { return onChange }}
	configService := NewProviderConfigs(ofConfigs)

	lifetimes := events.LifetimesFunc(ids.Team.Lifetimes)
	eventStore := events.New(events.Config{DB: p.db, Deliveries: deliveries.Filter{}, Clock: p.clock,
		Retention: lifetimes, Types: p.eventTypes(), OwnTypes: ownevents.Types(), Configs: configService})
	rejectionLog := rejections.New(rejections.Config{DB: p.db, Clock: p.clock})
	directory := subscriptions.NewDirectory(p.db, p.eventTypes(), configService)
	requests, batches, evaluations := obs.NewRequests(), obs.NewBatches(), filters.NewEvaluations()
	own := ownevents.New(ownevents.Config{DB: p.db, Events: eventStore, Clock: p.clock, Evaluations: evaluations,
		Subscriptions: func(ctx context.Context, tx db.Querier, env id.Environment) (ownevents.Subscriptions, error) {
			return directory.Own(ctx, tx, env)
		}})
	budgets, err := ratelimit.New(ratelimit.Options{DB: p.db, Clock: p.limitClock(), Logger: p.log, Node: p.node})
	if err != nil {
		return nil, err
	}
	providerLimits := limiter.New(limiter.Config{DB: p.db, Clock: p.limitClock(), Wall: p.clock, Budgets: budgets})
	vault := credentials.NewVault(credentials.Config{DB: p.db, Clock: p.clock, Box: p.box, Pepper: p.installation.Pepper})
	onChange = []connections.ChangeHook{own.ConnectionChanged}
	conns, err = connections.New(connections.Config{DB: p.db, Clock: p.clock, Box: p.box, Providers: definitions,
		Environments: ids.Team, Configs: configService, Logger: p.log, Vault: vault,
		Prober:       probes.New(probes.Config{Client: p.client, Clock: p.clock}),
		Protocol:     tokens.NewProtocol(p.client, p.clock),
		Limits:       providerLimits,
		Addresses:    p.client,
		AllowHTTP:    p.cfg.Dev || p.cfg.EgressAllowHTTP,
		Keyring:      verification.NewKeyring(verification.NewKeyFetcher(p.client)),
		DedupeWindow: p.cfg.WebhookDedupeWindow,
		OnDelete:     []connections.DeleteHook{rejectionLog.Forget},
		OnChange:     onChange})
	if err != nil {
		return nil, err
	}
	checks := connections.NewChecks(connections.ChecksConfig{Service: conns, Interval: p.cfg.ConnectionCheckInterval,
		Logger: p.log, Node: p.node})
	links := connecting.New(connecting.Config{DB: p.db, Clock: p.clock, Box: p.box, Providers: definitions,
		Configs: configService, Connections: connections.NewLinker(conns), Teams: ids.Team,
		Protocol: tokens.NewProtocol(p.client, p.clock), PublicURL: p.cfg.PublicURL,
		OnFailure: own.ConnectFailed, Logger: p.log, Pepper: p.installation.Pepper,
		People: people{ids: ids, sso: ssoService, clock: p.clock, publicURL: p.cfg.PublicURL}})
	others := fleet.New(fleet.Config{DB: p.db, Clock: p.clock, Logger: p.log, Node: p.node, Role: p.cfg.Role})
	importer := NewImports(Imports{DB: p.db, Clock: p.clock, Logger: p.log, Definitions: definitions,
		Environments: ids.Team, Configs: configService, Client: p.client, Node: p.node, Hints: others.Hints(), Heap: p.heap})
	deliveryStore := deliveries.NewStore(deliveries.StoreConfig{DB: p.db, Events: eventStore, Logger: p.log,
		Emitters: []deliveries.Emitter{own}, Hints: others.Hints()})
	subs := subscriptions.New(subscriptions.Config{DB: p.db, Box: p.box, Clock: p.clock, Targets: p.client,
		Connections: conns, Configs: configService, Environments: ids.Team, Deliveries: deliveryStore.Control(),
		Directory: directory, Emitters: []subscriptions.Emitter{own}, PublicURL: p.cfg.PublicURL,
		OwnTypes: ownevents.Types()})
	deliveryService := deliveries.New(deliveries.Config{Store: deliveryStore, Subscriptions: subs, Client: p.client,
		Clock: p.clock, Logger: p.log, Batches: batches, IsUncertain: p.clock.IsUncertain,
		Options: deliveries.Options{Concurrency: p.cfg.DeliveryConcurrency,
			PerSubscription: p.cfg.DeliveryConcurrencyPerSubscription, PerHost: p.cfg.DeliveryConcurrencyPerHost,
			Lease: p.lease, Node: p.node}})
	replayService := replays.New(replays.Config{DB: p.db, Clock: p.clock, Events: eventStore, Deliveries: deliveryService,
		Subscriptions: subs, Logger: p.log, Node: p.node, Hints: others.Hints()})
	stream := eventstream.New(eventstream.Config{DB: p.db, Events: eventStore, Attempts: deliveryStore,
		Identity: ids.Principals, Clock: p.clock, Logger: p.log, Data: eventshttp.StreamData, Options: eventstream.Options{
			MaxReaders: p.cfg.StreamMaxReaders, MaxPerEnvironment: p.cfg.StreamMaxReadersPerEnvironment}})
	retentionWorker := retention.New(retention.Config{DB: p.db, Deliveries: deliveryStore, Lifetimes: lifetimes,
		Clock: p.clock, Logger: p.log})
	spool := filepath.Join(p.cfg.Data, "spool")
	var folders []storing.Folder
	if p.cfg.Role.Does(role.Serving) { // others take no bodies
		folders = append(folders, storing.Folder{Name: storing.SpoolFolder, Path: spool, Probe: true})
	}
	probes := storing.Config{DB: p.db, Logger: p.log, Node: p.node}
	if p.cfg.SQLite() {
		probes.DueTimes = p.clock
		folders = append(folders, storing.Folder{Name: "data", Path: p.cfg.Data})
	}
	probes.Folders = folders
	store := storing.New(probes)
	ingestService := ingest.New(ingest.Config{DB: p.db, Connections: conns, Subscriptions: subs,
		Deliveries: deliveryService, Rejections: rejectionLog, Limiter: budgets, Clock: p.clock, Logger: p.log,
		Evaluations: evaluations, Batches: batches, Options: ingest.Options{
			MaxBodyBytes: p.cfg.WebhookMaxBodyBytes, MemoryBudget: p.cfg.WebhookMemoryBudgetBytes,
			DedupeWindow: p.cfg.WebhookDedupeWindow, SpoolDir: spool, SpoolFailed: store.SpoolFailed,
			PublicURL: p.cfg.PublicURL, SharedAddress: p.cfg.HidesClients()}})
	actionCatalog := catalog.New(catalog.Config{Definitions: definitions, Imports: importer, Configs: configService,
		Logger: p.log})
	var pipeline *gateway.Pipeline // set below, before any request
	var callLog *calllog.Log
	executionService := executions.New(executions.Config{DB: p.db, Clock: p.clock, Box: p.box,
		Pepper: p.installation.Pepper, Logger: p.log, Pipeline: func() executions.Pipeline { return pipeline },
		Calls: func() executions.Calls { return callLog }})
	callLog = calllog.New(calllog.Config{DB: p.db, Clock: p.clock, Logger: p.log, Parts: []calllog.Part{executionService},
		Keep: calllog.DefaultKeep})
	pipeline = gateway.New(gateway.Config{Catalog: actionCatalog, Connections: connections.NewSigner(conns),
		Client: p.client, Clock: p.clock, Logger: p.log, Recorder: callLog})
	idempotencyStore := idempotency.New(idempotency.Config{DB: p.db, Box: p.box, Clock: p.clock})

	modules := []module.Module{
		p.databaseModule(),
		others.Module(),
		{Name: "platform/httpapi", Metrics: requests.Metrics()},
		{Name: "platform/obs", Jobs: []jobs.Periodic{{Name: "log-outages", Run: jobs.Every(time.Second, p.outages.Flush),
			Failure: "cannot log the lines of an outage"}}},
		{Name: "platform/jobs", Metrics: batches.Metrics()},
		{Name: "platform/ratelimit", Jobs: budgets.Jobs(), Metrics: budgets.Metrics(),
			Tables:   []module.Table{{Name: "rate_limit_buckets"}, {Name: "rate_limit_nodes"}},
			Services: []module.Service{limiterService(budgets)}},
		{Name: "platform/idempotency", Jobs: idempotencyStore.Jobs(), Sealed: idempotency.SealedColumns(),
			Tables: []module.Table{{Name: "idempotency_keys", Outlives: "they expire within a day"}}},
		eventshttp.Module(eventStore, deliveryService, stream),
		deliveryService.ReportFanouts(deliverieshttp.Module(deliveryService, eventStore, subs)),
		evaluations.Module(),
		retentionWorker.Module(),
		replayshttp.Module(replayService),
		ingesthttp.Module(ingestService),
		store.Module(),
		rejectionshttp.Module(rejectionLog),
		stream.Module(),
		audithttp.Module(auditStore, ids.Team, ids.Principals),
		p.providers.Module(conns, conns.ProvidersChanged, directory.TypesChanged),
		cataloghttp.Module(actionCatalog, importer),
		pipeline.Module(),
		callloghttp.Module(callLog),
		executionshttp.Module(executionService),
		vault.Module(),
		providerLimits.Module(),
		configshttp.Module(configService, p.cfg.PublicURL),
		ofConfigs.configWatch().Extend(checks.Extend(connectionshttp.Module(conns, links, p.cfg.PublicURL)), conns),
		connectinghttp.Module(links, p.cfg.PublicURL, signinhttp.RefreshCookie{}.Token),
		connections.TokensModule(conns),
		subscriptionshttp.Module(subs),
		teamhttp.Module(ids.Team),
		membershttp.Module(ids.Members),
		accesstokenshttp.Module(ids.AccessTokens),
		signinhttp.Module(ids.SignIn),
		invitationshttp.Module(ids.Invitations),
		apikeyshttp.Module(ids.Keys),
		setuphttp.Module(ids.Setup),
		mail.Module(),
		ssohttp.Module(ssoService, signinhttp.RefreshCookie{}),
	}
	modules = append(modules, resealing.New(resealing.Config{DB: p.db, Clock: p.clock, Box: p.box, Logger: p.log,
		Modules: modules}).Module())
	for _, m := range modules {
		if m.ShiftTimes != nil {
			p.shifts = append(p.shifts, m.ShiftTimes)
		}
	}
	return &process{
		modules: modules, identity: ids, storing: store, fleet: others,
		api: httpapi.Config{Logger: p.log, Clock: p.clock, Auth: ids.Principals, Keys: ids.Keys,
			TrustedProxies: p.cfg.TrustedProxies, Limits: p.limits(budgets), Idempotency: idempotencyStore,
			LoopbackHostsOnly: p.cfg.Dev, OwnHost: p.cfg.PublicHost(), Observe: requests.Observe},
	}, nil
}

// eventTypes is what the definitions say about the types of events; nil without definitions.
func (p *parts) eventTypes() eventtypes.Source {
	if p.providers == nil {
		return nil
	}
	return p.providers
}

// limiterService shares the limits with other nodes: those of requests, and those of providers.
func limiterService(l *ratelimit.Limiter) module.Service {
	return module.Background("rate-limits", l.Run)
}

// limitClock is the clock of the limits. They are shared on PostgreSQL; on SQLite they are those of this process, and
// setting the machine's clock back must not keep requests out until it has caught up.
func (p *parts) limitClock() clock.Clock {
	if p.db.Engine() == db.SQLite {
		return clock.Counting(p.clock)
	}
	return p.clock
}

// limits are the limits of requests as they are configured.
func (p *parts) limits(limiter *ratelimit.Limiter) httpapi.Limits {
	limit := func(perSecond, burst int) ratelimit.Limit {
		return ratelimit.Limit{PerSecond: int64(perSecond), Burst: int64(burst)}
	}
	return httpapi.Limits{Limiter: limiter, Key: limit(p.cfg.RateLimitKeyPerSecond, p.cfg.RateLimitKeyBurst),
		User:    limit(p.cfg.RateLimitUserPerSecond, p.cfg.RateLimitUserBurst),
		Address: limit(p.cfg.RateLimitAddressPerSecond, p.cfg.RateLimitAddressBurst)}
}
