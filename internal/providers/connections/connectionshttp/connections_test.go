package connectionshttp_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/platform/testkit/await"
	"sallyport/internal/providers/configs"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/connections/connectionshttp"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/probes"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/tokens"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// auth knows each environment by an API key that is its id, without the right to connections where "blind-" precedes
// it, and one viewer.
type auth struct{}

func (auth) KnowsAPIKey(string) bool { return false }

func (auth) APIKey(_ context.Context, key, _ string) (access.Principal, error) {
	env, blind := strings.CutPrefix(key, "blind-")
	p := access.Principal{Kind: access.KindAPIKey, ID: "key_x", Team: "team_x", Environment: id.Environment(env)}
	if !blind {
		p.Grants = access.Open(access.RouteConnections)
	}
	return p, nil
}

func (auth) Bearer(context.Context, string) (access.Principal, error) {
	return access.Principal{Kind: access.KindUser, ID: "usr_x", Team: "team_x", Rights: access.Viewer.Rights()}, nil
}

func (auth) Environment(_ context.Context, _ access.Principal, environment string) (id.Environment, error) {
	return id.Environment(environment), nil
}

// live takes every environment for one that is there.
type live struct{}

func (live) RequireLive(context.Context, *sql.Tx, id.Environment) error { return nil }

type server struct {
	t    *testing.T
	api  *httpapi.API
	url  string
	a, b string // environments, and their keys
}

func newServer(t *testing.T, s testkit.Store) *server {
	t.Helper()
	keyset := filepath.Join(s.Dir, "keyset.json")
	require.NoError(t, secretbox.Create(keyset))
	box, err := secretbox.Open(secretbox.Source{Path: keyset})
	require.NoError(t, err)
	reg, err := registry.Builtin()
	require.NoError(t, err)
	now := clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 8_000_000, time.UTC))
	log := slog.New(slog.DiscardHandler)
	svc, err := connections.New(connections.Config{
		Vault: credentials.NewVault(credentials.Config{DB: s.DB, Clock: now, Box: box,
			Pepper: installation.Pepper("a pepper of the tests")}),
		Prober: probes.New(probes.Config{Clock: now,
			Client: egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{})}),
		Protocol: tokens.NewProtocol(egress.New(egress.Policy{AllowLoopback: true, AllowHTTP: true}, egress.Options{}),
			now),
		AllowHTTP: true,
		DB:        s.DB, Clock: now, Box: box, Providers: reg,
		Environments: live{}, Logger: log, Configs: configs.New(configs.Options{DB: s.DB, Clock: now, Box: box,
			Providers: reg, Environments: live{}, Connections: connections.CountOfConfig})})
	require.NoError(t, err)
	api := httpapi.New(httpapi.Config{Version: "0", Logger: log, Clock: now, Auth: auth{}})
	connectionshttp.Mount(api, svc, nil, "https://gateway.example/")
	ts := httptest.NewServer(api)
	await.Close(t, ts)
	srv := &server{t: t, api: api, url: ts.URL, a: id.New(id.PrefixEnvironment), b: id.New(id.PrefixEnvironment)}
	_, err = s.DB.Write().ExecContext(t.Context(), `INSERT INTO teams (id, name, created_ms) VALUES ('team_x', 'x', 0)`)
	require.NoError(t, err)
	for _, env := range []string{srv.a, srv.b} {
		_, err = s.DB.Write().ExecContext(t.Context(),
			`INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, 'team_x', $1, 0)`, env)
		require.NoError(t, err)
	}
	return srv
}

type answer struct {
	status int
	header http.Header
	text   string
}

// json returns the body, which is one object.
func (a answer) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.text), &v), a.text)
	return v
}

func (a answer) code(t *testing.T) string {
	t.Helper()
	var v struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.text), &v), a.text)
	return v.Error.Code
}

func (s *server) do(key, method, path, body string, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	if key != "" {
		req.Header.Set("API-Key", key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	require.NotContains(s.t, string(text), secret, "a secret never comes back")
	return answer{resp.StatusCode, resp.Header, string(text)}
}

const (
	collection = "/api/v1/connections"
	item       = collection + "/standard-webhooks/acme"
)

// A connection has one form on the wire, in every response, and its life is create, change, operate, delete.
func TestLife(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, st testkit.Store) {
		t.Helper()
		s := newServer(t, st)
		made := s.do(s.a, http.MethodPost, collection, `{"provider":"standard-webhooks","connection_id":"acme",`+
			`"webhook_secret":"`+secret+`",
			"tags":{"team":"a"},"metadata":{"n":12345678901234567890.10},"webhook":{"dedupe_window_seconds":0}}`)
		require.Equal(t, http.StatusCreated, made.status, made.text)
		require.Equal(t, item, made.header.Get("Location"))
		c := made.json(t)
		url, _ := c["webhook_url"].(string)
		token := strings.TrimPrefix(url, "https://gateway.example/api/v1/webhook/")
		require.True(t, id.Is(id.PrefixPathToken, token), url)
		uuid, _ := c["uuid"].(string)
		require.True(t, id.IsUUID(uuid))
		want := `{"uuid":"` + uuid + `","connection_id":"acme","webhook_alias":"acme","webhook":{"params":{},` +
			`"dedupe_window_seconds":0,"duplicates":{"summary":"A webhook with the id of an earlier one is a duplicate ` +
			`(header:webhook-id). Without an id, each webhook is a new event, also with an equal body.",` +
			`"ids":[{"source":"header:webhook-id","signed":true}],"single_use":[],"same_body_seconds":0,"suspect_seconds":0},
			"event_type_known":true,
			"redeliver_on_duplicate":true,"max_body_bytes":10485760,"same_body_new_id":"accept","scheme":null,"url_base":null,` +
			`"source_cidrs":[],
			"rate_limit_per_second":null,"has_secret":true,"secret_required":true,"secret_hint":"LaSw"},
			"provider_config_key":"standard-webhooks","provider":"standard-webhooks","environment_id":"` + s.a + `",
			"owner_user_id":null,
			"auth_mode":"none","connection_config":{},"credentials":null,"scopes":null,"account":null,"health":null,
			"rate_limit":null,"status":"active","status_reason":null,"tags":{"team":"a"},
			"metadata":{"n":12345678901234567890.10},
			"webhook_url":"` + url + `","connect_url":null,"connect_expires_at":null,"connect_modes":null,
			"reconnect_url":null,"reconnect_expires_at":null,
			"created_at":"2026-03-04T05:06:07.008Z","updated_at":"2026-03-04T05:06:07.008Z"}`
		require.JSONEq(t, want, made.text)
		require.Contains(t, made.text, `"n":12345678901234567890.10`, "digits stay")

		require.JSONEq(t, want, s.do(s.a, http.MethodGet, item, "").text)
		require.JSONEq(t, "["+want+"]", s.do(s.a, http.MethodGet, collection+
			"?q=ac&provider=github,standard-webhooks&status=active", "").text)

		again := s.do(s.a, http.MethodPost, collection, `{"provider":"standard-webhooks","connection_id":"acme"}`)
		require.Equal(t, http.StatusConflict, again.status)
		require.Equal(t, "connection_exists", again.code(t))
		changed := s.do(s.a, http.MethodPost, collection,
			`{"provider_config_key":"standard-webhooks","connection_id":"acme","on_conflict":"update","tags":{"team":null,`+
				`"k":"v"}}`)
		require.Equal(t, http.StatusOK, changed.status, changed.text)
		require.Empty(t, changed.header.Get("Location"))
		require.Equal(t, map[string]any{"k": "v"}, changed.json(t)["tags"])

		patch := s.do(s.a, http.MethodPatch, item,
			`{"webhook_secret":null,"metadata":null,"webhook":{"alias":null,"dedupe_window_seconds":null,"max_body_bytes":7}}`)
		require.Equal(t, http.StatusOK, patch.status, patch.text)
		patched := patch.json(t)
		require.Nil(t, patched["webhook_alias"])
		require.Equal(t, map[string]any{}, patched["metadata"])
		webhook, _ := patched["webhook"].(map[string]any)
		delete(webhook, "duplicates") // which is as above
		require.Equal(t, map[string]any{"params": map[string]any{}, "dedupe_window_seconds": nil,
			"event_type_known":       true,
			"redeliver_on_duplicate": true, "max_body_bytes": 7.0, "same_body_new_id": "accept", "scheme": nil, "url_base": nil,
			"source_cidrs": []any{}, "rate_limit_per_second": nil, "has_secret": false,
			"secret_required": true, "secret_hint": nil}, webhook)
		require.Equal(t, "acme", s.do(s.a, http.MethodPost, item, `{"webhook":{"alias":"acme"}}`).json(t)["webhook_alias"])

		operate := func(name string) map[string]any {
			a := s.do(s.a, http.MethodPost, item, `{"operation":"`+name+`"}`)
			require.Equal(t, http.StatusOK, a.status, a.text)
			return a.json(t)
		}
		require.Equal(t, "disabled", operate("disable")["status"])
		require.Equal(t, "active", operate("enable")["status"])
		require.NotEqual(t, url, operate("rotate_webhook_path")["webhook_url"])
		gone := operate("delete")
		require.Equal(t, true, gone["deleted"])
		require.Equal(t, false, gone["upstream_revoked"])
		require.NotEmpty(t, gone["reason"])
		require.Equal(t, http.StatusNotFound, s.do(s.a, http.MethodGet, item, "").status)

		s.do(s.a, http.MethodPost, collection, `{"provider":"standard-webhooks","connection_id":"acme"}`)
		deleted := s.do(s.a, http.MethodDelete, item, "")
		require.Equal(t, http.StatusNoContent, deleted.status)
		require.Empty(t, deleted.text)
		require.Equal(t, "not_found", s.do(s.a, http.MethodDelete, item, "").code(t))
	})
}

// A body of the wrong shape, or one that breaks rules, is a 422 that lists its validation errors by place and rule and
// quotes no value. Nothing is accepted and ignored.
func TestViolations(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, method, path, body string
		want                     []string
	}{
		{"no body", http.MethodPost, collection, ``, []string{"body required"}},
		{"not JSON", http.MethodPost, collection, `{`, []string{"body json"}},
		{"not built", http.MethodPost, collection, `{"provider":"github","risk":{}}`,
			[]string{"body.risk unknown_field"}},
		{"no credentials", http.MethodPost, collection, `{"provider":"github","credentials":[]}`,
			[]string{"body.credentials type"}},
		{"credential type", http.MethodPost, collection, `{"provider":"github","credentials":{"token":7}}`,
			[]string{"body.credentials.token type"}},
		{"types", http.MethodPost, collection, `{"provider":7,"tags":[],"webhook":{"max_body_bytes":"x","no_such_field":""}}`,
			[]string{"body.provider type", "body.tags type", "body.webhook.max_body_bytes type",
				"body.webhook.no_such_field unknown_field"}},
		{"tag type", http.MethodPost, collection, `{"provider":"github","tags":{"k":1}}`, []string{"body.tags.k type"}},
		{"nulls", http.MethodPost, collection,
			`{"provider":null,"provider_config_key":null,"connection_id":null,"on_conflict":null,"webhook":null}`,
			[]string{"body.connection_id not_null", "body.on_conflict not_null", "body.provider not_null",
				"body.provider_config_key not_null", "body.webhook not_null"}},
		{"nulls inside", http.MethodPatch, item,
			`{"webhook":{"redeliver_on_duplicate":null,"max_body_bytes":null,"same_body_new_id":null}}`,
			[]string{"body.webhook.max_body_bytes not_null", "body.webhook.redeliver_on_duplicate not_null",
				"body.webhook.same_body_new_id not_null"}},
		{"rules of schema and domain together", http.MethodPost, collection, `{"provider":"standard-webhooks",
			"connection_id":"!","on_conflict":"x",
			"webhook_secret":"whsec_***","tags":{"T":"v"},"webhook":{"alias":"","params":{"p":"v"},"dedupe_window_seconds":-1,
			"max_body_bytes":0,"same_body_new_id":"x"}}`,
			[]string{"body.connection_id pattern", "body.on_conflict enum", "body.tags pattern", "body.webhook.alias pattern",
				"body.webhook.dedupe_window_seconds minimum", "body.webhook.max_body_bytes minimum",
				"body.webhook.params.p unknown", "body.webhook.same_body_new_id enum", "body.webhook_secret format"}},
		{"immutable", http.MethodPatch, item, `{"connection_id":"x","provider":"github","status":"disabled"}`,
			[]string{"body.connection_id unknown_field", "body.provider unknown_field", "body.status unknown_field"}},
		{"operation", http.MethodPost, item, `{"operation": "explode"}`, []string{"body.operation enum"}},
		{"operation and change", http.MethodPost, item,
			`{"operation":"disable","tags":{},"webhook":{},"metadata":null,"webhook_secret":"x"}`,
			[]string{"body.metadata alone", "body.tags alone", "body.webhook alone", "body.webhook_secret alone"}},
		{"terms of a link without its operation", http.MethodPost, item, `{"connect":{"redirect_url":"` +
			strings.Repeat("x", 2049) + `","state":"\n","scopes":["a b"],"expires_in":9223372036854775807}}`,
			[]string{"body.connect coherent", "body.connect.expires_in maximum", "body.connect.redirect_url max_length",
				"body.connect.scopes[0] pattern", "body.connect.state pattern"}},
		{"terms of a link with other errors", http.MethodPost, item,
			`{"operation":"reconnect","tags":{},"connect":{"scopes":["a","\""],"expires_in":0}}`,
			[]string{"body.connect.expires_in range", "body.connect.scopes[1] pattern", "body.tags alone"}},
		{"terms of a link to create", http.MethodPost, collection,
			`{"provider":"github","no_such_field":1,"connect":{"expires_in":59}}`,
			[]string{"body.connect.expires_in range", "body.no_such_field unknown_field"}},
		{"operation null", http.MethodPost, item, `{"operation":null}`, []string{"body.operation not_null"}},
		{"query", http.MethodGet, collection + "?status=gone&limit=251&color=red&tag=k=v", "",
			[]string{"query.color unknown_parameter", "query.limit maximum", "query.status[0] enum", "query.tag type"}},
		{"query with empty values", http.MethodGet, collection + "?q=&status=&provider=github,", "",
			[]string{"query.provider[1] empty", "query.q empty", "query.status[0] empty"}},
		{"query values", http.MethodGet, collection + "?status=gone&limit=251&q=%25&provider=A", "",
			[]string{"query.limit maximum", "query.provider[0] pattern", "query.q pattern", "query.status[0] enum"}},
		{"cursor", http.MethodGet, collection + "?cursor=x", "", []string{"query.cursor cursor"}},
	}
	testkit.Each(t, func(t *testing.T, st testkit.Store) {
		t.Helper()
		s := newServer(t, st)
		require.Equal(t, http.StatusCreated, s.do(s.a, http.MethodPost, collection,
			`{"provider":"standard-webhooks","connection_id":"acme"}`).status)
		before := s.do(s.a, http.MethodGet, collection, "").text
		for _, c := range cases {
			a := s.do(s.a, c.method, c.path, c.body)
			require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s: %s", c.name, a.text)
			var v struct {
				Error struct {
					Code    apperr.Code     `json:"code"`
					Message string          `json:"message"`
					Details []apperr.Detail `json:"details"`
				} `json:"error"`
			}
			require.NoError(t, json.Unmarshal([]byte(a.text), &v), c.name)
			require.Equal(t, apperr.CodeValidation, v.Error.Code, c.name)
			require.Equal(t, "Invalid request", v.Error.Message, c.name)
			var got []string
			for _, d := range v.Error.Details {
				got = append(got, d.Location+" "+d.Rule)
			}
			require.ElementsMatch(t, c.want, got, c.name)
		}
		require.Equal(t, before, s.do(s.a, http.MethodGet, collection, "").text)
	})
}

// No one sees or changes a connection without the right to, or from another environment.
func TestAccess(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, st testkit.Store) {
		t.Helper()
		s := newServer(t, st)
		create := `{"provider":"standard-webhooks","connection_id":"acme"}`
		require.Equal(t, http.StatusCreated, s.do(s.a, http.MethodPost, collection, create).status)
		requests := []struct {
			method, path, body string
			write              bool
		}{
			{http.MethodGet, collection, "", false},
			{http.MethodGet, item, "", false},
			{http.MethodPost, collection, `{"provider":"standard-webhooks","connection_id":"other"}`, true},
			{http.MethodPatch, item, `{"tags":{}}`, true},
			{http.MethodPost, item, `{"operation":"disable"}`, true},
			{http.MethodDelete, item, "", true},
		}
		for _, r := range requests {
			require.Equal(t, "unauthorized", s.do("", r.method, r.path, r.body).code(t))
			require.Equal(t, "grant_denied", s.do("blind-"+s.a, r.method, r.path, r.body).code(t))
			require.Equal(t, "environment_required", s.do("", r.method, r.path, r.body, "Authorization", "Bearer x").code(t))
			viewer := s.do("", r.method, r.path, r.body, "Authorization", "Bearer x", "Environment-Id", s.a)
			if r.write {
				require.Equal(t, "forbidden", viewer.code(t), "%s %s", r.method, r.path)
			} else {
				require.Equal(t, http.StatusOK, viewer.status)
			}
			if strings.HasPrefix(r.path, item) {
				require.Equal(t, "not_found", s.do(s.b, r.method, r.path, r.body).code(t))
				require.Equal(t, "not_found", s.do(s.a, r.method, collection+"/standard-webhooks/a%2Fb", r.body).code(t))
			}
		}
		require.Equal(t, "[]\n", s.do(s.b, http.MethodGet, collection, "").text)
		require.Equal(t, "active", s.do(s.a, http.MethodGet, item, "").json(t)["status"])

		taken := s.do(s.b, http.MethodPost, collection, `{"provider":"standard-webhooks","connection_id":"acme"}`)
		require.Equal(t, http.StatusCreated, taken.status, taken.text)
		require.Nil(t, taken.json(t)["webhook_alias"])
		asked := s.do(s.b, http.MethodPatch, item, `{"webhook":{"alias":"acme"}}`)
		require.Equal(t, http.StatusConflict, asked.status, asked.text)
		require.Equal(t, "alias_taken", asked.code(t))
	})
}

// The next page is where the Link header says, with the filters of the first, until there is none.
func TestPages(t *testing.T) {
	t.Parallel()
	testkit.Each(t, func(t *testing.T, st testkit.Store) {
		t.Helper()
		s := newServer(t, st)
		for _, name := range []string{"a1", "a2", "b", "a3"} {
			require.Equal(t, http.StatusCreated, s.do(s.a, http.MethodPost, collection, `{"provider":"github","connection_id":"`+
				name+`"}`).status)
		}
		var got []any
		for next := collection + "?q=a&provider=github,standard-webhooks&limit=2"; next != ""; {
			a := s.do(s.a, http.MethodGet, next, "")
			require.Equal(t, http.StatusOK, a.status, a.text)
			var rows []map[string]any
			require.NoError(t, json.Unmarshal([]byte(a.text), &rows))
			for _, row := range rows {
				got = append(got, row["connection_id"])
			}
			require.Equal(t, a.header.Get("Link") == "", a.header.Get("X-Next-Cursor") == "")
			next, _ = strings.CutSuffix(strings.TrimPrefix(a.header.Get("Link"), "<"), `>; rel="next"`)
		}
		require.Equal(t, []any{"a3", "a2", "a1"}, got)
	})
}

// The document describes the service: the secret goes in and never comes out, limits and choices are stated, and the
// POST to a connection has both its responses.
func TestDocument(t *testing.T) {
	t.Parallel()
	api := httpapi.New(httpapi.Config{Version: "0", Clock: clock.System(), Auth: auth{}})
	connectionshttp.Mount(api, new(connections.Service), nil, "https://gateway.example")
	text, err := api.Document()
	require.NoError(t, err)
	var doc struct {
		Paths      map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]struct {
				Properties map[string]map[string]any `json:"properties"`
				Required   []string                  `json:"required"`
			} `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(text, &doc))
	require.Len(t, doc.Paths["/connections"], 2)
	require.Len(t, doc.Paths["/connections/{provider}/{connection_id}"], 4)

	creation := doc.Components.Schemas["connections.Creation"]
	require.Empty(t, creation.Required)
	require.Equal(t, true, creation.Properties["webhook_secret"]["writeOnly"])
	require.EqualValues(t, 4096, creation.Properties["webhook_secret"]["maxLength"])
	require.Equal(t, []any{"error", "update"}, creation.Properties["on_conflict"]["enum"])
	require.Equal(t, "string", creation.Properties["provider"]["type"])
	webhook, ok := creation.Properties["webhook"]["properties"].(map[string]any)
	require.True(t, ok)
	window, ok := webhook["dedupe_window_seconds"].(map[string]any)
	require.True(t, ok)
	require.EqualValues(t, 2592000, window["maximum"])
	require.Equal(t, []any{"integer", "null"}, window["type"])
	for name, schema := range doc.Components.Schemas {
		for property, p := range schema.Properties {
			if strings.HasPrefix(name, "connections.") {
				require.NotEmpty(t, p["description"], "%s.%s", name, property)
			}
		}
	}
	answers, err := json.Marshal(doc.Paths["/connections/{provider}/{connection_id}"]["post"])
	require.NoError(t, err)
	require.Contains(t, string(answers),
		`"oneOf":[{"$ref":"#/components/schemas/connections.Connection"},`+
			`{"$ref":"#/components/schemas/connections.Deletion"}]`)
}
