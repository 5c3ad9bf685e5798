package events

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/page"
)

// Limits of a list.
const (
	// readTimeout is how long a list may wait and read before its first result.
	readTimeout = 5 * time.Second
	// searchTime is how long a list looks for events before it returns what it has found, with the place to continue.
	searchTime = 500 * time.Millisecond
	// firstWindow, minWindow and maxWindow are how many events one query looks at. The number follows the speed of the
	// queries, so that each takes about windowTime: other lists get their turns between two, and no snapshot is kept for
	// longer.
	firstWindow, minWindow, maxWindow = 1000, 100, 50_000
	// eventsPerWay is how many events a window has at least for each way that leads through it: a query costs that much
	// before it has read any.
	eventsPerWay = 4
	windowTime   = 25 * time.Millisecond
	// windowLimit is how long a query may look. One that takes longer, because what it reads is not in memory, is ended,
	// and a smaller window is looked at instead, for up to twice as long. Only the smallest has no limit.
	windowLimit = 10 * windowTime
)

// List returns a page of the events that the view shows, and one more if another page follows. A filter by key or a
// search finds a duplicate only while the original event exists. A search that is the beginning of too many types is a
// validation error.
//
// If few of many events match, List returns after a while what it has found, possibly nothing, with the uuid up to
// which it has looked: the next page continues after it. The uuid is empty in all other cases. If it finds no time to
// look at any event, it is unavailable.
func (s *Store) List(ctx context.Context, v access.View, f Filter, p page.Request) (list []Event, place string,
	err error) {
	limited, cancel := context.WithTimeout(ctx, s.readTimeout)
	defer cancel()
	l := &listing{store: s, view: v, filter: f, place: p.After, order: p, end: s.clock.Now().Add(s.searchTime)}
	if l.forms, err = s.Forms(limited, v.Environment, f.Types); err == nil {
		list, err = l.run(limited)
	}
	switch {
	case err == nil:
		return list, l.place, nil
	case l.looked && ctx.Err() == nil && (limited.Err() != nil || apperr.Is(err, apperr.CodeUnavailable)):
		return list, l.place, nil // what was found so far is a page, too
	case limited.Err() != nil && ctx.Err() == nil:
		return nil, "", apperr.Wrap(apperr.CodeUnavailable, "The list takes too long with these filters: narrow them, as by "+
			"received_after, connection_id or event_type", err).RetryIn(2 * time.Second)
	default:
		return nil, "", err
	}
}

// listing looks for the events of a list, window by window.
type listing struct {
	store  *Store
	view   access.View
	filter Filter
	// forms are those of the filter's types.
	forms []Form
	order page.Request
	// place is the uuid up to which all events were looked at; empty at the end of the list.
	place string
	// looked is set when a window has been looked at.
	looked bool
	// end is when the search ends with what it has found.
	end time.Time
}

// run returns the events found, in addition to an error.
func (l *listing) run(ctx context.Context) ([]Event, error) {
	found := []Event{}
	owner, clk := string(l.view.Environment), l.store.clock
	routes, err := db.Listed(ctx, l.store.db, owner, l.routes)
	if err != nil {
		return found, fmt.Errorf("list events: %w", err)
	}
	least := minWindow
	for _, r := range routes {
		least = max(least, eventsPerWay*len(r))
	}
	for size, limit := max(l.store.window, least), l.store.windowLimit; ; {
		began, ended := clk.Now(), false
		w, err := db.Listed(ctx, l.store.db, owner, func(ctx context.Context, q db.Querier) (w window, err error) {
			began = clk.Now() // the wait for the turn is over
			if size > least {
				limited, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				defer func() { ended = err != nil && limited.Err() != nil && ctx.Err() == nil }()
				return l.look(limited, q, routes, size, l.order.Fetch()-len(found))
			}
			return l.look(ctx, q, routes, size, l.order.Fetch()-len(found))
		})
		if ended {
			if l.looked && clk.Now().After(l.end) {
				return found, nil
			}
			size, limit = max(size/4, least), 2*limit // its size may not be the reason
			continue
		}
		if err != nil {
			return found, fmt.Errorf("list events: %w", err)
		}
		list, err := l.store.events(ctx, l.view.Environment, w.rows)
		if err != nil {
			return found, fmt.Errorf("list events: %w", err)
		}
		found = append(found, list...)
		l.place, l.looked = w.last, true
		now := clk.Now()
		if l.place == "" || len(found) >= l.order.Fetch() {
			l.place = ""
			return found, nil
		}
		if now.After(l.end) {
			return found, nil
		}
		switch took := now.Sub(began); {
		case took < windowTime/2:
			size = min(size*2, maxWindow)
		case took > windowTime*2:
			size = max(size/2, least)
		}
	}
}

// window is the result of one look.
type window struct {
	rows []row
	// last is the uuid of the window's last event; empty if the window reaches to the end of the list.
	last string
}

// look reads the events of one window: of the routes, the one that gets furthest with size events leads through it.
func (l *listing) look(ctx context.Context, q db.Querier, routes []route, size, limit int) (out window, err error) {
	best := -1
	for i := range routes {
		if len(routes[i]) == 0 {
			return window{}, nil // nothing can match
		}
		last, err := l.lastOf(ctx, q, routes[i], size)
		if err != nil {
			return out, err
		}
		if best < 0 || last == "" || l.comesAfter(last, out.last) {
			best, out.last = i, last
		}
		if last == "" {
			break
		}
	}
	out.rows, err = l.rows(ctx, q, routes[best], out.last, limit)
	return out, err
}

// comesAfter reports whether a comes after b in the order of the list.
func (l *listing) comesAfter(a, b string) bool { return a != b && (a > b) == l.order.Ascending }

// lastOf returns the uuid at which a route has led past size events, or "" if it leads to the end of the list before.
func (l *listing) lastOf(ctx context.Context, q db.Querier, r route, size int) (string, error) {
	query, args := l.lastQuery(r, size)
	var last *string
	if err := q.QueryRowContext(ctx, query, args...).Scan(&last); err != nil || last == nil {
		return "", err
	}
	return *last, nil
}

func (l *listing) lastQuery(r route, size int) (query string, args []any) {
	nearest := "MAX"
	if l.order.Ascending {
		nearest = "MIN"
	}
	w := new(db.Where)
	offset := fmt.Sprintf(" LIMIT 1 OFFSET %d", max(1, size/len(r))-1)
	return "SELECT " + nearest + "(u.event_uuid) FROM (" + l.uuids(w, r, "", offset, " UNION ALL ") + ") u", w.Args()
}

// rows returns the first events of the list that the route leads to, up to the one with the uuid last if it is set.
func (l *listing) rows(ctx context.Context, q db.Querier, r route, last string, limit int) ([]row, error) {
	query, args := l.rowsQuery(r, last, limit)
	return db.Query(ctx, q, columns, query, args...)
}

func (l *listing) rowsQuery(r route, last string, limit int) (query string, args []any) {
	w := shown(l.view)
	l.store.addFilter(w, l.view, l.filter, l.forms)
	names := columns(new(row)).Names()
	tail := fmt.Sprintf(" ORDER BY e.event_uuid %s LIMIT %d", l.order.Direction(), limit)
	if r.isWhole() {
		l.within(w, "e.event_uuid", last)
		return "SELECT " + names + " " + table + w.Text() + tail, w.Args()
	}
	// A subquery with a limit is read as it is written on both engines: by the index of the way. CROSS JOIN keeps SQLite
	// from beginning with the history.
	found := l.uuids(w, r, last, noLimit, " UNION ")
	return "WITH found (event_uuid) AS (" + found + ") SELECT " + names + " FROM found CROSS JOIN webhook_events e" +
		w.Text() + " AND e.event_uuid = found.event_uuid" + tail, w.Args()
}

// noLimit is more than any list has.
const noLimit = " LIMIT 1000000000"

// uuids returns the text of a query for the uuids that the route leads to after the place, up to last if it is set. Its
// arguments are added to those of w. The limit applies to each way.
func (l *listing) uuids(w *db.Where, r route, last, limit, union string) string {
	parts := make([]string, len(r))
	for i, way := range r {
		conditions := w.Embed(func(own *db.Where) { l.within(own.And(way.condition, way.args...), way.column, last) })
		parts[i] = fmt.Sprintf("SELECT w%d.event_uuid FROM (SELECT %s AS event_uuid FROM %s WHERE %s ORDER BY %s %s%s) w%d",
			i, way.column, way.from, conditions, way.column, l.order.Direction(), limit, i)
	}
	return strings.Join(parts, union)
}

// within restricts uuids to those after the place, up to last, and of the filter's time of receipt.
func (l *listing) within(w *db.Where, column, last string) {
	if l.place != "" {
		w.And(column+" "+l.order.Compare()+" ?", l.place)
	}
	if last != "" {
		w.And(column+" "+l.order.CompareThrough()+" ?", last)
	}
	receivedBetween(w, column, l.filter)
}
