package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/patch"
)

// rangeInput has a rule over several parameters, and a body with rules of both kinds.
type rangeInput struct {
	RangeQuery
	Name  string     `path:"name" doc:"d"`
	Agent string     `header:"X-Agent" doc:"d"`
	Body  *rangeBody `doc:"d"`
}

// RangeQuery is embedded, as the filters of a list are.
type RangeQuery struct {
	From  patch.Optional[httpapi.Time] `query:"from" doc:"d"`
	To    patch.Optional[httpapi.Time] `query:"to" doc:"d"`
	Least int64                        `query:"least" default:"3" doc:"d"`
	Most  patch.Optional[int64]        `query:"most" maximum:"1000" doc:"d"`
	Exact bool                         `query:"exact" doc:"d"`
	Kinds []string                     `query:"kind,explode" doc:"d"`
	Sizes []int                        `query:"size,explode" maximum:"9" doc:"d"`
	Place string                       `query:"place" maxLength:"5" doc:"d"`
}

// Check refuses a range that ends before it begins.
func (in *rangeInput) Check(ctx context.Context, v *apperr.Violations) {
	note(ctx, "check", in)
	if in.From.Set && in.To.Set && in.To.Value.Millis() < in.From.Value.Millis() {
		v.Add("query.to", "range", "must not lie before from")
	}
	if in.Most.Set && in.Most.Value < in.Least {
		v.Add("query.most", "range", "must not be less than least")
	}
}

type rangeBody struct {
	Low   int64  `json:"low" minimum:"0" doc:"d"`
	High  int64  `json:"high,omitempty" doc:"d"`
	Label string `json:"label,omitempty" doc:"d"`
}

func (b *rangeBody) Check(_ context.Context, v *apperr.Violations) {
	if b.High < b.Low {
		v.Add("high", "range", "must not be less than low")
	}
}

func (b *rangeBody) CheckRefused(_ context.Context, v *apperr.Violations) {
	if b.Label == "taken" {
		v.Add("label", "unique", "is taken")
	}
}

// replaceInput must have a body.
type replaceInput struct {
	RangeQuery
	Name string    `path:"name" doc:"d"`
	Body rangeBody `doc:"d"`
}

func (in *replaceInput) Check(_ context.Context, v *apperr.Violations) {
	if in.Most.Set && in.Most.Value < in.Least {
		v.Add("query.most", "range", "must not be less than least")
	}
}

type notesKey struct{}

// note shows a value to the test that sent the request.
func note(ctx context.Context, what string, in *rangeInput) {
	if notes, ok := ctx.Value(notesKey{}).(func(string, rangeInput)); ok && notes != nil {
		notes(what, *in)
	}
}

func newRanges() *httpapi.API {
	api := httpapi.New(httpapi.Config{Version: "0", Logger: slog.New(slog.DiscardHandler), Auth: auth{},
		Clock: clock.System()})
	httpapi.Register(api, httpapi.Operation{ID: "set-range", Method: http.MethodPost, Path: "/ranges/{name}",
		Status: http.StatusNoContent, Tag: "t", Summary: "s", Description: "d", Permission: access.ConnectionsWrite},
		func(ctx context.Context, in *rangeInput) (*struct{}, error) {
			note(ctx, "handler", in)
			var v apperr.Violations
			if in.Body != nil {
				in.Body.CheckRefused(ctx, &v)
				if in.Body.Label == "bad" {
					v.Add("label", "pattern", "is bad")
				}
			}
			return nil, v.Err()
		})
	return api
}

func send(api *httpapi.API, query, body string, notes func(string, rangeInput)) *httptest.ResponseRecorder {
	//nolint:noctx // set below
	r := httptest.NewRequest(http.MethodPost, prefix+"/ranges/a%20b?"+query, strings.NewReader(body))
	r = r.WithContext(context.WithValue(r.Context(), notesKey{}, notes))
	r.Header.Set("Authorization", "Bearer token")
	r.Header.Set("X-Agent", "agent")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	return w
}

// rangesAPI serves one operation of users, which accepts ranges.
func rangesAPI() *httpapi.API {
	api := httpapi.New(httpapi.Config{Version: "0", Logger: slog.New(slog.DiscardHandler), Auth: auth{},
		Clock: clock.System()})
	httpapi.Register(api, httpapi.Operation{ID: "replace-range", Method: http.MethodPost, Path: "/ranges/{name}",
		Status: http.StatusNoContent, Tag: "t", Summary: "s", Description: "d", Permission: access.ConnectionsWrite},
		func(context.Context, *replaceInput) (*struct{}, error) { return nil, nil }) //nolint:nilnil // has no body
	return api
}

// The rules of a query are checked where the body is missing, and those of the missing body are not.
func TestRulesWithoutTheBody(t *testing.T) {
	t.Parallel()
	api := rangesAPI()
	require.Equal(t, []string{"body required", "query.most range"}, violations(t, send(api, "most=2", "", nil)))
	require.Equal(t, []string{"query.most range", "body.high range"},
		violations(t, send(api, "most=2", `{"low":2,"high":1}`, nil)))
}

// A response has the errors of the schema, of the input's rules, of the body's, and of those that the service checks,
// each once. The rules see what could be read of the parameters. They do not see a body of which a part could not be
// read, because they would report errors that the request does not have.
func TestRulesSpeakWithTheSchema(t *testing.T) {
	t.Parallel()
	api := newRanges()
	const late, early = "from=2026-01-02T00:00:00Z", "to=2026-01-01T00:00:00Z"
	for _, c := range []struct {
		query, body string
		want        []string
	}{
		{late + "&" + early, "", []string{"query.to range"}},
		{late + "&" + early + "&place=toolong", "", []string{"query.place max_length", "query.to range"}},
		{"most=2", `{"low":1,"high":2}`, []string{"query.most range"}},
		{"most=2&x=1", `{"low":2,"high":1,"label":"taken"}`,
			[]string{"query.x unknown_parameter", "query.most range", "body.high range", "body.label unique"}},
		{"", `{"low":2,"high":1}`, []string{"body.high range"}},
		{"", `{"low":2,"high":2,"label":"taken"}`, []string{"body.label unique"}},
		{"", `{"low":2,"high":2,"label":"bad"}`, []string{"body.label pattern"}},
		{"", `{"low":-1,"high":-2,"label":"taken"}`, []string{"body.low minimum", "body.high range", "body.label unique"}},
		{"", `{"low":"x","high":-2,"label":"taken"}`, []string{"body.low type"}},
		{"most=2", `{"low":"x","high":2}`, []string{"body.low type", "query.most range"}},
		{"from=x&most=2", `{"low":`, []string{"query.from format", "body json", "query.most range"}},
		{"size=10,x&most=1", "", []string{"query.size[1] type", "query.most range"}},
	} {
		require.Equal(t, c.want, violations(t, send(api, c.query, c.body, nil)), "%s %s", c.query, c.body)
	}
	require.Equal(t, http.StatusNoContent, send(api, "least=1&most=2", `{"low":1,"high":2,"label":"x"}`, nil).Code)
}

// The rules of a refused request see the parameters as the handler of the same request would: a refusal for something
// else does not change what they say.
func TestRefusedParametersAreBound(t *testing.T) {
	t.Parallel()
	api := newRanges()
	rapid.Check(t, func(rt *rapid.T) {
		q := url.Values{}
		text := rapid.StringMatching(`[a-z,& ]{1,5}`)
		optional := func(name string, value func() string) {
			if rapid.Bool().Draw(rt, name+" given") {
				q.Set(name, value())
			}
		}
		optional("from", func() string { return httpapi.TimeMillis(rapid.Int64Range(0, 1<<40).Draw(rt, "from")).String() })
		optional("least", func() string { return fmt.Sprint(rapid.Int64Range(1, 1000).Draw(rt, "least")) })
		optional("most", func() string { return fmt.Sprint(rapid.Int64Range(1000, 1000).Draw(rt, "most")) })
		optional("exact", func() string { return fmt.Sprint(rapid.Bool().Draw(rt, "exact")) })
		optional("place", func() string { return text.Draw(rt, "place") })
		for range rapid.IntRange(0, 3).Draw(rt, "kinds") {
			q.Add("kind", rapid.StringMatching(`[a-z& ]{1,5}`).Draw(rt, "kind"))
		}
		for range rapid.IntRange(0, 3).Draw(rt, "sizes") {
			q.Add("size", fmt.Sprint(rapid.IntRange(0, 9).Draw(rt, "size")))
		}
		var handled, checked *rangeInput
		w := send(api, q.Encode(), `{"low":1,"high":2}`, func(what string, in rangeInput) {
			if what == "handler" {
				handled = &in
			}
		})
		require.Equal(rt, http.StatusNoContent, w.Code, w.Body)
		w = send(api, q.Encode(), `{"low":-1,"high":2}`, func(_ string, in rangeInput) { checked = &in })
		require.Equal(rt, http.StatusUnprocessableEntity, w.Code, w.Body)
		handled.Body.Low = -1
		require.Equal(rt, handled, checked)
	})
}

// An API key on an operation of users alone gets the reason: another key would not help.
func TestAPIKeyOnAnOperationOfUsers(t *testing.T) {
	t.Parallel()
	api := rangesAPI()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, prefix+"/ranges/a", strings.NewReader("{}"))
	r.Header.Set("API-Key", "key")
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	require.Equal(t, http.StatusUnauthorized, w.Code)
	e := envelopeOf(t, w).Error
	require.Equal(t, apperr.CodeUnauthorized, e.Code)
	require.Contains(t, e.Message, "API keys cannot use it")
}
