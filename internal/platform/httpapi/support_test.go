package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/patch"
)

// auth knows the key "key" and the tokens "token" and "second", which are of two users.
type auth struct{}

func (auth) KnowsAPIKey(string) bool { return false }

func (auth) APIKey(_ context.Context, key, _ string) (access.Principal, error) {
	if key != "key" {
		return access.Principal{}, apperr.New(apperr.CodeUnauthorized, "no")
	}
	return access.Principal{Kind: access.KindAPIKey, ID: "key_x", Grants: access.Open(access.RouteConnections)}, nil
}

func (auth) Bearer(_ context.Context, token string) (access.Principal, error) {
	user, ok := map[string]string{"token": "usr_x", "second": "usr_y"}[token]
	if !ok {
		return access.Principal{}, apperr.New(apperr.CodeUnauthorized, "no")
	}
	return access.Principal{Kind: access.KindUser, ID: user, Rights: access.Owner.Rights()}, nil
}

func (auth) Environment(_ context.Context, _ access.Principal, environment string) (id.Environment, error) {
	return id.Environment(environment), nil
}

// listInput has a parameter of each kind.
type listInput struct {
	Limit  int                          `query:"limit" minimum:"1" maximum:"250" default:"50" doc:"d"`
	Name   string                       `query:"name" doc:"d"`
	Order  string                       `query:"order" enum:"asc,desc" default:"desc" doc:"d"`
	At     patch.Optional[httpapi.Time] `query:"at" doc:"d"`
	Tag    []string                     `query:"tag,explode" doc:"d"`
	Number []int                        `query:"number,explode" maximum:"9" doc:"d"`
	Label  map[string]string            `query:"label,deepObject,explode" maxProperties:"2" doc:"d"`
}

type listOutput struct{ Body seen }

// seen is the handler's input.
type seen struct {
	Limit  int           `json:"limit"`
	Name   string        `json:"name"`
	At     *httpapi.Time `json:"at" nullable:"true"`
	Tag    []string      `json:"tag"`
	Number []int         `json:"number"`

	Label map[string]string `json:"label,omitempty"`
}

// thing has a member of each kind.
type thing struct {
	httpapi.RuleLimits
	Name   string                    `json:"name" doc:"d"`
	Note   *string                   `json:"note,omitempty" doc:"d"`
	Count  patch.Optional[int64]     `json:"count,omitempty" maximum:"9" doc:"d"`
	Clear  patch.Field[string]       `json:"clear,omitempty" doc:"d"`
	Parts  []part                    `json:"parts,omitempty" doc:"d"`
	Labels map[string]*string        `json:"labels,omitempty" doc:"d"`
	Whole  httpapi.OrNull[part]      `json:"whole,omitempty" doc:"d"`
	Free   patch.Object              `json:"free,omitempty" doc:"d"`
	Inner  patch.Optional[innerPart] `json:"inner,omitempty" doc:"d"`
	Depth  *int                      `json:"inner_depth,omitempty" doc:"d"`
}

type part struct {
	Size int `json:"size" doc:"d"`
}

type innerPart struct {
	Words []string `json:"words,omitempty" doc:"d"`
}

// CheckRefused has the rules look at a refused body.
func (b *thing) CheckRefused(_ context.Context, v *apperr.Violations) {
	if c := b.Count.Pointer(); c != nil && *c > 9 {
		v.Add("count", "maximum", "must be at most 9")
	}
}

type createInput struct {
	Loud bool `query:"loud" doc:"d"`
	Body thing
}

type createOutput struct{ Body map[string]any }

// server serves two operations, one that fails as configured, and a plain route.
type server struct {
	t   *testing.T
	api *httpapi.API
	log *logBuffer
}

func newServer(t *testing.T, fail func(context.Context) error, trusted ...string) *server {
	t.Helper()
	log := &logBuffer{}
	cfg := httpapi.Config{Version: "0", Logger: slog.New(slog.NewJSONHandler(log, nil)), Auth: auth{},
		Clock: clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))}
	for _, p := range trusted {
		cfg.TrustedProxies = append(cfg.TrustedProxies, netip.MustParsePrefix(p))
	}
	api := httpapi.New(cfg)
	op := func(o httpapi.Operation) httpapi.Operation {
		o.Tag, o.Permission, o.Route, o.Path = "things", access.ConnectionsWrite, access.RouteConnections, "/"+o.Path
		o.Summary, o.Description = "s", "d"
		return o
	}
	httpapi.Register(api, op(httpapi.Operation{ID: "list-things", Method: http.MethodGet, Path: "things",
		Status: http.StatusOK}), func(_ context.Context, in *listInput) (*listOutput, error) {
		return &listOutput{seen{in.Limit, in.Name, in.At.Pointer(), in.Tag, in.Number, in.Label}}, nil
	})
	httpapi.Register(api, op(httpapi.Operation{ID: "create-thing", Method: http.MethodPost, Path: "things",
		Status: http.StatusCreated, OtherStatuses: []int{http.StatusOK}, MaxBodyBytes: 1 << 20}),
		func(ctx context.Context, in *createInput) (*createOutput, error) {
			var v apperr.Violations
			in.Body.CheckRefused(ctx, &v)
			return &createOutput{map[string]any{"name": in.Body.Name, "clear": in.Body.Clear}}, v.Err()
		})
	httpapi.Register(api, op(httpapi.Operation{ID: "fail", Method: http.MethodGet, Path: "fail",
		Status: http.StatusNoContent}), func(ctx context.Context, _ *struct{}) (*struct{}, error) { return nil, fail(ctx) })
	httpapi.Register(api, httpapi.Operation{ID: "login", Method: http.MethodPost, Path: "/login",
		Status: http.StatusNoContent, Public: true, Tag: "things", Summary: "s", Description: "d",
		Errors: []apperr.Code{apperr.CodeUnauthorized}}, func(ctx context.Context, _ *struct{}) (*struct{}, error) {
		return nil, fail(ctx)
	})
	api.Handle("POST "+httpapi.Prefix+"/plain", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpapi.WriteError(w, r, fail(r.Context()))
	}))
	return &server{t, api, log}
}

// do serves a request with the key, unless the headers, in pairs, say who asks.
func (s *server) do(method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(s.t.Context(), method, target, strings.NewReader(body))
	if len(headers) == 0 {
		headers = []string{"API-Key", "key"}
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return s.serve(r)
}

func (s *server) serve(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	return w
}

// violations returns the entries of a validation error as "location rule".
func violations(t *testing.T, w *httptest.ResponseRecorder) []string {
	t.Helper()
	e := envelopeOf(t, w)
	require.Equal(t, apperr.CodeValidation, e.Error.Code, w.Body)
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	out := make([]string, len(e.Error.Details))
	for i, d := range e.Error.Details {
		out[i] = d.Location + " " + d.Rule
		require.NotEmpty(t, d.Message)
	}
	return out
}

type envelope struct {
	Error struct {
		Code    apperr.Code     `json:"code"`
		Message string          `json:"message"`
		Details []apperr.Detail `json:"details"`
	} `json:"error"`
}

func envelopeOf(t *testing.T, w *httptest.ResponseRecorder) (e envelope) {
	t.Helper()
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e), w.Body)
	return e
}

// logBuffer keeps what is logged.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends a line.
func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// line returns the only line, and forgets it.
func (l *logBuffer) line(t *testing.T) map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var line map[string]any
	require.NoError(t, json.Unmarshal(l.b.Bytes(), &line), l.b.String())
	l.b.Reset()
	return line
}
