package configs

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"sallyport/internal/platform/id"
)

// maxCached bounds the environments whose configurations are in memory.
const maxCached = 2000

// snapshot holds the stored configurations of an environment, by their keys. It is shared and never changed.
type snapshot struct{ byKey map[string]*Config }

// Resolve returns the configuration of a key, with its secrets still sealed; ok is false if there is none. A stored one
// comes first. Without one the slug of a provider is a configuration that sets nothing. The definition of the
// configuration's provider may be gone.
//
// It reads memory, except at first, after a change, and for a key that it does not know. So it sees every change that
// this process made before the call, and every new key. Other changes by other processes show after the next Refresh.
func (s *Service) Resolve(ctx context.Context, env id.Environment, key string) (c *Config, ok bool, err error) {
	if !ValidKey(key) {
		return nil, false, nil
	}
	known, err := s.snapshot(ctx, env)
	if err != nil {
		return nil, false, err
	}
	if c := known.byKey[key]; c != nil {
		return c, true, nil
	}
	if _, ok := s.providers.Find(env, key); ok {
		return blank(env, key), true, nil
	}
	stored, ok, err := find(ctx, s.db.Reserved(), env, key)
	if err != nil {
		return nil, false, err
	}
	if !ok {
		return s.resolveImport(ctx, env, key)
	}
	s.known.Drop(env) // another process has created it since
	return &stored, true, nil
}

// resolveImport is Resolve for a key that only an import of another process can have defined since.
func (s *Service) resolveImport(ctx context.Context, env id.Environment, key string) (*Config, bool, error) {
	if s.imports == nil {
		return nil, false, nil
	}
	if err := s.imports.Latest(ctx, env); err != nil {
		return nil, false, fmt.Errorf("look for a provider: %w", err)
	}
	if _, ok := s.providers.Find(env, key); !ok {
		return nil, false, nil
	}
	return blank(env, key), true, nil
}

// ResolveNow is Resolve for a caller that is about to refuse something because of what it found, which another process
// may have changed a moment ago.
func (s *Service) ResolveNow(ctx context.Context, env id.Environment, key string) (*Config, bool, error) {
	s.known.Drop(env)
	return s.Resolve(ctx, env, key)
}

// ProviderOf returns the slug of the provider of a configuration, as Resolve finds it.
func (s *Service) ProviderOf(ctx context.Context, env id.Environment, key string) (slug string, ok bool, err error) {
	c, ok, err := s.Resolve(ctx, env, key)
	if err != nil || !ok {
		return "", false, err
	}
	return c.Provider, true, nil
}

// KeysOf returns the keys of the provider's configurations in an environment, sorted. Its slug is among them unless a
// configuration of another provider has that key.
func (s *Service) KeysOf(ctx context.Context, env id.Environment, slug string) ([]string, error) {
	known, err := s.snapshot(ctx, env)
	if err != nil {
		return nil, err
	}
	var keys []string
	if known.byKey[slug] == nil {
		keys = []string{slug}
	}
	for key, c := range known.byKey {
		if c.Provider == slug {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Suggest asks for the configuration that a key without one probably means: ". Did you mean github?"; it is empty if
// none is near.
func (s *Service) Suggest(ctx context.Context, env id.Environment, key string) string {
	var keys []string
	if known, err := s.snapshot(ctx, env); err == nil { // a suggestion is not worth an error
		keys = slices.Sorted(maps.Keys(known.byKey))
	}
	return s.suggest(env, key, keys)
}

// Hold reports whether the configuration of the key is one of the provider, and keeps it from being deleted until the
// transaction ends. It is called in the transaction that adds a connection to it.
func (s *Service) Hold(ctx context.Context, tx *sql.Tx, env id.Environment, key, provider string) (bool, error) {
	stored, found, err := hold(ctx, tx, s.db.Engine(), env, key)
	switch {
	case err != nil:
		return false, err
	case found:
		return stored == provider, nil
	default:
		held, err := s.holdProvider(ctx, tx, env, key)
		return held && key == provider, err
	}
}

// holdProvider reports whether the environment has a provider, and keeps it from being removed until the transaction
// ends.
func (s *Service) holdProvider(ctx context.Context, tx *sql.Tx, env id.Environment, slug string) (bool, error) {
	if s.imports != nil {
		return s.imports.Hold(ctx, tx, env, slug) //nolint:wrapcheck // it says what failed
	}
	_, ok := s.providers.Find(env, slug)
	return ok, nil
}

func (s *Service) snapshot(ctx context.Context, env id.Environment) (*snapshot, error) {
	return s.known.Get(ctx, env, func(ctx context.Context) (*snapshot, int64, error) {
		versions, err := s.db.Versions(ctx)
		if err != nil {
			return nil, 0, err
		}
		rows, err := readAll(ctx, s.db.Reserved(), of(env), "")
		if err != nil {
			return nil, 0, err
		}
		out := &snapshot{byKey: make(map[string]*Config, len(rows))}
		for i := range rows {
			out.byKey[rows[i].Key] = &rows[i]
		}
		return out, versions[collection], nil
	})
}

// Refresh drops the configurations of environments in which another process has changed one. If it is not known which
// these are, it drops all that were read at another version.
func (s *Service) Refresh(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	changes, err := s.db.Changes(ctx, collection, s.seen)
	if err != nil {
		return fmt.Errorf("refresh provider configurations: %w", err)
	}
	if !changes.Known {
		s.known.DropOthers(changes.Version)
	}
	for _, env := range changes.Keys {
		s.known.Drop(id.Environment(env))
	}
	s.seen = changes.Version
	return nil
}

// Forget drops what is in memory of an environment's configurations, and reads its imports again.
func (s *Service) Forget(ctx context.Context, env id.Environment) error {
	s.known.Drop(env)
	if s.imports == nil {
		return nil
	}
	return s.imports.Latest(ctx, env) //nolint:wrapcheck // it says what failed
}
