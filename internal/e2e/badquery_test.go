package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/id"
)

// parameter is a query parameter as the document describes it.
type parameter struct {
	name string
	// names lead to the schema of one value.
	names    []string
	integer  bool
	maxItems int
	list     bool
}

func queryParameters(w *world, s sample) []parameter {
	w.t.Helper()
	names := []string{"paths", s.op.Path, strings.ToLower(s.op.Method), "parameters"}
	list, _ := at(published().root, names...).([]any)
	var out []parameter
	for i, p := range list {
		m := members(p)
		if m["in"] != "query" {
			continue
		}
		q := parameter{name: text(m["name"]), names: append(slices.Clone(names), strconv.Itoa(i), "schema")}
		schema := members(m["schema"])
		if schema["type"] == "array" {
			if n, ok := schema["maxItems"].(json.Number); ok {
				most, err := n.Int64()
				require.NoError(w.t, err)
				q.maxItems = int(most)
			}
			q.list = true
			q.names, schema = append(q.names, "items"), members(schema["items"])
		}
		if schema["type"] == "object" { // one of its members stands for all
			q.name += ".a"
			q.names, schema = append(q.names, "additionalProperties"), members(schema["additionalProperties"])
		}
		q.integer = schema["type"] == "integer"
		out = append(out, q)
	}
	return out
}

// queryCandidates are texts of every kind, without commas, which part the values of a list.
func queryCandidates() []string {
	return []string{
		"0", "1", "-1", "250", "251", "99", "600", "1.5", "1e2", "99999999999999999999", "0x10", "true", "null", canary,
		canary + "\x00", "\xff", " ", "*", "a.*", "a*", ".*", "**", "-", "%", "'", `"`, strings.Repeat(canary, 200),
		"2026-13-01T00:00:00Z", "2026-03-04", "2026-03-04T00:00:00Z", "9999-12-31T23:59:59Z", "0000-01-01T00:00:00Z",
		"2026-03-04T00:00:00+23:59", "ASC", "desc", "failed",
	}
}

// A parameter that the document does not know, or a value that its schema refuses, is a 422 at its place; any other
// value gets a response, and none causes an error of the server.
func TestBadQueries(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		refused := 0
		for _, s := range w.samples(f) {
			get := func(query string) response {
				return w.call(w.user(w.env), s.op.Method, s.url("", "")+"?"+query, bodyOf(s))
			}
			w.unchanged(func() {
				require.Equal(w.t, []string{"query.no_such_parameter unknown_parameter"},
					get("no_such_parameter="+canary).violations(w))
				for _, p := range queryParameters(w, s) {
					if p.name == "ticket" {
						continue // a credential: see TestStreamTickets
					}
					schema := published().schema(w.t, p.names...)
					for _, c := range queryCandidates() {
						var v any = c
						if _, err := strconv.ParseInt(c, 10, 64); p.integer && err == nil {
							v = json.Number(c)
						}
						a := get(p.name + "=" + url.QueryEscape(c))
						if schema.Validate(v) == nil {
							w.harmless(a)
							continue
						}
						refused++
						w.at(a, "query."+p.name)
					}
				}
			})
		}
		require.Greater(w.t, refused, 100)
		require.NotContains(w.t, w.logs.String(), canary)
	})
}

// A parameter given more than once, without a value or a thousand times is refused or taken, and never an error of the
// server.
func TestDuplicateParameters(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		given := 0
		for _, s := range w.samples(f) {
			get := func(query string) response {
				return w.call(w.user(w.env), s.op.Method, s.url("", "")+"?"+query, bodyOf(s))
			}
			w.unchanged(func() {
				for _, p := range queryParameters(w, s) {
					if p.name != "ticket" { // a credential: see TestStreamTickets
						w.many(p, get)
						given++
					}
				}
			})
		}
		require.Greater(w.t, given, 50)
	})
}

// bodyOf is the sample's body, and no body where it has none.
func bodyOf(s sample) any {
	if s.body == nil {
		return nil
	}
	return s.body
}

// many gives a parameter more than once: with no value, with values after commas, and as often as a URL is long.
func (w *world) many(p parameter, get func(string) response) {
	w.t.Helper()
	name := p.name + "="
	for _, q := range []string{name, name + ",", name + "a,,b", name + "&" + name, name + "a&" + name + "b", p.name, name +
		"%", name + "%zz", name + "a;b=c"} {
		w.harmless(get(q))
	}
	value := strings.Repeat("&"+name+"a", 3000)[1:]
	if p.maxItems > 0 {
		w.at(get(value), "query."+p.name)
		w.at(get(name+strings.Repeat("a,", p.maxItems)+"a"), "query."+p.name)
		return
	}
	w.harmless(get(value))
}

// A cursor goes on where its page ended, in its list, with its filters, in its environment; anywhere else it is
// refused. Followed to the end, pages show each row once.
func TestCursors(t *testing.T) {
	t.Parallel()
	eachPopulatedTwice(t, func(w *world, f, elsewhere fixtures) {
		other := elsewhere.environment
		cursors := map[string]string{}
		lists := w.listSamples(f)
		for _, s := range lists {
			cursors[s.op.ID] = w.pages(s)
		}
		require.GreaterOrEqual(w.t, len(lists), 17)
		w.unchanged(func() {
			for _, s := range lists {
				refused := func(c credentials, query string) {
					w.t.Helper()
					require.Equal(w.t, []string{"query.cursor cursor"}, w.call(c, s.op.Method, s.url("", "")+"?"+query,
						nil).violations(w), query)
				}
				own := cursors[s.op.ID]
				for _, c := range []string{canary, "AA", own[:len(own)-1], own + "A", "B" + own[1:], strings.ToLower(own),
					own[:12]} {
					refused(w.user(w.env), "cursor="+c)
				}
				refused(w.user(w.env), "order="+reversed(usualOrder(s))+"&cursor="+own)
				for id, cursor := range cursors {
					if id != s.op.ID {
						refused(w.user(w.env), "cursor="+cursor)
					}
				}
				for _, filter := range w.filters(s) {
					if s.op.EnvironmentQuery && filter == "environment_id="+w.env {
						continue // the header of the first page says the same
					}
					refused(w.user(w.env), filter+"&cursor="+own)
				}
				if (s.op.Environment || s.op.EnvironmentQuery) && !strings.Contains(s.op.Path, "{") {
					refused(w.user(other), "cursor="+own)
				}
			}
		})
	})
}

// usualOrder is the order of a list whose request names none: by time the newest first, by name the alphabet.
func usualOrder(s sample) string {
	switch s.op.ID {
	case "list-webhook-event-types", "list-catalog", "list-catalog-import-changes":
		return "asc"
	default:
		return "desc"
	}
}

func reversed(order string) string { return map[string]string{"asc": "desc", "desc": "asc"}[order] }

// pages follows a list in pages of one, in both orders, and returns the first cursor of the order that is the default.
func (w *world) pages(s sample) string {
	w.t.Helper()
	var whole []object
	w.call(w.user(w.env), s.op.Method, s.url("", "")+"?limit=250&"+s.narrow, nil).want(w, http.StatusOK).into(w,
		&whole)
	require.Greater(w.t, len(whole), 1, s.op.ID)
	first := ""
	usual := usualOrder(s)
	for _, order := range []string{reversed(usual), usual} {
		var rows []object
		for next := s.url("", "") + "?limit=1&order=" + order + "&" + s.narrow; next != ""; {
			a := w.call(w.user(w.env), s.op.Method, next, nil).want(w, http.StatusOK)
			var page []object
			a.into(w, &page)
			require.Len(w.t, page, 1)
			rows = append(rows, page...)
			next = ""
			if cursor := a.header.Get("X-Next-Cursor"); cursor != "" {
				first = map[bool]string{true: cursor, false: first}[len(rows) == 1]
				link, ok := strings.CutSuffix(a.header.Get("Link"), `>; rel="next"`)
				require.True(w.t, ok)
				next = strings.TrimPrefix(link, "<"+prefix)
				require.Contains(w.t, next, "cursor="+cursor)
			} else {
				require.Empty(w.t, a.header.Get("Link"))
			}
		}
		if order != usual {
			slices.Reverse(rows)
		}
		require.Equal(w.t, whole, rows, "%s in pages, %s", s.op.ID, order)
	}
	return first
}

// An id that cannot be one of its kind is not found, as an unknown one, and the response says no more.
func TestImpossibleIDs(t *testing.T) {
	t.Parallel()
	eachPopulated(t, func(w *world, f fixtures) {
		odd := []string{
			"nope", canary, strings.ToUpper(f.event()), strings.ReplaceAll(f.event(), "-", ""), f.event() + "0", f.event()[:35],
			"{" +
				f.event() + "}", strings.ToUpper(f.subscription().ID), f.subscription().ID + "0", "sub_", "sub_" +
				strings.Repeat("u", 26), f.key()[:29], id.NewUUID(),
			id.New(id.PrefixSubscription), id.New(id.PrefixAPIKey), "%00", "%ff", "a%00b", "%20", "..%2f", "%2e%2e",
			"'%20OR%20'1'='1", "%25", "*", "-1", strings.Repeat("a", 5000), "%E2%80%AE", "null", "%2F", "..", ".",
		}
		samples := w.samples(f)
		// A token is a credential: an invalid one is refused as such, and after many of them before it is read. The number of
		// attempts is kept.
		const token = "token"
		call := func(s sample, name string, refused ...int) {
			for _, v := range odd {
				a := w.call(w.user(w.env), s.op.Method, s.url(name, v), bodyOf(s))
				require.Contains(w.t, refused, a.status, "%s %s: %s", s.op.ID, v, a.body)
				require.NotContains(w.t, string(a.body), canary)
			}
		}
		w.unchanged(func() {
			for _, s := range samples {
				for name := range s.path {
					if name != token {
						call(s, name, http.StatusNotFound)
					}
				}
			}
		})
		for _, s := range samples {
			if _, ok := s.path[token]; ok {
				call(s, token, http.StatusNotFound, http.StatusUnauthorized, http.StatusTooManyRequests)
			}
		}
	})
}

// Where there is no route, the response is the envelope.
func TestUnknownRoutes(t *testing.T) {
	t.Parallel()
	each(t, func(w *world) {
		for _, path := range []string{"/nope", "/webhook-events/", "/webhook-events//x", "/api-keys/x/y", "/%00", "/teams",
			"/connections/github", "//", "/" + canary} {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, "PROPFIND"} {
				a := w.call(w.user(w.env), method, path, nil)
				a.refused(w, http.StatusNotFound, apperr.CodeHTTP)
				require.NotContains(w.t, string(a.body), canary)
			}
		}
	})
}
