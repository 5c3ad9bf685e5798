package subscriptions

import (
	"context"
	"database/sql"
	"math"
	"net/url"
	"sync"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connections"
)

// Targets checks where requests may go. *egress.Client implements it.
type Targets interface {
	// ParseTarget checks a URL without resolving its name, and returns it parsed.
	ParseTarget(raw string) (*url.URL, *egress.TargetError)
	// CheckTarget is ParseTarget and also resolves the name; nil means acceptable.
	CheckTarget(ctx context.Context, raw string) *egress.TargetError
}

// Connections knows what a subscription can be restricted to. It reads from q, which can be a transaction.
type Connections interface {
	// Exists reports whether the environment has the connection under the provider configuration.
	Exists(ctx context.Context, q db.Querier, env id.Environment, providerConfigKey, connectionID string) (bool, error)
	// OfID returns the environment's connections of that id, one for each provider configuration.
	OfID(ctx context.Context, env id.Environment, connectionID string) ([]connections.Connection, error)
	// ProvidersInUse returns the slugs of the providers of which the environment has connections, sorted.
	ProvidersInUse(ctx context.Context, env id.Environment) ([]string, error)
	// ExistsUnderAnyKey reports whether the environment has a connection of that id under any provider configuration.
	ExistsUnderAnyKey(ctx context.Context, q db.Querier, env id.Environment, connectionID string) (bool, error)
}

// DeliveryControl applies the changes of a subscription to its deliveries, and knows how they go. Hold and Cancel run
// inside the transaction of the change and handle as many deliveries as a short transaction can; a worker handles the
// rest.
type DeliveryControl interface {
	// Hold holds the subscription's open deliveries, the first few hundred immediately.
	Hold(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string, now time.Time) error
	// Cancel cancels them in the same way.
	Cancel(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string, now time.Time) error
	// Renewed counts the attempts of the subscription again from now on, because it was enabled or has another URL. If its
	// deliveries are held because its receiver fails, the receiver is probed without delay.
	Renewed(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string, now time.Time) error
	// Health returns the health of the subscriptions at a time. Those without attempts may be missing.
	Health(ctx context.Context, env id.Environment, subscriptionIDs []string, now time.Time) (map[string]Health, error)
	// Changed is called after the commit. It wakes the worker that holds, cancels or releases the rest.
	Changed(subscriptionID string)
}

// Environments knows which environments exist.
type Environments interface {
	// RequireLive returns not_found for a removed environment. It is called in the transaction that adds to the
	// environment, after the insert, and prevents the removal of the environment before the commit.
	RequireLive(ctx context.Context, tx *sql.Tx, env id.Environment) error
}

// Config holds the dependencies of a Service.
type Config struct {
	DB           *db.DB
	Box          *secretbox.Box
	Clock        clock.Clock
	Targets      Targets
	Connections  Connections
	Configs      Configs
	Environments Environments
	// Deliveries applies the changes of subscriptions to their deliveries.
	Deliveries DeliveryControl
	// Emitters are called in the transactions in which the service itself changes a subscription.
	Emitters []Emitter
	// Directory can be shared with other capabilities; nil creates one.
	Directory *Directory
	// OwnTypes are all types of the gateway's own events; empty if patterns are not compared with them.
	OwnTypes []string
	// PublicURL is the scheme and host of this gateway. No subscription may lead there. If it is empty, nothing is
	// refused.
	PublicURL string
}

// Service stores subscriptions and finds those of an event. It is safe for concurrent use.
type Service struct {
	*Directory
	sealer
	cfg     Config
	own     origin
	targets cache.Cache[targetKey, *Target]

	refreshing sync.Mutex
	// seen is the version of the collection at the last Refresh that succeeded; negative before the first.
	seen int64
}

type targetKey struct {
	env id.Environment
	id  string
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Directory == nil {
		cfg.Directory = NewDirectory(cfg.DB, nil, cfg.Configs)
	}
	return &Service{Directory: cfg.Directory, sealer: sealer{cfg.Box}, cfg: cfg, own: originOf(cfg.PublicURL), seen: -1}
}

// Emitter emits events about the service's own changes of subscriptions.
type Emitter interface {
	// SubscriptionDisabled stores, in tx, the event that the service has disabled the subscription.
	SubscriptionDisabled(ctx context.Context, tx *sql.Tx, sub *Subscription) error
}

func notFound() error { return apperr.NotFound("webhook subscription") }

// Target returns what an attempt needs to know of the subscription, deleted or not. It reads from memory except after a
// change. An id that the environment never had is not_found.
func (s *Service) Target(ctx context.Context, env id.Environment, subscriptionID string) (*Target, error) {
	if !id.Is(id.PrefixSubscription, subscriptionID) {
		return nil, notFound()
	}
	return s.targets.Get(ctx, targetKey{env, subscriptionID}, func(ctx context.Context) (*Target, int64, error) {
		return s.loadTarget(ctx, env, subscriptionID)
	})
}

func (s *Service) loadTarget(ctx context.Context, env id.Environment, subscriptionID string) (*Target, int64, error) {
	version, err := collectionVersion(ctx, s.cfg.DB)
	if err != nil {
		return nil, 0, err
	}
	r, err := find(ctx, s.cfg.DB.Reserved(), access.Whole(env), subscriptionID, true)
	if err != nil {
		return nil, 0, err
	}
	t, err := s.target(r)
	return t, version, err
}

func (s *Service) target(r row) (*Target, error) {
	sub, err := s.open(r)
	if err != nil {
		return nil, err
	}
	secret, err := s.unseal(r.ID, columnSecret, r.sealedSecret)
	if err != nil {
		return nil, err
	}
	key, rule, _ := signingKey(secretbox.Secret(secret))
	if rule != "" {
		return nil, errStored(r.ID, columnSecret)
	}
	old, err := s.unsealRetiring(r, s.cfg.Clock.Now())
	if err != nil {
		return nil, err
	}
	retiring, err := keys(r.ID, old)
	if err != nil {
		return nil, err
	}
	u, refused := s.cfg.Targets.ParseTarget(sub.ForwardURL)
	t := &Target{
		ID: sub.ID, Environment: sub.Environment, URL: u, Refused: refused, RawURL: sub.ForwardURL, SigningKey: key,
		Retiring: retiring, Headers: sub.Headers, PayloadMode: sub.PayloadMode, Timeout: sub.Timeout,
		Schedule: make([]time.Duration, len(sub.RetrySchedule)), Enabled: sub.Enabled, Deleted: r.deletedAt != nil,
	}
	t.TypeOf = typeOf(slotsOf(s.types, sub.EventTypes, scope{}))
	for i, seconds := range sub.RetrySchedule {
		t.Schedule[i] = time.Duration(math.Round(seconds * float64(time.Second)))
	}
	return t, nil
}
