package subscriptions

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/eventtypes"
)

// Directory finds the subscriptions of an event, from memory. It is separate from Service, so that the consequences of
// a change of a subscription can look subscriptions up. It is safe for concurrent use.
type Directory struct {
	db *db.DB
	// types says how providers write their types; nil if none does so in a way of its own.
	types eventtypes.Source
	// configs may be nil: then the key of a configuration is its provider's slug.
	configs Configs
	filters filterCache
	// generations counts the states of all indexes, so that no two states have the same number.
	generations atomic.Uint64

	mu   sync.RWMutex
	live map[id.Environment]*liveIndex
	// wanted holds the environments whose index a transaction has missed.
	wanted map[id.Environment]struct{}
}

// NewDirectory returns a Directory that has read nothing yet. types and configs may be nil.
func NewDirectory(d *db.DB, types eventtypes.Source, configs Configs) *Directory {
	return &Directory{db: d, types: types, configs: configs, live: map[id.Environment]*liveIndex{},
		wanted: map[id.Environment]struct{}{}}
}

// Configs knows the provider configurations of environments. It reads memory, except at first and after a change.
type Configs interface {
	// ProviderOf returns the slug of the provider of a configuration; ok is false if the environment has no such
	// configuration.
	ProviderOf(ctx context.Context, env id.Environment, key string) (slug string, ok bool, err error)
	// Suggest asks for the configuration that a key without one probably means; empty if none is near.
	Suggest(ctx context.Context, env id.Environment, key string) string
}

// Origin is where an event comes from.
type Origin struct {
	// Provider is the slug of the event's provider, or OwnProvider.
	Provider string
	// ProviderConfigKey and ConnectionID name the connection that the event is from or about.
	ProviderConfigKey, ConnectionID string
}

// writer returns the slug of the provider by whose rules the types of an event are written: its own, and that of the
// connection for an event that was published about one.
func (d *Directory) writer(ctx context.Context, env id.Environment, o Origin) (string, error) {
	if o.Provider != OwnProvider || o.ProviderConfigKey == OwnProvider {
		return o.Provider, nil
	}
	return d.providerOf(ctx, env, o.ProviderConfigKey)
}

// providerOf returns the slug of a configuration's provider; empty without such a configuration.
func (d *Directory) providerOf(ctx context.Context, env id.Environment, key string) (string, error) {
	if d.configs == nil || key == "" {
		return key, nil
	}
	slug, _, err := d.configs.ProviderOf(ctx, env, key)
	return slug, err
}

// Generation names a state of an environment's index.
type Generation uint64

// Match returns the environment's subscriptions that match any of the event types, each once, in the order of their
// ids, and the generation of the index that says so. Disabled ones are included, and filters are not evaluated. It
// reads from memory except at first. A subscription whose Create has returned before the call is included; on other
// processes after their next Refresh.
func (d *Directory) Match(ctx context.Context, env id.Environment, o Origin, types []string) (list []Matched,
	g Generation, err error) {
	writer, err := d.writer(ctx, env, o)
	if err != nil {
		return nil, 0, err
	}
	event := scope{o.ProviderConfigKey, o.ConnectionID, writer}
	err = d.view(ctx, env, func(l *liveIndex) {
		list, g = l.index.match(event, types), Generation(l.generation.Load())
	})
	return list, g, err
}

// Current reports whether a Match now would look at the same state of the environment's index. It reads only memory and
// does not wait.
func (d *Directory) Current(env id.Environment, g Generation) bool {
	l := d.find(env)
	return l != nil && Generation(l.generation.Load()) == g
}

// readTimeout bounds the reading of an index or of a part of it. The reading serves others as well, so it does not end
// with the context of the caller that began it.
const readTimeout = 5 * time.Second

// liveIndex is the index of one environment. Changes are applied to it in place.
type liveIndex struct {
	// reading is held by the one goroutine that reads rows of the environment and applies them: rows that are read later
	// are applied later.
	reading chan struct{}
	// version is that of the collection, read before the index.
	version atomic.Int64
	// generation is 0 until the index has been read. It changes with the index, under mu.
	generation atomic.Uint64
	mu         sync.RWMutex
	index      *index
}

// lock begins a reading, unless ctx ends before others have ended theirs.
func (l *liveIndex) lock(ctx context.Context) error {
	select {
	case l.reading <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *liveIndex) unlock() { <-l.reading }

func (l *liveIndex) isRead() bool { return l.generation.Load() != 0 }

func (d *Directory) find(env id.Environment) *liveIndex {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.live[env]
}

// view calls fn with the environment's index, which does not change meanwhile.
func (d *Directory) view(ctx context.Context, env id.Environment, fn func(*liveIndex)) error {
	l := d.find(env)
	if l == nil {
		l = d.add(env)
	}
	if !l.isRead() {
		if err := d.read(ctx, env, l); err != nil {
			return err
		}
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	fn(l)
	return nil
}

func (d *Directory) add(env id.Environment) *liveIndex {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.live[env]
	if l == nil {
		l = &liveIndex{reading: make(chan struct{}, 1)}
		l.version.Store(-1)
		d.live[env] = l
	}
	return l
}

// read reads the whole index, unless another goroutine has done so meanwhile.
func (d *Directory) read(ctx context.Context, env id.Environment, l *liveIndex) error {
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	if l.isRead() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	version, err := collectionVersion(ctx, d.db)
	if err != nil {
		return err
	}
	entries, err := d.readEntries(ctx, d.db.Reserved(), env)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index = newIndex(entries)
	l.version.Store(version)
	l.generation.Store(d.generations.Add(1))
	return nil
}

// maxFollowed is the number of subscriptions that one query reads again.
const maxFollowed = 200

// follow reads the subscriptions of the environment again and applies what has changed. When it has returned, Match
// sees every change that was committed before the call. If the rows cannot be read before ctx ends, the next Match
// reads all of them.
func (d *Directory) follow(ctx context.Context, env id.Environment, ids ...string) {
	l := d.find(env)
	if l == nil {
		return // a Match that reads the index from now on sees the changes
	}
	if err := d.apply(ctx, env, l, ids); err != nil {
		d.forget(env, l)
	}
}

func (d *Directory) apply(ctx context.Context, env id.Environment, l *liveIndex, ids []string) error {
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	if !l.isRead() {
		return nil // as above
	}
	for some := range slices.Chunk(ids, maxFollowed) {
		entries, err := d.readEntries(ctx, d.db.Reserved(), env, some...)
		if err != nil {
			return err
		}
		present := make(map[string]*entry, len(entries))
		for i := range entries {
			present[entries[i].ID] = &entries[i]
		}
		d.replace(l, some, present)
	}
	return nil
}

// replace replaces the entries of the ids by those present.
func (d *Directory) replace(l *liveIndex, ids []string, present map[string]*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := false
	for _, subscriptionID := range ids {
		changed = l.index.set(subscriptionID, present[subscriptionID]) || changed
	}
	if changed {
		l.generation.Store(d.generations.Add(1))
	}
}

// forget makes the next Match read the environment's index again. A reading that has begun serves only its callers.
func (d *Directory) forget(env id.Environment, l *liveIndex) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live[env] == l {
		delete(d.live, env)
	}
}

// TypesChanged makes every Match that begins from now on use the present rules of providers for their types.
func (d *Directory) TypesChanged() { d.forgetAll() }

// TypeRules returns the rules for the types of events of that origin.
func (d *Directory) TypeRules(ctx context.Context, env id.Environment, o Origin) (eventtypes.Rules, error) {
	writer, err := d.writer(ctx, env, o)
	return eventtypes.RulesOf(d.types, writer), err
}

// forgetAll is forget for all indexes.
func (d *Directory) forgetAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.live)
}

// forgetOthers is forget for all indexes that were read at another version of the collection.
func (d *Directory) forgetOthers(version int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for env, l := range d.live {
		if l.version.Load() != version {
			delete(d.live, env)
		}
	}
}
