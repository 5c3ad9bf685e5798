package identitytest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/identity/accesstokens/accesstokenshttp"
	"sallyport/internal/identity/apikeys/apikeyshttp"
	"sallyport/internal/identity/invitations/invitationshttp"
	"sallyport/internal/identity/members"
	"sallyport/internal/identity/members/membershttp"
	"sallyport/internal/identity/setup/setuphttp"
	"sallyport/internal/identity/signin/signinhttp"
	"sallyport/internal/identity/team/teamhttp"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/testkit"
)

// RefreshCookie is the name of the refresh cookie.
const RefreshCookie = "__Host-sallyport_refresh"

// Server is the API of a World.
type Server struct {
	World
	API *httpapi.API
	// Profile is that of the owner, Token their access token and Cookie their refresh cookie. They are empty in the API
	// of an installation without a team.
	Profile       members.Profile
	Token, Cookie string

	t *testing.T
}

// Served runs fn with a Server on every engine. The owner is signed in.
func Served(t *testing.T, fn func(t *testing.T, s *Server)) {
	t.Helper()
	testkit.Each(t, func(t *testing.T, store testkit.Store) {
		t.Helper()
		s := New(t, store, false).Serve(t)
		var err error
		s.Profile, err = s.Setup.CreateOwner(t.Context(), access.System("test"), "Analytical Engines", Email, Password)
		require.NoError(t, err)
		r := s.Do(http.MethodPost, "/team/login", nil, map[string]any{"email": Email, "password": Password.Reveal()})
		require.Equal(t, http.StatusOK, r.Status, r.Text)
		s.Token, _ = r.Object(t)["access_token"].(string)
		s.Cookie = r.SetCookie(t).Value
		fn(t, s)
	})
}

// probe is the response of an operation that accepts both credentials, as those of other districts do.
type probe struct {
	Body struct {
		Environment string `json:"environment" doc:"The environment of the principal."`
	}
}

// Serve returns the API of the World, in which no one is signed in.
func (w World) Serve(t *testing.T) *Server {
	t.Helper()
	api := httpapi.New(httpapi.Config{Logger: slog.New(slog.DiscardHandler), Clock: w.Clock, Auth: w.Principals})
	for _, m := range []module.Module{teamhttp.Module(w.Team), membershttp.Module(w.Members),
		accesstokenshttp.Module(w.AccessTokens), signinhttp.Module(w.SignIn), invitationshttp.Module(w.Invitations),
		apikeyshttp.Module(w.Keys), setuphttp.Module(w.Setup)} {
		m.Mount(api)
	}
	httpapi.Register(api, httpapi.Operation{
		ID: "probe", Method: http.MethodGet, Path: "/probe", Tag: "Probe", Summary: "Probe", Status: http.StatusOK,
		Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
	}, func(ctx context.Context, _ *struct{}) (*probe, error) {
		out := &probe{}
		out.Body.Environment = string(access.From(ctx).Environment)
		return out, nil
	})
	return &Server{World: w, API: api, t: t}
}

// Do sends a request with these headers and no credential of its own. A body that is a string is sent as it is, and
// another one as JSON.
func (s *Server) Do(method, path string, headers map[string]string, body any) Response {
	s.t.Helper()
	return s.send(method, httpapi.Prefix+path, headers, body)
}

func (s *Server) send(method, target string, headers map[string]string, body any) Response {
	s.t.Helper()
	var content io.Reader = http.NoBody
	switch b := body.(type) {
	case nil:
	case string:
		content = bytes.NewReader([]byte(b))
	default:
		text, err := json.Marshal(b)
		require.NoError(s.t, err)
		content = bytes.NewReader(text)
	}
	r := httptest.NewRequestWithContext(s.t.Context(), method, target, content)
	r.Host, r.RemoteAddr = Host, "127.0.0.1:50000"
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.API.ServeHTTP(w, r)
	return Response{Status: w.Code, Header: w.Header(), Text: w.Body.String()}
}

// Host is the host that requests name.
const Host = "127.0.0.1:8080"

// Get requests a route outside of the API.
func (s *Server) Get(path string) Response {
	s.t.Helper()
	return s.send(http.MethodGet, path, nil, nil)
}

// As sends a request as the owner.
func (s *Server) As(method, path string, body any) Response {
	s.t.Helper()
	return s.Do(method, path, map[string]string{"Authorization": "Bearer " + s.Token}, body)
}

// WithCookie sends a POST with a refresh cookie and further headers.
func (s *Server) WithCookie(path, cookie string, headers map[string]string) Response {
	s.t.Helper()
	h := map[string]string{"Cookie": RefreshCookie + "=" + cookie}
	maps.Copy(h, headers)
	return s.Do(http.MethodPost, path, h, nil)
}

// Probe uses a key.
func (s *Server) Probe(key string) Response {
	s.t.Helper()
	return s.Do(http.MethodGet, "/probe", map[string]string{"API-Key": key}, nil)
}

// CreateKey creates a key and returns the response.
func (s *Server) CreateKey(body map[string]any) map[string]any {
	s.t.Helper()
	r := s.As(http.MethodPost, "/api-keys", body)
	require.Equal(s.t, http.StatusCreated, r.Status, r.Text)
	return r.Object(s.t)
}

// Development returns the id of the environment development.
func (s *Server) Development() string { return string(s.Profile.Environments[0].ID) }

// Production returns the id of the environment production.
func (s *Server) Production() string { return string(s.Profile.Environments[1].ID) }

// ForeignEnvironment adds another team and returns the id of its environment.
func (s *Server) ForeignEnvironment() string {
	s.t.Helper()
	team, env := id.New(id.PrefixTeam), id.New(id.PrefixEnvironment)
	s.Exec(s.t, "INSERT INTO teams (id, name, created_ms) VALUES ($1, 'Others', 1)", team)
	s.Exec(s.t, "INSERT INTO environments (id, team_id, name, created_ms) VALUES ($1, $2, 'x', 1)", env, team)
	return env
}

// Response is a response of a Server.
type Response struct {
	Status int
	Header http.Header
	Text   string
}

// SetCookie returns the one cookie that the response sets.
func (r Response) SetCookie(t *testing.T) *http.Cookie {
	t.Helper()
	list := (&http.Response{Header: r.Header}).Cookies()
	require.Len(t, list, 1, r.Text)
	return list[0]
}

// Object returns the body, which is an object.
func (r Response) Object(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.Text), &m), r.Text)
	return m
}

// List returns the body, which is an array of objects.
func (r Response) List(t *testing.T) []map[string]any {
	t.Helper()
	var l []map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.Text), &l), r.Text)
	return l
}

// Code returns the code of an error response.
func (r Response) Code(t *testing.T) string {
	t.Helper()
	e, ok := r.Object(t)["error"].(map[string]any)
	require.True(t, ok, r.Text)
	code, _ := e["code"].(string)
	return code
}

// Locations returns the locations of the validation errors of a response.
func (r Response) Locations(t *testing.T) []string {
	t.Helper()
	require.Equal(t, http.StatusUnprocessableEntity, r.Status, r.Text)
	require.Equal(t, "validation_error", r.Code(t))
	var e struct {
		Error struct {
			Details []struct {
				Location string `json:"location"`
			} `json:"details"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.Text), &e))
	var out []string
	for _, d := range e.Error.Details {
		out = append(out, d.Location)
	}
	return out
}
