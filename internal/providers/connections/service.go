package connections

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/etag"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/limiter"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/tokens"
	"sallyport/internal/providers/verification"
)

// Environments reports whether an environment still exists.
type Environments interface {
	// RequireLive returns not_found for a deleted environment. It is called in the transaction that adds a row to the
	// environment, after the insert, and keeps the environment from being deleted before the commit.
	RequireLive(ctx context.Context, tx *sql.Tx, env id.Environment) error
}

// Config configures a Service. Keyring and the hooks are optional.
type Config struct {
	DB           *db.DB
	Clock        clock.Clock
	Box          *secretbox.Box
	Providers    Providers
	Environments Environments
	// Configs knows the provider configurations. Without them no connection can be created.
	Configs *configs.Service
	// Keyring holds the keys that providers publish; nil refuses webhooks that need them.
	Keyring *verification.Keyring
	Logger  *slog.Logger
	// DedupeWindow is how long bodies are compared where the connection sets nothing.
	DedupeWindow time.Duration
	Vault        *credentials.Vault
	Prober       *probes.Prober
	// Protocol gets tokens. Without it no credentials can be stored that are exchanged for tokens.
	Protocol *tokens.Protocol
	// Limits keeps tests within the limits of providers.
	Limits *limiter.Limiter
	// Addresses checks the hosts that settings choose, when they are stored. The egress policy checks every request again.
	Addresses Addresses
	// AllowHTTP accepts addresses of providers that begin with http://, as far as the egress policy allows them.
	AllowHTTP bool
	OnDelete  []DeleteHook
	OnChange  []ChangeHook
}

// DeleteHook is called in the transaction that deletes a connection. An error undoes the transaction.
type DeleteHook func(ctx context.Context, tx *sql.Tx, connectionUUID string) error

// ChangeHook is called in the transaction that creates, changes or deletes a connection. An error undoes the
// transaction.
type ChangeHook func(ctx context.Context, tx *sql.Tx, c *Connection, change ChangeKind) error

// Service applies the rules of connections. It is safe for concurrent use. It returns validation errors with the
// locations of the HTTP body.
type Service struct {
	db           *db.DB
	clock        clock.Clock
	providers    Providers
	environments Environments
	configs      *configs.Service
	secrets      secretStore
	enrolments   enrolmentStore
	auth         authenticator
	tester       *Tester

	loader       loader
	dedupeWindow time.Duration
	named        named
	addressed    addressed
	// inbound holds the snapshots by the UUID of the connection.
	inbound    cache.Cache[string, variants]
	refreshing sync.Mutex
	// seen is the version of the stored connections at the last Refresh that succeeded; negative before the first.
	seen     int64
	matches  matches
	onDelete []DeleteHook
	onChange []ChangeHook
}

// New returns a Service with an empty cache.
func New(cfg Config) (*Service, error) {
	refusing, err := newRefusing()
	if err != nil {
		return nil, err
	}
	secrets := secretStore{cfg.Box}
	s := &Service{
		db: cfg.DB, clock: cfg.Clock, providers: cfg.Providers, environments: cfg.Environments, secrets: secrets,
		configs:    cfg.Configs,
		enrolments: enrolmentStore{cfg.Box}, auth: authenticator{providers: cfg.Providers, vault: cfg.Vault,
			prober: cfg.Prober, configs: cfg.Configs, limits: cfg.Limits, addresses: cfg.Addresses, allowHTTP: cfg.AllowHTTP,
			clock: cfg.Clock, protocol: cfg.Protocol},
		inbound: cache.Cache[string, variants]{Max: maxCached}, seen: -1,
		loader: loader{read: cfg.DB.Reserved(), paths: cfg.DB.Read(), providers: cfg.Providers, secrets: secrets,
			keyring: cfg.Keyring, log: cfg.Logger, refusing: refusing},
		dedupeWindow: cfg.DedupeWindow, onDelete: cfg.OnDelete, onChange: cfg.OnChange,
	}
	s.auth.tokens = tokens.New(tokens.Config{DB: cfg.DB, Clock: cfg.Clock, Vault: cfg.Vault, Protocol: cfg.Protocol,
		Accounts: accounts{s}, Logger: cfg.Logger})
	s.tester = &Tester{svc: s}
	return s, nil
}

// Get returns a connection that the view shows, or not_found.
func (s *Service) Get(ctx context.Context, v access.View, providerConfigKey, connectionID string) (Connection, error) {
	if !possible(providerConfigKey, connectionID) || !v.Connections.Contains(connectionID) {
		return Connection{}, notFound()
	}
	c, err := find(ctx, s.db.Read(), v.Environment, providerConfigKey, connectionID)
	if err != nil {
		return Connection{}, err
	}
	return c, s.auth.describe(ctx, s.db.Read(), v.Environment, &c)
}

// List returns one page of the connections that the view shows, and one row more if another page follows. The key of a
// page is the UUID, so newest first is the order of creation.
func (s *Service) List(ctx context.Context, v access.View, f Filter, p page.Request) ([]Connection, error) {
	keys := slices.DeleteFunc(slices.Clone(f.ProviderConfigKeys), func(key string) bool {
		return !configs.ValidKey(key)
	})
	if len(keys) == 0 && len(f.ProviderConfigKeys) > 0 || f.Prefix != "" && !hasNameForm(f.Prefix) {
		return []Connection{}, nil
	}
	if slices.ContainsFunc(f.Tags, func(t Tag) bool { return !validTagKey(t.Key) || !db.Storable(t.Value) }) {
		return []Connection{}, nil
	}
	f.ProviderConfigKeys = keys
	found, err := list(ctx, s.db.Read(), v, f, p)
	if err != nil {
		return nil, err
	}
	pointers := make([]*Connection, len(found))
	for i := range found {
		pointers[i] = &found[i]
	}
	return found, s.auth.describe(ctx, s.db.Read(), v.Environment, pointers...)
}

// Update changes a connection of the actor's environment.
func (s *Service) Update(ctx context.Context, actor access.Principal, providerConfigKey, connectionID string,
	ch Change) (Connection, error) {
	if ch.changesAuth() {
		// Requests of this process take turns, so that each sends its credentials once.
		unlock, err := s.auth.turns.lock(ctx, string(actor.Environment)+"/"+providerConfigKey+"/"+connectionID)
		if err != nil {
			return Connection{}, err
		}
		defer unlock()
	}
	for range maxRaces {
		c, err := ch.make(ctx, s, actor, providerConfigKey, connectionID)
		if !errors.Is(err, errMoved) {
			return c, err
		}
	}
	return Connection{}, apperr.Wrap(apperr.CodePreconditionFailed,
		"Other requests have changed the connection meanwhile; try again", errMoved)
}

// maxRaces is how often a change whose credentials are tested is made, because the connection may have changed
// meanwhile.
const maxRaces = 2

var errMoved = errors.New("the connection has changed since its credentials were tested")

// make makes the change to a connection. It returns errMoved if the connection has changed while its credentials were
// tested.
func (ch *Change) make(ctx context.Context, s *Service, actor access.Principal, providerConfigKey,
	connectionID string) (Connection, error) {
	var v apperr.Violations
	var seen Connection
	var auth *authChange
	if ch.changesAuth() {
		var err error
		if seen, err = s.Get(ctx, actor.View(), providerConfigKey, connectionID); err != nil {
			return Connection{}, err
		}
		if ch.Within == nil { // the page of a link looks at its member in the transaction
			if err := seen.requireOwner(actor); err != nil {
				return Connection{}, err
			}
		}
		if err := etag.Check(ctx, seen.Version()); err != nil {
			return Connection{}, err
		}
		provider, _ := s.providers.Find(seen.Environment, seen.Provider)
		if auth, err = s.auth.prepare(ctx, &v, provider, &seen, ch); err != nil {
			return Connection{}, err
		}
		if auth != nil && auth.store != nil {
			ch.pinned = auth.pinned
		}
	}
	now := s.now()
	return s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(e edit, current Connection) (Connection,
		error) {
		if ch.changesAuth() && (current.UUID != seen.UUID || !current.UpdatedAt.Equal(seen.UpdatedAt)) {
			return Connection{}, errMoved
		}
		return s.update(ctx, e, current, ch, auth, v)
	})
}

// update makes a change to a locked connection. v has the errors that were found before.
func (s *Service) update(ctx context.Context, e edit, current Connection, ch *Change, auth *authChange,
	v apperr.Violations) (Connection, error) {
	next := ch.apply(current)
	provider, _ := s.providers.Find(current.Environment, current.Provider)
	p := proposal{change: ch, next: &next, provider: provider}
	if ch.Params.Set && !ch.Secret.Set {
		stored, err := s.secrets.open(ctx, e.tx, current.UUID)
		if err != nil {
			return Connection{}, err
		}
		for i := range stored {
			stored[i].ID = "the stored secret"
		}
		p.stored = stored
	}
	if err := p.check(&v); err != nil {
		return Connection{}, err
	}
	if err := v.Err(); err != nil {
		return Connection{}, err
	}
	if !differs(&current, &next, ch, auth) {
		return current, nil
	}
	var err error
	if e.kinds, err = auth.apply(ctx, &s.auth, e.tx, &next, e.now); err != nil {
		return Connection{}, err
	}
	e.onlyKinds = connects(e.kinds) && !differs(&current, &next, ch, nil)
	if err := ch.within(ctx, e.tx, &current, &next); err != nil {
		return Connection{}, err
	}
	if err := moveAlias(ctx, e.tx, &current, ch.Alias, e.now); err != nil {
		return Connection{}, err
	}
	if ch.Secret.Set {
		if err := s.secrets.replace(ctx, e.tx, current.UUID, ch.Secret, e.now); err != nil {
			return Connection{}, err
		}
	}
	return e.write(ctx, &next, actionUpdate, ch.Details)
}

// reasonDisabled is the status reason of a connection that a caller disabled.
const reasonDisabled = "Disabled by request"

// SetStatus enables or disables a connection of the actor's environment. The status it has already changes nothing.
func (s *Service) SetStatus(ctx context.Context, actor access.Principal, providerConfigKey, connectionID string,
	status Status) (Connection, error) {
	now := s.now()
	return s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(e edit, c Connection) (Connection, error) {
		if c.Status == status {
			return c, nil
		}
		if status != Disabled && c.Status != Disabled {
			return c, nil
		}
		if c.StatusReason == reasonOwnerDisabled {
			return Connection{}, apperr.New(apperr.CodeConnectionNotReady, OwnerDisabled)
		}
		action := actionEnable
		c.Status, c.StatusReason = c.EnabledStatus, c.EnabledReason
		if status == Disabled {
			action, c.Status, c.StatusReason = actionDisable, Disabled, reasonDisabled
		} else if err := s.auth.resume(ctx, e.tx, &c); err != nil {
			return Connection{}, err
		}
		return e.write(ctx, &c, action, nil)
	})
}

// RotatePath gives a connection of the actor's environment another path token. The old webhook URL stops working
// immediately.
func (s *Service) RotatePath(ctx context.Context, actor access.Principal, providerConfigKey,
	connectionID string) (Connection, error) {
	now := s.now()
	return s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(e edit, c Connection) (Connection, error) {
		c.PathToken = id.NewRandom(id.PrefixPathToken)
		return e.write(ctx, &c, actionRotatePath, nil)
	})
}

// Delete removes a connection of the actor's environment with its secrets, and releases its alias. Its events stay.
func (s *Service) Delete(ctx context.Context, actor access.Principal, providerConfigKey, connectionID string) error {
	now := s.now()
	_, err := s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(e edit, c Connection) (Connection,
		error) {
		return Connection{}, e.delete(ctx, &c)
	})
	return err
}

// editLocked runs fn on a connection that the actor may see, in the version that the request is for, and that no other
// request can change meanwhile.
func (s *Service) editLocked(ctx context.Context, actor access.Principal, key, connectionID string, now time.Time,
	fn func(edit, Connection) (Connection, error),
) (c Connection, err error) {
	if !possible(key, connectionID) || !actor.View().Connections.Contains(connectionID) {
		return Connection{}, notFound()
	}
	var uuid string
	err = s.change(ctx, &uuid, func(tx *sql.Tx) error {
		current, err := lock(ctx, tx, actor.Environment, key, connectionID)
		if err != nil {
			return err
		}
		uuid = current.UUID
		if err := etag.Check(ctx, current.Version()); err != nil {
			return err
		}
		e, err := s.edit(ctx, tx, actor, &current, now)
		if err != nil {
			return err
		}
		c, err = fn(e, current)
		return err
	})
	if err != nil {
		return Connection{}, err
	}
	return c, nil
}

// change runs a transaction about one connection, whose UUID fn sets, and drops its snapshot even if the transaction
// failed: a commit whose result was lost may have taken effect.
func (s *Service) change(ctx context.Context, uuid *string, fn func(*sql.Tx) error) error {
	defer func() { accounts{s}.Forget(*uuid) }()
	return s.db.Tx(ctx, fn)
}

func (s *Service) now() time.Time { return clock.FromMillis(clock.Millis(s.clock.Now())) }

// possible reports whether a connection can have these names, so that others cost no query.
func possible(key, connectionID string) bool {
	return configs.ValidKey(key) && validName(connectionID)
}

// ExistsUnderAnyKey reports whether the environment has a connection of that id under any provider configuration. It
// reads from q, which can be a transaction.
func (*Service) ExistsUnderAnyKey(ctx context.Context, q db.Querier, env id.Environment,
	connectionID string) (bool, error) {
	if !validName(connectionID) {
		return false, nil
	}
	var exists bool
	err := q.QueryRowContext(ctx,
		`SELECT EXISTS (SELECT 1 FROM connections WHERE environment_id = $1 AND connection_id = $2)`, string(env),
		connectionID).Scan(&exists)
	if err != nil {
		return false, fmt.Errorf("look for a connection: %w", err)
	}
	return exists, nil
}

// ProvidersInUse returns the slugs of the providers of which the environment has connections, sorted.
func (s *Service) ProvidersInUse(ctx context.Context, env id.Environment) ([]string, error) {
	rows, err := s.db.Read().QueryContext(ctx, `SELECT DISTINCT provider FROM connections
		WHERE environment_id = $1 ORDER BY provider`, string(env))
	if err != nil {
		return nil, fmt.Errorf("list the providers in use: %w", err)
	}
	var slugs []string
	err = db.Each(rows, func(r *sql.Rows) error {
		var slug string
		if err := r.Scan(&slug); err != nil {
			return fmt.Errorf("list the providers in use: %w", err)
		}
		slugs = append(slugs, slug)
		return nil
	})
	return slugs, err
}

// OfID returns the connections of that id that the environment has, one for each provider configuration.
func (s *Service) OfID(ctx context.Context, env id.Environment, connectionID string) ([]Connection, error) {
	if !validName(connectionID) {
		return nil, nil
	}
	return ofID(ctx, s.db.Read(), env, connectionID)
}
