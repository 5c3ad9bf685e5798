package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/page"
)

// List defines an operation that lists rows in pages. I is its input, which embeds page.Query. R is a row, and W is the
// wire form of a row.
type List[I, R, W any] struct {
	// Rows returns the rows of a page, and one more where there is one: up to p.Fetch() rows after the key p.After.
	Rows func(ctx context.Context, in *I, p page.Request) ([]R, error)
	// Search is for lists that may have few rows in much history, in place of Rows. It can return fewer rows than follow,
	// with the key up to which it has looked; the page then leads on after that key, even if it has no rows. The key is
	// empty where Rows would have returned the same.
	Search func(ctx context.Context, in *I, p page.Request) (rows []R, place string, err error)
	// Key returns the key of a row, by which the list is in order. The cursor holds it.
	Key func(row *R) string
	// IsKey reports whether a cursor's key can be one of the list's.
	IsKey func(key string) bool
	// View returns what the response shows of a row.
	View func(ctx context.Context, row *R) W
	// Views is for rows that are shown together, in place of View: it may read more about them.
	Views func(ctx context.Context, in *I, rows []R) ([]W, error)
	// Fit, when set, returns how many of the rows fit into a response. It is for rows that can be large, and returns at
	// least 1.
	Fit func(in *I, rows []R) int
}

func (l *List[I, R, W]) rows(ctx context.Context, in *I, p page.Request) (rows []R, place string, err error) {
	if l.Search != nil {
		return l.Search(ctx, in, p)
	}
	rows, err = l.Rows(ctx, in, p)
	return rows, "", err
}

func (l *List[I, R, W]) views(ctx context.Context, in *I, rows []R) ([]W, error) {
	if l.Views != nil {
		return l.Views(ctx, in, rows)
	}
	out := make([]W, len(rows))
	for i := range rows {
		out[i] = l.View(ctx, &rows[i])
	}
	return out, nil
}

// listOutput is the response of a list.
type listOutput[W any] struct {
	page.Headers
	Body []W
}

// pager is implemented by inputs that embed page.Query.
type pager interface {
	Parse(scope string, valid func(key string) bool) (page.Request, error)
}

// RegisterList adds an operation that lists rows. It reads the limit, the cursor and the order from the page.Query of
// the input, and sets the headers that lead to the next page. A cursor is only valid for the list that it came from:
// for the same path, team, environment and filters, in any order. The error of a cursor comes after those of Rows, so
// that a caller who may not read the list learns nothing else.
func RegisterList[I, R, W any](a *API, op Operation, l List[I, R, W]) {
	if _, ok := any(new(I)).(pager); !ok {
		panic(fmt.Sprintf("%s: %s does not embed page.Query", op.ID, reflect.TypeFor[I]()))
	}
	personal := slices.Contains(access.OwnAccount(), op.Permission)
	Register(a, op, func(ctx context.Context, in *I) (*listOutput[W], error) {
		query, _ := any(in).(pager)
		r := RequestFrom(ctx)
		p, badCursor := query.Parse(listScope(ctx, r, personal), l.IsKey)
		rows, place, err := l.rows(ctx, in, p)
		if err != nil {
			return nil, err
		}
		if badCursor != nil {
			return nil, badCursor
		}
		most := p.Limit
		if l.Fit != nil {
			most = min(most, l.Fit(in, rows))
		}
		rows, headers := page.Cut(p, rows, most, place, l.Key, r.URL)
		body, err := l.views(ctx, in, rows)
		return &listOutput[W]{Headers: headers, Body: body}, err
	})
}

// PageScope returns the scope of a cursor of the request, for operations whose response holds a page among other
// things: the path, the team, the environment and the filters.
func PageScope(ctx context.Context) string { return listScope(ctx, RequestFrom(ctx), false) }

// Distinct returns the values of a filter in order and without duplicates.
func Distinct[T cmp.Ordered](values []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

// ConvertAll converts a list of one string type to another. The result is never nil, so that JSON shows it as [].
func ConvertAll[To, From ~string](list []From) []To {
	out := make([]To, len(list))
	for i, v := range list {
		out[i] = To(v)
	}
	return out
}

// listScope returns the scope that a cursor is bound to. A personal list belongs to its principal.
func listScope(ctx context.Context, r *http.Request, personal bool) string {
	p := access.From(ctx)
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q", r.URL.EscapedPath(), p.Team, p.Environment)
	if personal {
		fmt.Fprintf(&b, " %q", p.ID)
	}
	filters := url.Values{}
	for name, values := range r.URL.Query() {
		if name != "limit" && name != "cursor" && name != "order" {
			filters[name] = slices.Compact(slices.Sorted(slices.Values(values)))
		}
	}
	return b.String() + " " + filters.Encode()
}
