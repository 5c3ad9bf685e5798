package events

import (
	"context"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/page"
)

// BoundLists makes lists end after d.
func (s *Store) BoundLists(d time.Duration) { s.readTimeout = d }

// BoundSearch makes every search end after its first query, which looks at so many events.
func (s *Store) BoundSearch(window int) { s.window, s.searchTime = window, -time.Second }

// ListQueries returns the texts and arguments of the queries with which a list looks at its first events.
func (s *Store) ListQueries(ctx context.Context, v access.View, f Filter, p page.Request) ([]string, [][]any, error) {
	l := &listing{store: s, view: v, filter: f, place: p.After, order: p}
	var err error
	if l.forms, err = s.Forms(ctx, v.Environment, f.Types); err != nil {
		return nil, nil, err
	}
	routes, err := l.routes(ctx, s.db.Read())
	if err != nil {
		return nil, nil, err
	}
	var texts []string
	var args [][]any
	for _, r := range routes {
		text, values := l.lastQuery(r, firstWindow)
		texts, args = append(texts, text), append(args, values)
		text, values = l.rowsQuery(r, "", p.Fetch())
		texts, args = append(texts, text), append(args, values)
	}
	return texts, args, nil
}

// LimitWindows makes each query of a list end after so long, unless its window is the smallest.
func (s *Store) LimitWindows(d time.Duration) { s.windowLimit = d }
