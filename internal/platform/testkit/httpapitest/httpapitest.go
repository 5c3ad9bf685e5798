// Package httpapitest sends requests to the operations of a capability in tests, and reads the responses.
package httpapitest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
)

// Callers authenticates the callers of a Client: API keys by their text, and one user for each system role.
type Callers struct {
	Team id.Team
	Keys map[string]Key
}

// Key describes what an API key may do, and in which environment.
type Key struct {
	Environment id.Environment
	Grants      *access.Grants
}

// KnowsAPIKey knows every key that there is.
func (c Callers) KnowsAPIKey(key string) bool {
	_, ok := c.Keys[key]
	return ok
}

// APIKey returns the principal of a key.
func (c Callers) APIKey(_ context.Context, key, _ string) (access.Principal, error) {
	k, ok := c.Keys[key]
	if !ok {
		return access.Principal{}, apperr.New(apperr.CodeUnauthorized, "The credential is missing or not valid")
	}
	return access.Principal{Kind: access.KindAPIKey, ID: "key_" + key, Team: c.Team, Environment: k.Environment,
		Grants: k.Grants}, nil
}

// Bearer returns the user of a role, whose access token is the role's name.
func (c Callers) Bearer(_ context.Context, token string) (access.Principal, error) {
	return access.Principal{Kind: access.KindUser, ID: "usr_" + token, Name: token, Team: c.Team,
		Rights: access.Role(token).Rights()}, nil
}

// Environment accepts every environment.
func (Callers) Environment(_ context.Context, _ access.Principal, environment string) (id.Environment, error) {
	return id.Environment(environment), nil
}

// Client sends requests to an API that authenticates with Callers.
type Client struct {
	API *httpapi.API
	// Environment is the environment in which users work.
	Environment id.Environment
}

// Do sends a request as a role's user, such as "viewer", or with an API key, and returns the response. An empty caller
// sends no credential. A body is JSON.
func (c Client) Do(t *testing.T, as, method, target, body string) Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	switch {
	case as == "":
	case slices.Contains(access.SystemRoles(), access.Role(as)):
		r.Header.Set("Authorization", "Bearer "+as)
		r.Header.Set("Environment-Id", string(c.Environment))
	default:
		r.Header.Set("API-Key", as)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	c.API.ServeHTTP(w, r)
	res := w.Result()
	defer func() { require.NoError(t, res.Body.Close()) }()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return Response{res.StatusCode, res.Header, b}
}

// Response is a recorded response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Into decodes the JSON body.
func (r Response) Into(t *testing.T, v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(r.Body, v), "%s", r.Body)
}

// Object returns the JSON object of a successful response.
func (r Response) Object(t *testing.T) map[string]any {
	t.Helper()
	require.Less(t, r.Status, http.StatusMultipleChoices, "%s", r.Body)
	var o map[string]any
	r.Into(t, &o)
	return o
}

// Error returns the code and the message of an error, and its details as "location rule".
func (r Response) Error(t *testing.T) (code, message string, details []string) {
	t.Helper()
	require.GreaterOrEqual(t, r.Status, http.StatusBadRequest, "%s", r.Body)
	var e struct {
		Error struct {
			Code, Message string
			Details       []apperr.Detail
		}
	}
	r.Into(t, &e)
	for _, d := range e.Error.Details {
		details = append(details, d.Location+" "+d.Rule)
	}
	return e.Error.Code, e.Error.Message, details
}

// Code returns the code of an error.
func (r Response) Code(t *testing.T) string {
	t.Helper()
	code, _, _ := r.Error(t)
	return code
}

// Violations returns the details of a validation error as "location rule".
func (r Response) Violations(t *testing.T) []string {
	t.Helper()
	require.Equal(t, http.StatusUnprocessableEntity, r.Status, "%s", r.Body)
	code, message, details := r.Error(t)
	require.Equal(t, "validation_error", code)
	require.Equal(t, "Invalid request", message)
	return details
}
