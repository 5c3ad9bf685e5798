package subscriptionshttp_test

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

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/platform/testkit"
	"sallyport/internal/webhooks/subscriptions"
	"sallyport/internal/webhooks/subscriptions/subscriptionshttp"
)

const path = "/api/v1/webhook-subscriptions"

// server is the API over a database, as one environment's users and API keys see it.
type server struct {
	api *httpapi.API
	env id.Environment
}

func newServer(t *testing.T, store testkit.Store) *server {
	t.Helper()
	keyset := filepath.Join(t.TempDir(), "keyset.json")
	require.NoError(t, secretbox.Create(keyset))
	box, err := secretbox.Open(secretbox.Source{Path: keyset})
	require.NoError(t, err)
	team, env, other := id.New(id.PrefixTeam), id.New(id.PrefixEnvironment), id.New(id.PrefixEnvironment)
	_, err = store.DB.Write().ExecContext(t.Context(), `INSERT INTO teams (id, name, created_ms) VALUES ($1, 'Acme', 0)`,
		team)
	require.NoError(t, err)
	for _, e := range []string{env, other} {
		_, err := store.DB.Write().ExecContext(t.Context(),
			`INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, $3, 0)`, e, team, e)
		require.NoError(t, err)
	}
	client := egress.New(egress.Policy{}, egress.Options{})
	t.Cleanup(client.Close)
	now := clock.NewManual(time.UnixMilli(1_750_000_000_123))
	svc := subscriptions.New(subscriptions.Config{DB: store.DB, Box: box, Clock: now, Targets: client,
		Connections: directory{}, Environments: live{}, Deliveries: deaf{}})
	api := httpapi.New(httpapi.Config{
		Version: "test", Logger: slog.New(slog.DiscardHandler), Clock: now,
		Auth: authenticator{team: id.Team(team), env: id.Environment(env), other: id.Environment(other)},
	})
	subscriptionshttp.Mount(api, svc)
	return &server{api: api, env: id.Environment(env)}
}

// live takes every environment for one that is there.
type live struct{}

func (live) RequireLive(context.Context, *sql.Tx, id.Environment) error { return nil }

// answer is a recorded answer.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) into(t *testing.T, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.body, v), "%s", a.body)
}

func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	var o map[string]any
	a.into(t, &o)
	return o
}

// violations returns the validation errors of a 422 as "location rule".
func (a answer) violations(t *testing.T) []string {
	t.Helper()
	require.Equal(t, http.StatusUnprocessableEntity, a.status, "%s", a.body)
	var e struct {
		Error struct {
			Code, Message string
			Details       []apperr.Detail
		}
	}
	a.into(t, &e)
	require.Equal(t, "validation_error", e.Error.Code)
	require.Equal(t, "Invalid request", e.Error.Message)
	var out []string
	for _, d := range e.Error.Details {
		out = append(out, d.Location+" "+d.Rule)
	}
	return out
}

// code returns the code of an error answer.
func (a answer) code(t *testing.T) string {
	t.Helper()
	var e struct{ Error struct{ Code string } }
	a.into(t, &e)
	return e.Error.Code
}

// do sends a request with an API key ("key", "narrow", "foreign") or as a user ("developer", "viewer").
func (s *server) do(t *testing.T, as, method, target, body string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, bytes.NewBufferString(body))
	switch as {
	case "developer", "viewer":
		r.Header.Set("Authorization", "Bearer "+as)
		r.Header.Set("Environment-Id", string(s.env))
	case "":
	default:
		r.Header.Set("API-Key", as)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	res := w.Result()
	defer func() { require.NoError(t, res.Body.Close()) }()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{res.StatusCode, res.Header, b}
}

// create makes a subscription and returns its id.
func (s *server) create(t *testing.T, body string) string {
	t.Helper()
	a := s.do(t, "key", http.MethodPost, path, body)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	subscriptionID, ok := a.object(t)["id"].(string)
	require.True(t, ok)
	return subscriptionID
}

// authenticator knows the credentials that do sends.
type authenticator struct {
	team       id.Team
	env, other id.Environment
}

func (a authenticator) APIKey(_ context.Context, key, _ string) (access.Principal, error) {
	p := access.Principal{Kind: access.KindAPIKey, ID: "key_" + key, Team: a.team, Environment: a.env,
		Grants: access.Open(access.RouteWebhooks)}
	switch key {
	case "key":
	case "narrow":
		p.Grants = access.Open(access.RouteConnections)
	case "foreign":
		p.Environment = a.other
	default:
		return access.Principal{}, apperr.New(apperr.CodeUnauthorized, "The credential is missing or not valid")
	}
	return p, nil
}

func (a authenticator) Bearer(_ context.Context, token string) (access.Principal, error) {
	return access.Principal{Kind: access.KindUser, ID: "usr_" + token, Name: token, Team: a.team,
		Rights: access.Role(token).Rights()}, nil
}

func (a authenticator) Environment(_ context.Context, _ access.Principal, environment string) (id.Environment, error) {
	return id.Environment(environment), nil
}

type directory struct{}

func (directory) ConfigKeyExists(_ id.Environment, key string) bool { return key == "github" }

func (directory) Exists(_ context.Context, _ id.Environment, key, connectionID string) (bool, error) {
	return key == "github" && connectionID == "acme", nil
}

func (directory) ExistsUnderAnyKey(_ context.Context, _ id.Environment, connectionID string) (bool, error) {
	return connectionID == "acme", nil
}

// deaf stands for deliveries where nothing is to be delivered.
type deaf struct{}

func (deaf) Hold(context.Context, *sql.Tx, id.Environment, string, time.Time) error { return nil }

func (deaf) Cancel(context.Context, *sql.Tx, id.Environment, string, time.Time) error { return nil }

func (deaf) Changed() {}
