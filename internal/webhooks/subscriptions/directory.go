package subscriptions

import (
	"context"
	"slices"

	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/filters"
)

// Directory finds the subscriptions of an event, from memory. It is separate from Service, so that the consequences of
// a change of a subscription can look subscriptions up. It is safe for concurrent use.
type Directory struct {
	db      *db.DB
	indexes cache.Cache[id.Environment, *index]
	filters filterCache
}

// NewDirectory returns a Directory that has read nothing yet.
func NewDirectory(d *db.DB) *Directory { return &Directory{db: d} }

// Match returns the environment's subscriptions that match any of the event types, each once, in the order of their
// ids. Disabled ones are included, and filters are not evaluated. It reads from memory except after a change. A
// subscription whose Create has returned before the call is included; on other processes after their next Refresh.
func (d *Directory) Match(ctx context.Context, env id.Environment, providerConfigKey, connectionID string,
	types []string) ([]Matched, error) {
	x, err := d.index(ctx, env)
	if err != nil {
		return nil, err
	}
	return x.match(scope{providerConfigKey, connectionID}, types), nil
}

// Filters returns the filters of the subscriptions that Match returns, each once. In an environment without filters it
// costs a look-up in a map.
func (d *Directory) Filters(ctx context.Context, env id.Environment, providerConfigKey, connectionID string,
	types []string) ([]*filters.Filter, error) {
	x, err := d.index(ctx, env)
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

// MatchOwn is Match for one of the gateway's own events. Only patterns that name the first segment of its type match
// it.
func (d *Directory) MatchOwn(ctx context.Context, env id.Environment, providerConfigKey, connectionID,
	eventType string) ([]Matched, error) {
	x, err := d.index(ctx, env)
	if err != nil {
		return nil, err
	}
	return x.matchOwn(scope{providerConfigKey, connectionID}, eventType), nil
}

// WantsOwn reports whether a subscription of the environment has a pattern for the gateway's own events.
func (d *Directory) WantsOwn(ctx context.Context, env id.Environment) (bool, error) {
	x, err := d.index(ctx, env)
	return err == nil && x.wantsOwn(), err
}

func (d *Directory) index(ctx context.Context, env id.Environment) (*index, error) {
	return d.indexes.Get(ctx, env, func(ctx context.Context) (*index, int64, error) { return d.loadIndex(ctx, env) })
}

func (d *Directory) version(ctx context.Context) (int64, error) {
	versions, err := d.db.Versions(ctx)
	return versions[collection], err
}

func (d *Directory) loadIndex(ctx context.Context, env id.Environment) (*index, int64, error) {
	version, err := d.version(ctx)
	if err != nil {
		return nil, 0, err
	}
	entries, err := readEntries(ctx, d.db.Read(), env, d.filters.get)
	if err != nil {
		return nil, 0, err
	}
	return newIndex(entries), version, nil
}

// refresh drops what was read at another version of the table.
func (d *Directory) refresh(version int64) { d.indexes.DropOthers(version) }

// drop removes the environment's index from the cache.
func (d *Directory) drop(env id.Environment) { d.indexes.Drop(env) }
