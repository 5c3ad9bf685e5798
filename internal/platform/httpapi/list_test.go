package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/page"
)

// numbersInput lists numbers.
type numbersInput struct {
	page.Query
	Group  string   `path:"group" doc:"d"`
	Digits []string `query:"digit,explode" doc:"d"`
	Label  string   `query:"label" doc:"d"`
}

// newLists serves a list of the numbers below n, whose key is the number, in the form of a string of three digits.
func newLists(n int, fit func(*numbersInput, []int) int) *httpapi.API {
	api := httpapi.New(httpapi.Config{Version: "0", Logger: slog.New(slog.DiscardHandler), Auth: auth{},
		Clock: clock.System()})
	rows := func(_ context.Context, in *numbersInput, p page.Request) ([]int, error) {
		if in.Group == "missing" {
			return nil, apperr.NotFound("group")
		}
		var all []int
		for i := range n {
			key := fmt.Sprintf("%03d", i)
			if p.After == "" || p.Ascending && key > p.After || !p.Ascending && key < p.After {
				all = append(all, i)
			}
		}
		if !p.Ascending {
			slices.Reverse(all)
		}
		return all[:min(len(all), p.Fetch())], nil
	}
	for name, permission := range map[string]access.Permission{
		"numbers": access.ConnectionsRead, "others": access.ConnectionsRead, "own": access.AccountRead,
	} {
		httpapi.RegisterList(api, httpapi.Operation{ID: "list-" + name, Method: http.MethodGet, Path: "/{group}/" + name,
			Status: http.StatusOK, Tag: "t", Summary: "s", Description: "d", Permission: permission, Environment: true},
			httpapi.List[numbersInput, int, string]{Rows: rows, Key: func(i *int) string { return fmt.Sprintf("%03d", *i) },
				IsKey: func(key string) bool { return len(key) == 3 },
				View:  func(_ context.Context, i *int) string { return strconv.Itoa(*i) }, Fit: fit})
	}
	return api
}

const numbers = prefix + "/a/numbers"

func get(api *httpapi.API, target, environment string) *httptest.ResponseRecorder {
	return getAs(api, "token", target, environment)
}

func getAs(api *httpapi.API, token, target, environment string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody) //nolint:noctx // of the background
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Environment-Id", environment)
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

const env1, env2 = "env_00000000000000000000000001", "env_00000000000000000000000002"

// walk follows a list from page to page and returns what it showed, page by page.
func walk(t require.TestingT, api *httpapi.API, target string, most int) [][]string {
	var pages [][]string
	for target != "" {
		require.Less(t, len(pages), most, "the list does not end")
		w := get(api, target, env1)
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var rows []string
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &rows))
		require.NotNil(t, rows)
		pages = append(pages, rows)
		link, ok := strings.CutSuffix(w.Header().Get("Link"), `>; rel="next"`)
		require.Equal(t, ok, w.Header().Get("X-Next-Cursor") != "")
		target = strings.TrimPrefix(link, "<")
		require.Equal(t, ok, strings.Contains(target, "cursor="+w.Header().Get("X-Next-Cursor")) && ok)
	}
	return pages
}

// For any limit and order, following the links shows every row once and in order, in pages of the limit, and only the
// last page has no link.
func TestPagesHoldEveryRowOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		n, limit := rapid.IntRange(0, 40).Draw(rt, "rows"), rapid.IntRange(1, 50).Draw(rt, "limit")
		order, fits := rapid.SampledFrom([]string{"asc", "desc"}).Draw(rt, "order"), rapid.IntRange(1, 60).Draw(rt, "fit")
		api := newLists(n, func(*numbersInput, []int) int { return fits })
		var want []string
		for i := range n {
			want = append(want, strconv.Itoa(i))
		}
		if order == "desc" {
			slices.Reverse(want)
		}
		pages := walk(rt, api, fmt.Sprintf("%s?limit=%d&order=%s&digit=1,2&label=a%%20%%26", numbers, limit, order), n+2)
		require.Equal(rt, want, slices.Concat(pages...))
		for _, p := range pages[:len(pages)-1] {
			require.Len(rt, p, min(limit, fits))
		}
	})
}

// A cursor leads on in the list that it came from, however its filters are written; anywhere else it is refused,
// because it would skip rows.
func TestCursorIsBoundToItsList(t *testing.T) {
	t.Parallel()
	api := newLists(10, nil)
	first := get(api, numbers+"?limit=3&digit=2,1&label=x", env1)
	require.Equal(t, http.StatusOK, first.Code, first.Body)
	cursor := "cursor=" + first.Header().Get("X-Next-Cursor")
	for _, same := range []string{
		"?digit=1&digit=2&label=x&", "?label=x&digit=2,1,1&limit=9&order=desc&", "?limit=250&label=x&digit=1,2,1&",
	} {
		w := get(api, numbers+same+cursor, env1)
		require.Equal(t, http.StatusOK, w.Code, same)
		require.True(t, strings.HasPrefix(w.Body.String(), `["6","5","4"`), w.Body)
	}
	for _, other := range []struct{ target, environment string }{
		{numbers + "?digit=1,2&label=x&order=asc", env1}, {numbers + "?digit=1&label=x", env1}, {numbers, env1},
		{numbers + "?digit=1,2", env1}, {numbers + "?digit=1,2&label=X", env1}, {numbers + "?label=1&digit=2,x", env1},
		{numbers + "?digit=1,2&label=x", env2}, {prefix + "/b/numbers?digit=1,2&label=x", env1},
		{prefix + "/a/others?digit=1,2&label=x", env1},
	} {
		join := "?"
		if strings.Contains(other.target, "?") {
			join = "&"
		}
		w := get(api, other.target+join+cursor, other.environment)
		require.Equal(t, []string{"query.cursor cursor"}, violations(t, w), other)
	}
	for _, made := range []string{"x", "AQ", cursor[len("cursor="):] + "AAAA"} {
		require.Equal(t, []string{"query.cursor cursor"},
			violations(t, get(api, numbers+"?digit=2,1&label=x&cursor="+made, env1)), made)
	}
}

// A list of a user's own account is theirs: the cursor of another user is refused.
func TestCursorOfOwnListIsBoundToTheUser(t *testing.T) {
	t.Parallel()
	api := newLists(10, nil)
	target := prefix + "/a/own?limit=3"
	first := getAs(api, "second", target, env1)
	require.Equal(t, http.StatusOK, first.Code, first.Body)
	next := target + "&cursor=" + first.Header().Get("X-Next-Cursor")
	require.Equal(t, http.StatusOK, getAs(api, "second", next, env1).Code)
	require.Equal(t, []string{"query.cursor cursor"}, violations(t, getAs(api, "token", next, env1)))
}

// Whether a list exists and may be read is decided before its cursor is looked at.
func TestCursorIsReadAfterTheListIsFound(t *testing.T) {
	t.Parallel()
	api := newLists(10, nil)
	for _, query := range []string{"", "?cursor=x", "?cursor=AQ&order=asc&limit=9"} {
		w := get(api, prefix+"/missing/numbers"+query, env1)
		require.Equal(t, http.StatusNotFound, w.Code, query)
		require.Equal(t, apperr.CodeNotFound, envelopeOf(t, w).Error.Code)
	}
	require.Equal(t, []string{"query.cursor cursor"}, violations(t, get(api, numbers+"?cursor=x", env1)))
}

// A list that could never turn its pages is an error of the program.
func TestListWithoutPaging(t *testing.T) {
	t.Parallel()
	api := httpapi.New(httpapi.Config{Logger: slog.New(slog.DiscardHandler), Clock: clock.System()})
	require.PanicsWithValue(t, "list-x: struct {} does not embed page.Query", func() {
		httpapi.RegisterList(api, httpapi.Operation{ID: "list-x"}, httpapi.List[struct{}, int, string]{})
	})
}
