package identityhttp_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"sallyport/internal/identity/apikeys"
	"sallyport/internal/platform/testkit/await"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity"
	"sallyport/internal/identity/identityhttp"
	"sallyport/internal/identity/members"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
)

const (
	email    = "ada@example.test"
	password = "correct horse battery"
)

// server is the API over a fresh database with one owner, who is signed in.
type server struct {
	t        *testing.T
	url      string
	identity *identity.Services
	store    testkit.Store
	clk      *clock.Manual
	api      *httpapi.API
	owner    members.Profile
	token    string
	// cookie is the refresh cookie of the owner's session.
	cookie string
}

type probe struct {
	Body struct {
		Environment string `json:"environment" doc:"The environment of the principal."`
	}
}

func each(t *testing.T, fn func(t *testing.T, s *server)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		t.Helper()
		fn(t, newServer(t, store))
	})
}

func newServer(t *testing.T, store testkit.Store) *server {
	t.Helper()
	s := &server{t: t, store: store, clk: clock.NewManual(time.Date(2026, 11, 2, 9, 30, 0, 0, time.UTC))}
	path := filepath.Join(t.TempDir(), "keyset.json")
	require.NoError(t, secretbox.Create(path))
	box, err := secretbox.Open(secretbox.Source{Path: path})
	require.NoError(t, err)
	s.identity, err = identity.Open(t.Context(), identity.Config{DB: store.DB, Box: box, Clock: s.clk,
		Issuer: "http://gateway.example.test", Contents: apikeys.Contents}, false)
	require.NoError(t, err)
	s.owner, err = s.identity.Setup.CreateOwner(t.Context(), access.System("test"), "Analytical Engines", email, password)
	require.NoError(t, err)

	s.api = httpapi.New(httpapi.Config{Logger: slog.New(slog.DiscardHandler), Clock: s.clk, Auth: s.identity.Principals})
	identityhttp.Mount(s.api, s.identity)
	// An operation that takes both credentials, as those of other capabilities do.
	httpapi.Register(s.api, httpapi.Operation{
		ID: "probe", Method: http.MethodGet, Path: "/probe", Tag: "Probe", Summary: "Probe", Status: http.StatusOK,
		Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
	}, func(ctx context.Context, _ *struct{}) (*probe, error) {
		out := &probe{}
		out.Body.Environment = string(access.From(ctx).Environment)
		return out, nil
	})
	ts := httptest.NewServer(s.api)
	await.Close(t, ts)
	s.url = ts.URL
	r := s.do(http.MethodPost, "/team/login", nil, map[string]any{"email": email, "password": password})
	require.Equal(t, http.StatusOK, r.status, r.text)
	s.token, _ = r.body(t)["access_token"].(string)
	s.cookie = r.cookie(t).Value
	return s
}

type reply struct {
	status int
	header http.Header
	text   string
}

// cookie is the one cookie that the answer sets.
func (r reply) cookie(t *testing.T) *http.Cookie {
	t.Helper()
	list := (&http.Response{Header: r.header}).Cookies()
	require.Len(t, list, 1, r.text)
	return list[0]
}

func (r reply) body(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.text), &m), r.text)
	return m
}

func (r reply) list(t *testing.T) []map[string]any {
	t.Helper()
	var l []map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.text), &l), r.text)
	return l
}

// code is the error code of an answer that must be an error in the one envelope.
func (r reply) code(t *testing.T) string {
	t.Helper()
	e, ok := r.body(t)["error"].(map[string]any)
	require.True(t, ok, r.text)
	code, _ := e["code"].(string)
	return code
}

// locations are those of the entries of a validation error.
func (r reply) locations(t *testing.T) []string {
	t.Helper()
	require.Equal(t, http.StatusUnprocessableEntity, r.status, r.text)
	require.Equal(t, "validation_error", r.code(t))
	var e struct {
		Error struct {
			Details []struct {
				Location string `json:"location"`
			} `json:"details"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.text), &e))
	var out []string
	for _, d := range e.Error.Details {
		out = append(out, d.Location)
	}
	return out
}

// do sends a request with the headers given and no credential of its own.
func (s *server) do(method, path string, headers map[string]string, body any) reply {
	s.t.Helper()
	var content io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		content = bytes.NewReader([]byte(b))
	default:
		text, err := json.Marshal(b)
		require.NoError(s.t, err)
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+httpapi.Prefix+path, content)
	require.NoError(s.t, err)
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer func() { require.NoError(s.t, res.Body.Close()) }()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return reply{status: res.StatusCode, header: res.Header, text: string(text)}
}

// as sends a request as the owner.
func (s *server) as(method, path string, body any) reply {
	s.t.Helper()
	return s.do(method, path, map[string]string{"Authorization": "Bearer " + s.token}, body)
}

// probe uses a key.
func (s *server) probe(key string) reply {
	s.t.Helper()
	return s.do(http.MethodGet, "/probe", map[string]string{"API-Key": key}, nil)
}

func (s *server) development() string { return string(s.owner.Environments[0].ID) }
func (s *server) production() string  { return string(s.owner.Environments[1].ID) }

// create makes a key over HTTP and returns it.
func (s *server) create(body map[string]any) map[string]any {
	s.t.Helper()
	r := s.as(http.MethodPost, "/api-keys", body)
	require.Equal(s.t, http.StatusCreated, r.status, r.text)
	return r.body(s.t)
}

// foreignEnvironment adds another team and returns its environment.
func (s *server) foreignEnvironment() string {
	s.t.Helper()
	team, env := id.New(id.PrefixTeam), id.New(id.PrefixEnvironment)
	require.NoError(s.t, s.store.DB.Tx(s.t.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(s.t.Context(), "INSERT INTO teams (id, name, created_ms) VALUES ($1, 'Others', 1)", team)
		require.NoError(s.t, err)
		_, err = tx.ExecContext(s.t.Context(),
			"INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, 'x', 1)", env, team)
		return err
	}))
	return env
}
