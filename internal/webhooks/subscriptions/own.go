package subscriptions

import (
	"context"
	"maps"
	"slices"

	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
)

// Own finds the subscriptions of an environment that select the gateway's own events, inside one transaction.
type Own struct {
	// live is nil if the index was not in memory; then index is one that only this transaction uses.
	live  *liveIndex
	index *index
}

// Own returns the environment's Own for the transaction tx. It waits for no connection for reading: those who have one
// may wait for the transaction. An index that is not in memory is read in the transaction, for this call alone, and
// then by readWanted.
func (d *Directory) Own(ctx context.Context, tx db.Querier, env id.Environment) (*Own, error) {
	if l := d.find(env); l != nil && l.isRead() {
		return &Own{live: l}, nil
	}
	d.mu.Lock()
	d.wanted[env] = struct{}{}
	d.mu.Unlock()
	entries, err := d.readEntries(ctx, tx, env)
	if err != nil {
		return nil, err
	}
	return &Own{index: newIndex(entries)}, nil
}

// readWanted reads the indexes that transactions have missed. A job calls it every second.
func (d *Directory) readWanted(ctx context.Context) error {
	d.mu.Lock()
	wanted := slices.Collect(maps.Keys(d.wanted))
	clear(d.wanted)
	d.mu.Unlock()
	for _, env := range wanted {
		if err := d.view(ctx, env, func(*liveIndex) {}); err != nil {
			return err // the next transaction that misses an index wants it again
		}
	}
	return nil
}

// view calls fn with the index, which does not change meanwhile.
func (o *Own) view(fn func(x *index)) {
	if o.live == nil {
		fn(o.index)
		return
	}
	o.live.mu.RLock()
	defer o.live.mu.RUnlock()
	fn(o.live.index)
}

// Match is Directory.Match for one of the gateway's own events. Only patterns that name the first segment of its type
// match it.
func (o *Own) Match(providerConfigKey, connectionID, eventType string) (list []Matched) {
	o.view(func(x *index) {
		list = x.matchOwn(scope{providerConfigKey: providerConfigKey, connectionID: connectionID}, eventType)
	})
	return list
}

// Wanted reports whether a subscription has a pattern for the gateway's own events.
func (o *Own) Wanted() (wanted bool) {
	o.view(func(x *index) { wanted = x.wantsOwn() })
	return wanted
}

// ConnectionOf returns the connection that the subscription is limited to; empty for one to the events of all
// connections, and for one that is deleted or unknown.
func (o *Own) ConnectionOf(subscriptionID string) (connectionID string) {
	o.view(func(x *index) {
		if e := x.byID[subscriptionID]; e != nil {
			connectionID = e.scope.connectionID
		}
	})
	return connectionID
}
