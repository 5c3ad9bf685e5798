package events

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
)

// route leads through a list: every event that matches the filter meets the condition of one of its ways. Without ways
// no event matches.
type route []way

// way is a condition on events or, if from says so, on rows about events, that an index has in the order of the uuids.
type way struct {
	from, column string
	// condition has ? for each of the arguments.
	condition string
	args      []any
}

// maxConnectionWays is the maximum number of connections that a route leads through.
const maxConnectionWays = 50

// whole leads through all events of the environment.
func (l *listing) whole() route { return route{l.events("1 = 1")} }

// isWhole reports whether it is the route through all events.
func (r route) isWhole() bool { return len(r) == 1 && strings.HasSuffix(r[0].condition, "1 = 1") }

// events returns the way through the environment's events that meet a condition.
func (l *listing) events(condition string, args ...any) way {
	return way{from: "webhook_events e", column: "e.event_uuid", condition: "e.environment_id = ? AND " + condition,
		args: append([]any{string(l.view.Environment)}, args...)}
}

// routes returns the routes that the filter allows: that through the whole list only if there is no other. Each has an
// index, so that a filter which few events match is as fast as its rarest part.
func (l *listing) routes(ctx context.Context, q db.Querier) ([]route, error) {
	if l.view.Connections.Empty() {
		return []route{{}}, nil
	}
	bounded := !l.view.Connections.Unrestricted()
	if r := l.byConnection(); r != nil && bounded {
		return []route{r}, nil // the place of a search is then always an event that the view shows
	}
	var list []route
	f := &l.filter
	r, ok, err := l.byKey(ctx, q)
	if err != nil {
		return nil, err
	}
	if ok {
		list = append(list, r)
	}
	if r, ok, err = l.byType(ctx, q); err != nil {
		return nil, err
	}
	if ok {
		list = append(list, r)
	}
	if r := l.byConnection(); r != nil {
		list = append(list, r)
	}
	if len(f.SubscriptionIDs) > 0 && !bounded {
		var r route
		for _, id := range f.SubscriptionIDs {
			from, column, condition, args := l.store.deliveries.Of(l.view.Environment, id)
			r = append(r, way{from, column, condition, args})
		}
		list = append(list, r)
	}
	for _, c := range []struct {
		condition string // of a partial index
		applies   bool
	}{
		{"e.failed_ms IS NOT NULL", len(f.Statuses) > 0 && onlyFailures(f.Statuses)},
		{"e.last_error IS NOT NULL", !bounded && onlyAfterFailures(f.DeliveryCriteria)},
		{"e.duplicate_of IS NOT NULL", f.Duplicate != nil && *f.Duplicate},
		{"e.control", f.Control != nil && *f.Control},
	} {
		if c.applies {
			list = append(list, route{l.events(c.condition)})
		}
	}
	if list == nil {
		list = []route{l.whole()}
	}
	return list, nil
}

// byKey returns the route for a search or for keys; ok is false if there is neither, or too much has the key.
func (l *listing) byKey(ctx context.Context, q db.Querier) (r route, ok bool, err error) {
	keys, search := l.filter.IdempotencyKeys, l.filter.Search
	if search != "" {
		keys = []string{search}
	}
	if len(keys) == 0 {
		return nil, false, nil
	}
	holders, err := l.store.holders(ctx, q, l.view.Environment, keys)
	if err != nil {
		return nil, false, err
	}
	var types []string
	if search != "" {
		if types, err = l.store.typesWith(ctx, q, l.view.Environment, search); err != nil {
			return nil, false, err
		}
	}
	if len(types) > maxSearchTypes {
		return nil, false, apperr.Invalid(apperr.Detail{Location: "query.q", Rule: "selective",
			Message: fmt.Sprintf("is the beginning of more than %d event types; make it longer", maxSearchTypes)})
	}
	if len(holders) > maxSearchKeys {
		return nil, false, nil
	}
	r = route{}
	for _, uuid := range holders {
		r = append(r, l.events("e.event_uuid = ?", uuid),
			l.events("e.duplicate_of IS NOT NULL AND e.duplicate_of = ?", uuid))
	}
	for _, t := range types {
		r = append(r, l.events("e.event_type = ?", t))
	}
	return r, true, nil
}

// byType returns the route for types and patterns; ok is false if there are none, or they fit too many types.
func (l *listing) byType(ctx context.Context, q db.Querier) (r route, ok bool, err error) {
	if len(l.filter.Types) == 0 {
		return nil, false, nil
	}
	types := map[string]bool{}
	var patterns []string
	for _, form := range l.forms {
		patterns = append(patterns, form.Text)
	}
	for _, pattern := range patterns {
		prefix, _, isPattern := strings.Cut(pattern, wildcard)
		switch {
		case !isPattern:
			types[pattern] = true
		case prefix == "":
			return nil, false, nil // such patterns fit any number of types
		default:
			some, err := l.store.typesWith(ctx, q, l.view.Environment, prefix)
			if err != nil {
				return nil, false, err
			}
			for _, t := range some {
				types[t] = true
			}
		}
		if len(types) > maxSearchTypes {
			return nil, false, nil
		}
	}
	for t := range types {
		r = append(r, l.events("e.event_type = ?", t))
	}
	return append(r, l.events("e.event_types IS NOT NULL")), true, nil // the types of a batch's items have no index
}

// byConnection returns the route for the connections of the filter, or else of the view; nil if there are too many.
func (l *listing) byConnection() route {
	ids := slices.DeleteFunc(slices.Clone(l.filter.ConnectionIDs), func(id string) bool {
		return !l.view.Connections.Contains(id)
	})
	if len(l.filter.ConnectionIDs) == 0 {
		names, except := l.view.Connections.Names()
		if except {
			return nil
		}
		ids = names
	}
	if len(ids) > maxConnectionWays {
		return nil
	}
	r := route{}
	for _, id := range ids {
		r = append(r, l.events("e.connection_id = ?", id))
	}
	return r
}

// onlyAfterFailures reports whether the criteria select only deliveries of which an attempt has failed: their events
// have a last error.
func onlyAfterFailures(c DeliveryCriteria) bool {
	if len(c.ErrorCodes) > 0 {
		return true
	}
	for _, status := range c.HTTPStatuses {
		if status >= http.StatusOK && status < http.StatusMultipleChoices {
			return false
		}
	}
	return len(c.HTTPStatuses) > 0
}
