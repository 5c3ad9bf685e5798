package app

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sallyport/internal/identity/audit/audithttp"
	"sallyport/internal/identity/identityhttp"
	"sallyport/internal/identity/sso/ssohttp"
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/jobs"
	"sallyport/internal/platform/module"
	"sallyport/internal/providers/connections/connectionshttp"
	"sallyport/internal/webhooks/deliveries/deliverieshttp"
	"sallyport/internal/webhooks/events/eventshttp"
	"sallyport/internal/webhooks/ingest/ingesthttp"
	"sallyport/internal/webhooks/rejections/rejectionshttp"
	"sallyport/internal/webhooks/replays/replayshttp"
	"sallyport/internal/webhooks/subscriptions/subscriptionshttp"
)

// modules returns what runs, in the order of its start. Requests come last and end first.
func (a *App) modules() []module.Module {
	return []module.Module{
		a.databaseModule(),
		{Name: "platform/ratelimit", Jobs: a.limiter.Jobs(),
			Services: []module.Service{module.Background("rate-limits", a.limiter.Run)}},
		{Name: "platform/idempotency", Jobs: a.idempotency.Jobs(), Sealed: idempotency.SealedColumns()},
		eventshttp.Module(a.events, a.deliveries, a.stream),
		deliverieshttp.Module(a.deliveries, a.events, a.subscriptions),
		a.retention.Module(),
		replayshttp.Module(a.replays),
		ingesthttp.Module(a.ingest),
		rejectionshttp.Module(a.rejections),
		a.stream.Module(),
		audithttp.Module(a.audit, a.store.Identity),
		subscriptionshttp.Module(a.subscriptions),
		a.definitionsModule(),
		connectionshttp.Module(a.connections, a.cfg.PublicURL),
		identityhttp.Module(a.store.Identity),
		a.mails.Module(),
		ssohttp.Module(a.sso, identityhttp.RefreshCookie{}),
		a.serverModule(),
	}
}

const (
	// SQLite's write-ahead log is copied often while it grows fast, and seldom otherwise.
	checkpointBusy = 250 * time.Millisecond
	checkpointIdle = 2 * time.Second
	// clockInterval is how often the database's clock is compared.
	clockInterval = 10 * time.Second
)

func (a *App) databaseModule() module.Module {
	m := module.Module{Name: "platform/db"}
	if a.cfg.SQLite() {
		m.Jobs = []jobs.Periodic{{Name: "checkpoint", Failure: "cannot checkpoint the database",
			Run: func(ctx context.Context) (time.Duration, error) {
				long, err := a.store.DB.Checkpoint(ctx)
				if long {
					return checkpointBusy, err
				}
				return checkpointIdle, err
			}}}
		return m
	}
	m.Jobs = []jobs.Periodic{{Name: "compare-clock", Failure: "cannot go by the database's clock",
		Run: jobs.Every(clockInterval, func(ctx context.Context) error {
			if err := a.clock.Sync(ctx); err != nil {
				return err
			}
			return a.clock.Check()
		})}}
	return m
}

// definitionsInterval is how often the folder of provider definitions is looked at.
const definitionsInterval = time.Second

// definitionsModule brings changed definitions into force, here and in the verifiers that were made from the old ones.
func (a *App) definitionsModule() module.Module {
	m := module.Module{Name: "providers/registry"}
	if a.cfg.ProvidersDir != "" {
		m.Jobs = []jobs.Periodic{{Name: "refresh-definitions",
			Run: func(ctx context.Context) (time.Duration, error) {
				if a.providers.Refresh(ctx, a.connections) {
					a.connections.ProvidersChanged()
				}
				return definitionsInterval, nil
			}}}
	}
	return m
}

// serverModule takes requests. Somebody has to be able to get in before the first of them.
func (a *App) serverModule() module.Module {
	return module.Module{Name: "platform/httpserver", Services: []module.Service{
		{Name: "public-listener", Start: a.public.Listen, Drain: a.public.Shutdown},
		{Name: "admin-listener", Start: a.admin.Listen, Drain: a.admin.Shutdown},
		{Name: "first-people", Start: a.ensurePeople},
		{Name: "requests", Start: func(ctx context.Context) error {
			a.ready.Store(true)
			a.public.Serve(ctx)
			a.admin.Serve(ctx)
			return nil
		}},
	}}
}

// adminHandler serves metrics, profiles and health with its reasons. It is for operators and asks for no credential,
// which is why its listener is off unless set.
func (a *App) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics.Registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		status, text := http.StatusOK, "ready\n"
		if err := a.readiness(r.Context()); err != nil {
			status, text = http.StatusServiceUnavailable, err.Error()+"\n"
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text)) // the client is gone when this fails
	})
	return mux
}
