package subscriptions

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"net/url"
	"slices"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/webhooks/filters"
)

// Targets checks where requests may go. *egress.Client is one.
type Targets interface {
	// ParseTarget checks a URL without looking its name up and returns it parsed.
	ParseTarget(raw string) (*url.URL, *egress.TargetError)
	// CheckTarget is the same check and a look-up of the name; nil means acceptable.
	CheckTarget(ctx context.Context, raw string) *egress.TargetError
}

// Connections tells what a subscription may be narrowed to.
type Connections interface {
	// ConfigKeyExists reports whether the environment has the provider configuration.
	ConfigKeyExists(env id.Environment, providerConfigKey string) bool
	// Exists reports whether the environment has the connection under the provider configuration.
	Exists(ctx context.Context, env id.Environment, providerConfigKey, connectionID string) (bool, error)
	// ExistsUnderAnyKey reports whether the environment has a connection of that id under any provider configuration.
	ExistsUnderAnyKey(ctx context.Context, env id.Environment, connectionID string) (bool, error)
}

// DeliveryControl tells deliveries that their subscription has changed. Hold and Cancel run inside the transaction of
// the change and treat what a short transaction can; Changed lets the rest follow.
type DeliveryControl interface {
	// Hold holds the subscription's open deliveries, the first few hundred at once.
	Hold(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string, now time.Time) error
	// Cancel cancels them in the same way.
	Cancel(ctx context.Context, tx *sql.Tx, env id.Environment, subscriptionID string, now time.Time) error
	// Changed is called after the commit: it wakes the worker that holds, cancels or releases the rest.
	Changed()
}

// Environments tells whether an environment is still there.
type Environments interface {
	// RequireLive returns not_found for an environment that was removed. It is called in the transaction that adds
	// something to the environment, after the insert, and keeps the environment from being removed before the commit.
	RequireLive(ctx context.Context, tx *sql.Tx, env id.Environment) error
}

// Config is what a Service needs.
type Config struct {
	DB           *db.DB
	Box          *secretbox.Box
	Clock        clock.Clock
	Targets      Targets
	Connections  Connections
	Environments Environments
	// PublicURL is the scheme and host under which this gateway is reached. No subscription may lead there. Empty refuses
	// nothing.
	PublicURL string
}

// Service keeps subscriptions and finds those of an event. It is safe for concurrent use.
type Service struct {
	cfg        Config
	own        origin
	deliveries DeliveryControl
	announcer  Announcer
	indexes    cache[id.Environment, *index]
	filters    filterCache
	targets    cache[targetKey, *Target]
}

type targetKey struct {
	env id.Environment
	id  string
}

// New returns a Service. Control must be called before the first change.
func New(cfg Config) *Service { return &Service{cfg: cfg, own: originOf(cfg.PublicURL)} }

// Announcer stores the gateway's own events about subscriptions, in the transaction of what they tell of.
type Announcer interface {
	// SubscriptionDisabled tells that the service has disabled the subscription.
	SubscriptionDisabled(ctx context.Context, tx *sql.Tx, sub *Subscription) error
}

// Announce names who tells of what the service does to subscriptions; without it nobody does. It is called once, while
// the process is put together.
func (s *Service) Announce(a Announcer) { s.announcer = a }

// Control names who is told about changes. It is apart from New because deliveries themselves need the Service, and is
// called once, while the process is put together.
func (s *Service) Control(d DeliveryControl) { s.deliveries = d }

var errNoControl = errors.New("subscriptions: Control was not called")

func notFound() error { return apperr.NotFound("webhook subscription") }

// Match returns the subscriptions of the environment that any of the event types matches, each once, in the order of
// their ids, paused ones too, and whatever their filters say. It answers from memory except after a change. A
// subscription whose creation was answered before the call is among them; on other processes after their next Refresh.
func (s *Service) Match(ctx context.Context, env id.Environment, providerConfigKey, connectionID string,
	types []string) ([]Matched, error) {
	x, err := s.index(ctx, env)
	if err != nil {
		return nil, err
	}
	return x.match(scope{providerConfigKey, connectionID}, types), nil
}

// Filters returns the filters of what Match returns, each once. Where no subscription of the environment has one, that
// costs a look into a map.
func (s *Service) Filters(ctx context.Context, env id.Environment, providerConfigKey, connectionID string,
	types []string) ([]*filters.Filter, error) {
	x, err := s.index(ctx, env)
	if err != nil || !x.filtered {
		return nil, err
	}
	var found []*filters.Filter
	for _, m := range x.match(scope{providerConfigKey, connectionID}, types) {
		if m.Filter != nil && !slices.Contains(found, m.Filter) {
			found = append(found, m.Filter)
		}
	}
	return found, nil
}

// MatchOwn is Match for an event of the gateway's own, which only patterns take that name the first segment of its
// type.
func (s *Service) MatchOwn(ctx context.Context, env id.Environment, providerConfigKey, connectionID,
	eventType string) ([]Matched, error) {
	x, err := s.index(ctx, env)
	if err != nil {
		return nil, err
	}
	return x.matchOwn(scope{providerConfigKey, connectionID}, eventType), nil
}

// WantsOwn reports whether a subscription of the environment has a pattern for events of the gateway's own.
func (s *Service) WantsOwn(ctx context.Context, env id.Environment) (bool, error) {
	x, err := s.index(ctx, env)
	return err == nil && x.wantsOwn(), err
}

func (s *Service) index(ctx context.Context, env id.Environment) (*index, error) {
	return s.indexes.get(ctx, env, func(ctx context.Context) (*index, int64, error) { return s.loadIndex(ctx, env) })
}

// Target returns what a try needs to know of the subscription, deleted or not. It answers from memory except after a
// change. An id that the environment never had is not_found.
func (s *Service) Target(ctx context.Context, env id.Environment, subscriptionID string) (*Target, error) {
	if !id.Is(id.PrefixSubscription, subscriptionID) {
		return nil, notFound()
	}
	return s.targets.get(ctx, targetKey{env, subscriptionID}, func(ctx context.Context) (*Target, int64, error) {
		return s.loadTarget(ctx, env, subscriptionID)
	})
}

// Refresh drops what another process has changed. A worker calls it every second.
func (s *Service) Refresh(ctx context.Context) error {
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	s.indexes.dropOthers(version)
	s.targets.dropOthers(version)
	return nil
}

// changed drops what this process knows of the subscription. It runs after every change, and after one whose commit
// failed too, because a commit whose answer was lost may have happened.
func (s *Service) changed(env id.Environment, subscriptionID string) {
	s.indexes.drop(env)
	s.targets.drop(targetKey{env, subscriptionID})
	s.deliveries.Changed()
}

func (s *Service) version(ctx context.Context) (int64, error) {
	versions, err := s.cfg.DB.Versions(ctx)
	return versions[Collection], err
}

func (s *Service) loadIndex(ctx context.Context, env id.Environment) (*index, int64, error) {
	version, err := s.version(ctx)
	if err != nil {
		return nil, 0, err
	}
	entries, err := readEntries(ctx, s.cfg.DB.Read(), env, s.filters.get)
	if err != nil {
		return nil, 0, err
	}
	return newIndex(entries), version, nil
}

func (s *Service) loadTarget(ctx context.Context, env id.Environment, subscriptionID string) (*Target, int64, error) {
	version, err := s.version(ctx)
	if err != nil {
		return nil, 0, err
	}
	r, err := find(ctx, s.cfg.DB.Read(), access.Whole(env), subscriptionID, true)
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
		Schedule: make([]time.Duration, len(sub.RetrySchedule)), Enabled: sub.Enabled, Deleted: r.deleted,
	}
	for i, seconds := range sub.RetrySchedule {
		t.Schedule[i] = time.Duration(math.Round(seconds * float64(time.Second)))
	}
	return t, nil
}
