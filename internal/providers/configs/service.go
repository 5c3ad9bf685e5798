package configs

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"reflect"
	"sync"
	"time"

	"sallyport/internal/identity/audit"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/registry"
)

// Providers returns the present definition of a provider.
type Providers interface {
	// Find returns the definition that a slug has in an environment, which may have definitions of its own.
	Find(env id.Environment, slug string) (*registry.Provider, bool)
	// All returns all providers of an environment, sorted by slug.
	All(env id.Environment) []*registry.Provider
}

// Imports knows the providers that environments have defined.
type Imports interface {
	// Hold reports whether the environment has a provider, and keeps it from being removed until the transaction ends.
	Hold(ctx context.Context, tx *sql.Tx, env id.Environment, slug string) (bool, error)
	// Latest makes Providers know what other processes have defined a moment ago.
	Latest(ctx context.Context, env id.Environment) error
}

// Hosts knows where the APIs of providers are.
type Hosts interface {
	// HostsOf reports whether the provider's definition says how its API is called. allowed then reports whether the
	// definition allows an https or http URL.
	HostsOf(env id.Environment, slug string) (known bool, allowed func(*url.URL) bool)
}

// Clients knows which providers are called with an OAuth client.
type Clients interface {
	// UsesClient reports whether the provider's definition has a mode that needs an OAuth client.
	UsesClient(env id.Environment, slug string) bool
}

// Targets checks where requests may go. *egress.Client implements it.
type Targets interface {
	// ParseTarget checks a URL without resolving its name, and returns it parsed.
	ParseTarget(raw string) (*url.URL, *egress.TargetError)
	// CheckTarget is ParseTarget and also resolves the name; nil means acceptable.
	CheckTarget(ctx context.Context, raw string) *egress.TargetError
}

// Environments reports whether an environment still exists.
type Environments interface {
	// RequireLive returns not_found for a deleted environment. It is called in the transaction that adds a row to the
	// environment, after the insert, and keeps the environment from being deleted before the commit.
	RequireLive(ctx context.Context, tx *sql.Tx, env id.Environment) error
}

// AccessChange says that a configuration has another OAuth client or base URL. Tokens of the former client are of no
// use to the new one, and credentials belong to the hosts for which they were given.
type AccessChange struct {
	Environment id.Environment
	Key         string
	Provider    string
	// Before and After are the ids of the clients, which are the same if the base URL has changed; empty for none.
	Before, After string
}

// AccessHook is called in the transaction that gives a configuration another client or base URL. An error undoes the
// transaction.
type AccessHook func(ctx context.Context, tx *sql.Tx, change AccessChange) error

// UseCounter returns how many resources of the environment belong to a configuration. It is called in the transaction
// that deletes the configuration, which no one else can use meanwhile.
type UseCounter func(ctx context.Context, q db.Querier, env id.Environment, key string) (int, error)

// Options configure a Service.
type Options struct {
	DB           *db.DB
	Clock        clock.Clock
	Box          *secretbox.Box
	Providers    Providers
	Environments Environments
	// Targets is the policy of outgoing requests.
	Targets Targets
	// Hosts and Clients are the outbound halves of the definitions. Without them no base URL, rate limit or OAuth client
	// is accepted.
	Hosts   Hosts
	Clients Clients
	// RateLimits reports that requests obey rate limits. Without it none is accepted.
	RateLimits bool
	// Imports knows the providers that environments have defined; nil if there are none.
	Imports Imports
	// Connections counts the connections of a configuration.
	Connections UseCounter
	// OnAccessChange is for those who keep credentials.
	OnAccessChange []AccessHook
}

// Service applies the rules of provider configurations. It is safe for concurrent use. It returns validation errors
// with the locations of the HTTP body.
type Service struct {
	sealer
	db           *db.DB
	clock        clock.Clock
	providers    Providers
	environments Environments
	targets      Targets
	hosts        Hosts
	clients      Clients
	rateLimits   bool
	imports      Imports
	connections  UseCounter
	onAccess     []AccessHook

	// known holds the configurations of each environment.
	known      cache.Cache[id.Environment, *snapshot]
	refreshing sync.Mutex
	// seen is the version of the collection at the last Refresh that succeeded; negative before the first.
	seen int64
}

// New returns a Service with an empty cache.
func New(o Options) *Service {
	return &Service{sealer: sealer{o.Box}, db: o.DB, clock: o.Clock, providers: o.Providers,
		environments: o.Environments, targets: o.Targets, hosts: o.Hosts, clients: o.Clients, rateLimits: o.RateLimits,
		connections: o.Connections, imports: o.Imports,
		onAccess: o.OnAccessChange, seen: -1,
		known: cache.Cache[id.Environment, *snapshot]{Max: maxCached}}
}

func notFound() error { return apperr.NotFound("provider configuration") }

// Get returns a stored configuration of the environment, or not_found.
func (s *Service) Get(ctx context.Context, env id.Environment, key string) (Config, error) {
	if !ValidKey(key) {
		return Config{}, notFound()
	}
	c, found, err := find(ctx, s.db.Read(), env, key)
	if err == nil && !found {
		err = notFound()
	}
	return c, err
}

// List returns one page of the environment's configurations, and one row more if another page follows. The key of a
// page is the ID, so newest first is the order of creation.
func (s *Service) List(ctx context.Context, env id.Environment, f Filter, p page.Request) ([]Config, error) {
	if f.Prefix != "" && !hasKeyCharacters(f.Prefix) {
		return []Config{}, nil
	}
	return list(ctx, s.db.Read(), env, f, p)
}

// Create stores a configuration in the actor's environment. Besides validation errors it returns
// provider_config_exists, and provider_configs_limit if the environment has no room.
func (s *Service) Create(ctx context.Context, actor access.Principal, in NewConfig) (Config, error) {
	var v apperr.Violations
	key, provider := s.checkIdentity(&v, actor.Environment, &in)
	now := s.now()
	c := in.apply(Config{ID: id.NewUUID(), Environment: actor.Environment, Key: key, Provider: in.Provider,
		CreatedAt: now, UpdatedAt: now})
	p := proposal{change: &in.Change, next: &c, secret: in.ClientSecret.Given(), key: in.PrivateKey.Given()}
	p.check(&v)
	if provider != nil {
		s.checkProvider(ctx, &v, actor.Environment, in.Provider, &in.Change)
	}
	if err := v.Err(); err != nil {
		return Config{}, err
	}
	if err := s.seal(&c, &in.Change); err != nil {
		return Config{}, err
	}
	return c, s.change(ctx, actor.Environment, func(tx *sql.Tx) error {
		if err := checkLowering(actor, nil, &c); err != nil {
			return err
		}
		if held, err := s.holdProvider(ctx, tx, actor.Environment, c.Provider); err != nil || !held {
			return cmp.Or(err, errGone())
		}
		inserted, err := insert(ctx, tx, &c)
		if err != nil {
			return err
		}
		if !inserted {
			return apperr.New(apperr.CodeProviderConfigExists, "The environment already has a provider configuration with "+
				"this key")
		}
		n, err := count(ctx, tx, actor.Environment)
		switch {
		case err != nil:
			return err
		case n > MaxConfigs:
			return apperr.New(apperr.CodeProviderConfigsLimit,
				fmt.Sprintf("The environment has %d provider configurations, which is as many as it may have", MaxConfigs))
		}
		if err := s.environments.RequireLive(ctx, tx, actor.Environment); err != nil {
			return err
		}
		return s.record(ctx, tx, actor, actionCreate, nil, &c)
	})
}

// Update changes a configuration of the actor's environment. Besides validation errors it returns not_found.
func (s *Service) Update(ctx context.Context, actor access.Principal, key string, ch Change) (Config, error) {
	// The provider never changes, and the name of a URL is not resolved while a row is locked.
	stored, err := s.Get(ctx, actor.Environment, key)
	if err != nil {
		return Config{}, err
	}
	var ofProvider apperr.Violations
	s.checkProvider(ctx, &ofProvider, stored.Environment, stored.Provider, &ch)
	var after Config
	err = s.editLocked(ctx, actor, key, func(tx *sql.Tx, before *Config) error {
		if before.Provider != stored.Provider {
			return notFound() // that one was deleted meanwhile
		}
		after = ch.apply(*before)
		p := proposal{change: &ch, next: &after, secret: leaves(ch.ClientSecret, &ch, before.HasSecret()),
			key: leaves(ch.PrivateKey, &ch, before.HasPrivateKey())}
		var v apperr.Violations
		p.check(&v)
		p.checkMove(&v, before)
		v.AddAll(ofProvider.Details())
		if err := v.Err(); err != nil {
			return err
		}
		if err := checkLowering(actor, before, &after); err != nil {
			return err
		}
		if err := s.seal(&after, &ch); err != nil {
			return err
		}
		if reflect.DeepEqual(*before, after) {
			return nil
		}
		after.UpdatedAt = clock.After(s.now(), before.UpdatedAt)
		if err := update(ctx, tx, before, &after); err != nil {
			return err
		}
		return s.record(ctx, tx, actor, actionUpdate, before, &after)
	})
	if err != nil {
		return Config{}, err
	}
	return after, nil
}

// leaves reports whether a change leaves a secret in place or sets one.
func leaves(secret patch.Field[secretbox.Secret], ch *Change, stored bool) bool {
	switch {
	case secret.Set:
		return !secret.Null
	case ch.clears():
		return false
	default:
		return stored
	}
}

// Delete removes a configuration of the actor's environment. It returns not_found, and provider_config_in_use if it has
// connections.
func (s *Service) Delete(ctx context.Context, actor access.Principal, key string) error {
	return s.editLocked(ctx, actor, key, func(tx *sql.Tx, c *Config) error {
		n, err := s.connections(ctx, tx, c.Environment, c.Key)
		switch {
		case err != nil:
			return err
		case n > 0:
			return inUse(n)
		}
		if err := remove(ctx, tx, c); err != nil {
			return err
		}
		return s.record(ctx, tx, actor, actionDelete, c, nil)
	})
}

func inUse(connections int) error {
	message := "1 connection belongs to the provider configuration; delete it first"
	if connections != 1 {
		message = fmt.Sprintf("%d connections belong to the provider configuration; delete them first", connections)
	}
	return apperr.New(apperr.CodeProviderConfigInUse, message)
}

// editLocked runs fn on a configuration of the actor's environment, in the version that the request is for, and that no
// other request can change meanwhile.
func (s *Service) editLocked(ctx context.Context, actor access.Principal, key string,
	fn func(*sql.Tx, *Config) error) error {
	if !ValidKey(key) {
		return notFound()
	}
	return s.change(ctx, actor.Environment, func(tx *sql.Tx) error {
		c, found, err := lock(ctx, tx, actor.Environment, key)
		switch {
		case err != nil:
			return err
		case !found:
			return notFound()
		}
		if err := etag.Check(ctx, c.Version()); err != nil {
			return err
		}
		return fn(tx, &c)
	})
}

// change runs a transaction about the configurations of an environment, and drops them from memory even if it failed: a
// commit whose result was lost may have taken effect.
func (s *Service) change(ctx context.Context, env id.Environment, fn func(*sql.Tx) error) error {
	defer s.known.Drop(env)
	return s.db.Tx(ctx, fn)
}

func (s *Service) now() time.Time { return clock.FromMillis(clock.Millis(s.clock.Now())) }

// Actions of the audit trail.
const (
	actionCreate = "provider_config.create"
	actionUpdate = "provider_config.update"
	actionDelete = "provider_config.delete"
)

// record writes the audit event of a change, calls the hooks, and raises the version that caches watch, all in the
// transaction of the change. before is nil for a new configuration and after for a deleted one.
func (s *Service) record(ctx context.Context, tx *sql.Tx, actor access.Principal, action string, before,
	after *Config) error {
	c, change, moved := after, AccessChange{}, false
	if after != nil {
		change.After, moved = after.ClientID, after.BaseURL != ""
	}
	if before != nil {
		c, change.Before, moved = before, before.ClientID, before.BaseURL != ""
	}
	if before != nil && after != nil {
		moved = before.BaseURL != after.BaseURL
	}
	err := audit.Record(ctx, tx, s.clock.Now(), audit.Event{
		Team: actor.Team, Environment: c.Environment, Actor: actor, Action: action, TargetType: "provider_config",
		TargetID: c.Key, Before: before.state(), After: after.state(),
	})
	if err != nil {
		return err
	}
	if change.Before != change.After || moved {
		change.Environment, change.Key, change.Provider = c.Environment, c.Key, c.Provider
		for _, hook := range s.onAccess {
			if err := hook(ctx, tx, change); err != nil {
				return err
			}
		}
	}
	return db.Bump(ctx, tx, collection, string(c.Environment))
}

// state is the configuration as the audit trail shows it: of its secrets only whether there are any.
func (c *Config) state() audit.State {
	if c == nil {
		return nil
	}
	return audit.State{
		"provider_config_key": c.Key, "provider": c.Provider, "display_name": c.DisplayName, "oauth.client_id": c.ClientID,
		"oauth.client_secret": hidden(c.sealedSecret), "oauth.private_key": hidden(c.sealedKey),
		"oauth.private_key_id": c.KeyID, "oauth.hosts": c.ClientHosts,
		"scopes":   c.Scopes,
		"base_url": c.BaseURL, "rate_limit": c.RateLimit,
		"actions.include": c.Include, "actions.exclude": c.Exclude, "risk.overrides": c.Risk,
	}
}

func hidden(sealed []byte) audit.Hidden {
	out := audit.Hidden{Value: string(sealed)}
	if len(sealed) > 0 {
		out.Shown = secretbox.Redacted
	}
	return out
}
