package imports

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/registry"
)

// Live provides the definitions of the installation. *registry.Live implements it.
type Live interface {
	Get(slug string) (*registry.Provider, bool)
	List() []*registry.Provider
}

// Version is an active import, as the catalog needs it. It is shared and must not be changed.
type Version struct {
	// Import is its id, and Slug the provider's.
	Import, Slug string
	// Actions is how many it has.
	Actions int
	// Provider is what the import defines; nil if it extends a provider.
	Provider *registry.Provider
}

// Definitions are the definitions of every environment: those of the installation, and those of its own active imports,
// which come first. All of them are in memory, and follow the changes of other processes. It is safe for concurrent
// use.
type Definitions struct {
	live Live
	db   *db.DB
	log  *slog.Logger

	// loading is held from the reading of imports until they are in memory, so that nothing older replaces them.
	loading    sync.Mutex
	refreshing sync.Mutex
	// seen is the version of the collection at the last Refresh that succeeded; negative before the first.
	seen int64

	mu    sync.RWMutex
	known map[id.Environment]map[string]*Version
	// loaded is false until all were read.
	loaded bool
}

// NewDefinitions returns the definitions of a database. Without Refresh they are those of the installation.
func NewDefinitions(live Live, d *db.DB, log *slog.Logger) *Definitions {
	return &Definitions{live: live, db: d, log: log, seen: -1, known: map[id.Environment]map[string]*Version{}}
}

// Versions returns the active imports of an environment, by the slugs of their providers. The map is shared and must
// not be changed.
func (d *Definitions) Versions(env id.Environment) map[string]*Version {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.known[env]
}

// Find returns the definition that a slug has in an environment.
func (d *Definitions) Find(env id.Environment, slug string) (*registry.Provider, bool) {
	if v := d.Versions(env)[slug]; v != nil && v.Provider != nil {
		return v.Provider, true
	}
	return d.live.Get(slug)
}

// All returns all providers of an environment, sorted by slug.
func (d *Definitions) All(env id.Environment) []*registry.Provider {
	bySlug := map[string]*registry.Provider{}
	for _, p := range d.live.List() {
		bySlug[p.Definition.Slug] = p
	}
	for slug, v := range d.Versions(env) {
		if v.Provider != nil {
			bySlug[slug] = v.Provider
		}
	}
	return slices.SortedFunc(maps.Values(bySlug), func(a, b *registry.Provider) int {
		return strings.Compare(a.Definition.Slug, b.Definition.Slug)
	})
}

// Hold reports whether the environment has a provider, and keeps it from being removed until the transaction ends. It
// is called in the transaction that adds something to it.
func (d *Definitions) Hold(ctx context.Context, tx *sql.Tx, env id.Environment, slug string) (bool, error) {
	// The row may be another one by the time at which it is locked: one version has replaced another.
	for range 2 {
		if held, err := holdActive(ctx, tx, d.db.Engine(), env, slug); err != nil || held {
			return held, err
		}
	}
	_, ok := d.live.Get(slug)
	return ok, nil
}

// Latest makes the definitions of an environment those of the database, for a caller that is about to refuse something
// because of what it found, which another process may have changed a moment ago.
func (d *Definitions) Latest(ctx context.Context, env id.Environment) error { return d.load(ctx, env) }

// drop reads the definitions of an environment again, after a change by this process.
func (d *Definitions) drop(ctx context.Context, env id.Environment) {
	if err := d.load(context.WithoutCancel(ctx), env); err != nil {
		d.log.WarnContext(ctx, "cannot read the active imports of an environment; they are read again within a second",
			slog.String("environment_id", string(env)), slog.String("error", err.Error()))
		d.refreshing.Lock()
		d.seen = -1
		d.refreshing.Unlock()
	}
}

// loadTimeout bounds one load.
const loadTimeout = 5 * time.Second

// load reads the active imports of environments; of all of them if none is named.
func (d *Definitions) load(ctx context.Context, envs ...id.Environment) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	d.loading.Lock()
	defer d.loading.Unlock()
	rows, err := listActive(ctx, d.db.Reserved(), envs...)
	if err != nil {
		return err
	}
	found := map[id.Environment]map[string]*Version{}
	for i := range rows {
		a := &rows[i]
		v := &Version{Import: a.id, Slug: a.slug, Actions: int(a.actions)}
		if !a.extends {
			if v.Provider = d.inMemory(a); v.Provider == nil {
				p, err := registry.Import(a.slug, []byte(a.definition))
				if err != nil {
					// A later release refuses what an earlier one has accepted. The other providers must not suffer.
					d.log.ErrorContext(ctx, "the definition of an import is not valid in this release; import the document again",
						slog.String("environment_id", string(a.environment)), slog.String("import_id", a.id),
						slog.String("error", err.Error()))
					continue
				}
				v.Provider = p
			}
		}
		if found[a.environment] == nil {
			found[a.environment] = map[string]*Version{}
		}
		found[a.environment][a.slug] = v
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(envs) == 0 {
		d.known, d.loaded = found, true
		return nil
	}
	next := maps.Clone(d.known)
	for _, env := range envs {
		if delete(next, env); found[env] != nil {
			next[env] = found[env]
		}
	}
	d.known = next
	return nil
}

// inMemory returns the definition of a version that is in memory; nil if it is not.
func (d *Definitions) inMemory(a *active) *registry.Provider {
	if v := d.Versions(a.environment)[a.slug]; v != nil && v.Import == a.id {
		return v.Provider
	}
	return nil
}

// Refresh reads the active imports of environments in which another process has changed one. If it is not known which
// these are, it reads all of them.
func (d *Definitions) Refresh(ctx context.Context) error {
	d.refreshing.Lock()
	defer d.refreshing.Unlock()
	changes, err := d.db.Changes(ctx, collection, d.seen)
	if err != nil {
		return fmt.Errorf("refresh the active imports: %w", err)
	}
	if d.loaded && changes.Version == d.seen {
		return nil
	}
	var envs []id.Environment
	if d.loaded && changes.Known {
		for _, key := range changes.Keys {
			envs = append(envs, id.Environment(key))
		}
	}
	if len(envs) > 0 || !d.loaded || !changes.Known {
		if err := d.load(ctx, envs...); err != nil {
			return fmt.Errorf("refresh the active imports: %w", err)
		}
	}
	d.seen = changes.Version
	return nil
}

// dropAll makes everything be read again.
func (d *Definitions) dropAll() {
	d.refreshing.Lock()
	defer d.refreshing.Unlock()
	d.seen = -1
}
