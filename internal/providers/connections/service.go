package connections

import (
	"context"
	"database/sql"
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
	// Keyring holds the keys that providers publish; nil refuses webhooks that need them.
	Keyring *verification.Keyring
	Logger  *slog.Logger
	// DedupeWindow is how long bodies are compared where the connection sets nothing.
	DedupeWindow time.Duration
	OnDelete     []DeleteHook
	OnChange     []ChangeHook
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
	secrets      secretStore
	enrolments   enrolmentStore

	loader       loader
	dedupeWindow time.Duration
	named        named
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
	return &Service{
		db: cfg.DB, clock: cfg.Clock, providers: cfg.Providers, environments: cfg.Environments, secrets: secrets,
		enrolments: enrolmentStore{cfg.Box}, inbound: cache.Cache[string, variants]{Max: maxCached}, seen: -1,
		loader: loader{read: cfg.DB.Reserved(), paths: cfg.DB.Read(), providers: cfg.Providers, secrets: secrets,
			keyring: cfg.Keyring, log: cfg.Logger, refusing: refusing},
		dedupeWindow: cfg.DedupeWindow, onDelete: cfg.OnDelete, onChange: cfg.OnChange,
	}, nil
}

// Get returns a connection that the view shows, or not_found.
func (s *Service) Get(ctx context.Context, v access.View, providerConfigKey, connectionID string) (Connection, error) {
	if !possible(providerConfigKey, connectionID) || !v.Connections.Contains(connectionID) {
		return Connection{}, notFound()
	}
	return find(ctx, s.db.Read(), v.Environment, providerConfigKey, connectionID)
}

// List returns one page of the connections that the view shows, and one row more if another page follows. The key of a
// page is the UUID, so newest first is the order of creation.
func (s *Service) List(ctx context.Context, v access.View, f Filter, p page.Request) ([]Connection, error) {
	keys := slices.DeleteFunc(slices.Clone(f.ProviderConfigKeys), func(key string) bool {
		return !ValidProviderConfigKey(key)
	})
	if len(keys) == 0 && len(f.ProviderConfigKeys) > 0 || f.Prefix != "" && !hasNameForm(f.Prefix) {
		return []Connection{}, nil
	}
	f.ProviderConfigKeys = keys
	return list(ctx, s.db.Read(), v, f, p)
}

// Update changes a connection of the actor's environment.
func (s *Service) Update(ctx context.Context, actor access.Principal, providerConfigKey, connectionID string,
	ch Change) (Connection, error) {
	now := s.now()
	return s.editLocked(ctx, actor, providerConfigKey, connectionID, now, func(e edit, current Connection) (Connection,
		error) {
		return s.update(ctx, e, current, &ch)
	})
}

func (s *Service) update(ctx context.Context, e edit, current Connection, ch *Change) (Connection, error) {
	next := ch.apply(current)
	provider, _ := s.providers.Get(current.Provider)
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
	var v apperr.Violations
	if err := p.check(&v); err != nil {
		return Connection{}, err
	}
	if err := v.Err(); err != nil {
		return Connection{}, err
	}
	if !differs(&current, &next, ch) {
		return current, nil
	}
	if err := moveAlias(ctx, e.tx, &current, ch.Alias, e.now); err != nil {
		return Connection{}, err
	}
	if ch.Secret.Set {
		if err := s.secrets.replace(ctx, e.tx, current.UUID, ch.Secret, e.now); err != nil {
			return Connection{}, err
		}
	}
	return e.write(ctx, &next, actionUpdate, nil)
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
		action := actionEnable
		c.Status, c.StatusReason = status, ""
		if status == Disabled {
			action, c.StatusReason = actionDisable, reasonDisabled
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
		if err := releaseAlias(ctx, e.tx, c.UUID, now); err != nil {
			return Connection{}, err
		}
		if err := remove(ctx, e.tx, c.Environment, c.UUID); err != nil {
			return Connection{}, err
		}
		for _, hook := range s.onDelete {
			if err := hook(ctx, e.tx, c.UUID); err != nil {
				return Connection{}, err
			}
		}
		return Connection{}, e.record(ctx, &c, actionDelete, nil, nil)
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
	defer func() { s.inbound.Drop(*uuid) }()
	return s.db.Tx(ctx, fn)
}

func (s *Service) now() time.Time { return clock.FromMillis(clock.Millis(s.clock.Now())) }

// possible reports whether a connection can have these names, so that others cost no query.
func possible(key, connectionID string) bool {
	return ValidProviderConfigKey(key) && validName(connectionID)
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

// ConfigKeys returns the provider configurations of which the environment has connections, sorted.
func (s *Service) ConfigKeys(ctx context.Context, env id.Environment) ([]string, error) {
	rows, err := s.db.Read().QueryContext(ctx, `SELECT DISTINCT provider_config_key FROM connections
		WHERE environment_id = $1 ORDER BY provider_config_key`, string(env))
	if err != nil {
		return nil, fmt.Errorf("list the provider configurations in use: %w", err)
	}
	var keys []string
	err = db.Each(rows, func(r *sql.Rows) error {
		var key string
		if err := r.Scan(&key); err != nil {
			return fmt.Errorf("list the provider configurations in use: %w", err)
		}
		keys = append(keys, key)
		return nil
	})
	return keys, err
}

// OfID returns the connections of that id that the environment has, one for each provider configuration.
func (s *Service) OfID(ctx context.Context, env id.Environment, connectionID string) ([]Connection, error) {
	if !validName(connectionID) {
		return nil, nil
	}
	return ofID(ctx, s.db.Read(), env, connectionID)
}
