package connectionshttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connecting"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/credentials"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/probes"
)

type storedCredentials struct {
	// Always `true`: values are never returned.
	Redacted bool `json:"redacted"`
	// The names of the stored values.
	Fields []string `json:"fields"`
	// It is the same for two connections of the environment exactly if they have the same values.
	Fingerprint string `json:"fingerprint" example:"9f86d081884c7d65"`
	// The hosts that the credentials were given for. They are sent to no other.
	Hosts []string `json:"hosts" example:"[\"api.github.com\"]"`
	// When the access token expires; `null` if nothing expires, or it is not known.
	ExpiresAt *httpapi.Time `json:"expires_at" nullable:"true" example:"2026-12-24T18:00:00.000Z"`
	// When the credentials were stored.
	StoredAt httpapi.Time `json:"stored_at"`
	// When they were last refreshed; `null` if never.
	LastRefreshedAt *httpapi.Time `json:"last_refreshed_at" nullable:"true" example:"2026-12-24T18:00:00.000Z"`
	// When the access token is renewed next; `null` if nothing renews it by itself.
	NextRefreshAt *httpapi.Time `json:"next_refresh_at" nullable:"true" example:"2026-12-24T17:46:00.000Z"`
	// The number of failed refreshes since the last that succeeded.
	RefreshFailures int64 `json:"refresh_failures"`
	// Why the last refresh failed, without any secret; `null` if it succeeded.
	LastRefreshError *string `json:"last_refresh_error" nullable:"true" example:"the endpoint responded with 503"`
}

type scopes struct {
	// The scopes that were requested.
	Requested []string `json:"requested"`
	// The scopes that the provider has granted; empty if they are not known.
	Granted []string `json:"granted"`
	// The requested scopes that no granted one stands for; empty if it is not known which were granted.
	Missing []string `json:"missing"`
}

type account struct {
	// The provider's id of the account.
	ID string `json:"id"`
	// The name by which people know the account; `null` if the provider gives none.
	Label *string `json:"label"`
}

type health struct {
	// The outcome of the test:
	//
	// - `healthy`: the provider accepts the credentials.
	// - `unknown`: nothing was tested, because there is no request for it.
	// - `degraded`: the test failed, and does not show that the credentials are refused: the provider is away or limits
	//   requests, or a scope is missing.
	// - `unhealthy`: the provider refuses the credentials, or no request can be made from them.
	Status probes.Status `json:"status"`
	// Why: `ok`, `no_probe`, `credentials_refused`, `scope_missing`, `rate_limited`, `provider_error`, `not_sendable`, or
	// the reason why the provider could not be reached, such as `timeout`.
	Code probes.Code `json:"code" example:"ok"`
	// When the test was made.
	CheckedAt httpapi.Time `json:"checked_at"`
	// When the status or the code last became another.
	ChangedAt httpapi.Time `json:"changed_at"`
	// How long the test took, in milliseconds.
	LatencyMS int64 `json:"latency_ms"`
}

type check struct {
	// The request, without its host.
	Probe string `json:"probe" example:"GET /user"`
	// As the status of the whole test.
	Status probes.Status `json:"status"`
	// As the code of the whole test.
	Code probes.Code `json:"code" example:"ok"`
	// How long the request took, in milliseconds.
	LatencyMS int64 `json:"latency_ms"`
	// The status code of the response; `null` if there was none.
	HTTPStatus *int `json:"http_status"`
	// The reason of a failure, often in the provider's words; `null` on success.
	Message *string `json:"message"`
	// The provider's id of the request; `null` if it gave none.
	RequestID *string `json:"request_id"`
}

func viewCredentials(c *connections.Connection) (out httpapi.OrNull[storedCredentials]) {
	s := c.Credentials
	if s == nil {
		return out
	}
	out.Value = &storedCredentials{Redacted: true, Fields: s.Fields, Fingerprint: s.Fingerprint, Hosts: s.Hosts,
		ExpiresAt: (*httpapi.Time)(s.ExpiresAt), StoredAt: httpapi.Time(s.StoredAt),
		LastRefreshedAt: (*httpapi.Time)(s.RefreshedAt),
		NextRefreshAt:   (*httpapi.Time)(c.NextRefreshAt), RefreshFailures: s.RefreshFailures}
	if s.RefreshError != "" {
		out.Value.LastRefreshError = &s.RefreshError
	}
	return out
}

func viewScopes(s *credentials.Set) (out httpapi.OrNull[scopes]) {
	if s == nil {
		return out
	}
	out.Value = &scopes{Requested: s.ScopesRequested, Granted: s.ScopesGranted,
		Missing: append([]string{}, connecting.NotGranted(s.ScopesRequested, s.ScopesGranted)...)}
	return out
}

func viewAccount(a outbound.Account) (out httpapi.OrNull[account]) {
	if a.ID == "" {
		return out
	}
	out.Value = &account{ID: a.ID, Label: httpapi.NullIfEmpty(a.Label)}
	return out
}

func viewHealth(h *connections.Health) (out httpapi.OrNull[health]) {
	if h == nil {
		return out
	}
	out.Value = &health{Status: h.Status, Code: h.Code, CheckedAt: httpapi.Time(h.CheckedAt),
		ChangedAt: httpapi.Time(h.ChangedAt), LatencyMS: h.Latency.Milliseconds()}
	return out
}

// CredentialsInput are the credentials of a body.
type CredentialsInput struct{ connections.Credentials }

const (
	maxScopes    = 200
	fieldScopes  = "scopes"
	fieldExpires = "expires_at"
)

var errCredentials = errors.New("must be an object of texts; scopes may be a list of texts, and expires_at is a time")

// UnmarshalJSON reads an object of texts. Scopes are a list, or a text with blanks between them, and expires_at is a
// time (RFC 3339). Errors quote no value.
func (c *CredentialsInput) UnmarshalJSON(b []byte) error {
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil || members == nil {
		return errCredentials
	}
	c.Values = map[string]secretbox.Secret{}
	for name, raw := range members {
		switch name {
		case fieldScopes:
			if err := c.readScopes(raw); err != nil {
				return err
			}
		case fieldExpires:
			if err := c.readExpiry(raw); err != nil {
				return err
			}
		default:
			var value string
			if bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, &value) != nil {
				return errCredentials
			}
			c.Values[name] = secretbox.Secret(value)
		}
	}
	return nil
}

func (c *CredentialsInput) readScopes(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		for _, scope := range bytes.Fields([]byte(text)) {
			c.Scopes = append(c.Scopes, string(scope))
		}
	} else if json.Unmarshal(raw, &c.Scopes) != nil {
		return errCredentials
	}
	if len(c.Scopes) > maxScopes {
		return errors.New("scopes must be at most 200")
	}
	return nil
}

func (c *CredentialsInput) readExpiry(raw []byte) error {
	var at time.Time
	if json.Unmarshal(raw, &at) != nil {
		return errCredentials
	}
	if !at.IsZero() {
		c.ExpiresAt = &at
	}
	return nil
}

// Schema returns the schema of an object of texts.
func (CredentialsInput) Schema(oas.Registry) *oas.Schema {
	text := &oas.Schema{Type: "string"}
	return &oas.Schema{Type: "object", AdditionalProperties: text, Properties: map[string]*oas.Schema{
		fieldScopes: {OneOf: []*oas.Schema{text, {Type: "array", Items: text}},
			Description: "The scopes of an OAuth token that was made elsewhere."},
		fieldExpires: {Type: "string", Format: "date-time",
			Description: "When an OAuth token that was made elsewhere expires."},
	}}
}

// tested is the response of a test.
type tested struct {
	// As the status of the connection's `health`.
	Status probes.Status `json:"status"`
	// As the code of the connection's `health`.
	Code probes.Code `json:"code" example:"ok"`
	// When the test was made.
	CheckedAt httpapi.Time `json:"checked_at"`
	// How long the test took, in milliseconds.
	LatencyMS int64 `json:"latency_ms"`
	// The first request of the test, without its host; `null` if there is none.
	Probe *string `json:"probe" example:"GET /user"`
	// The requests of the test, in their order.
	Checks []check `json:"checks"`
	// The account at the provider; `null` if it is not known.
	Account httpapi.OrNull[account] `json:"account"`
	// The status of the connection after the test.
	ConnectionStatus connections.Status `json:"connection_status"`
	// Whether this is the outcome of another test, made less than five seconds ago.
	Cached bool `json:"cached"`
}

func viewTested(t *connections.Tested) tested {
	h := t.Connection.Health
	out := tested{Status: h.Status, Code: h.Code, CheckedAt: httpapi.Time(h.CheckedAt),
		LatencyMS: h.Latency.Milliseconds(), Checks: []check{}, Account: viewAccount(t.Connection.Account),
		ConnectionStatus: t.Connection.Status, Cached: t.Cached}
	for i := range h.Checks {
		c := &h.Checks[i]
		view := check{Probe: c.Probe, Status: c.Status, Code: c.Code, LatencyMS: c.Latency.Milliseconds(),
			Message: httpapi.NullIfEmpty(c.Message), RequestID: httpapi.NullIfEmpty(c.RequestID)}
		if c.HTTPStatus != 0 {
			view.HTTPStatus = &c.HTTPStatus
		}
		if i == 0 {
			out.Probe = &c.Probe
		}
		out.Checks = append(out.Checks, view)
	}
	return out
}

type testOutput struct{ Body tested }

func mountTest(api *httpapi.API, h *handlers, op func(httpapi.Operation) httpapi.Operation) {
	httpapi.Register(api, op(httpapi.Operation{
		ID: "test-connection", Method: http.MethodPost, Path: itemPath + "/test", Status: http.StatusOK,
		Summary: "Test the credentials of a connection",
		Description: "Sends the requests that the provider's definition has for a test, with the connection's credentials, " +
			"and returns the outcome. It changes nothing at the provider. Within five seconds of another test, the outcome " +
			"of that is returned. A connection whose credentials the provider refuses in two tests in a row gets the status " +
			"`needs_reauth`; a provider that cannot be reached changes no status. A test waits for the provider's rate limit; " +
			"if that takes too long, it is refused with 429. A connection that belongs to a member is tested for them only.",
		Messages: map[apperr.Code][]string{
			apperr.CodeRateLimited:        {"The provider's rate limit allows no further request now"},
			apperr.CodeConnectionNotReady: {apperr.CodeConnectionNotReady.Example(), connections.Unfit}},
		Errors: []apperr.Code{apperr.CodeConnectionNotReady, apperr.CodeConnectionOwned},
	}), h.test)
}

func (h *handlers) test(ctx context.Context, in *Item) (*testOutput, error) {
	t, err := h.tester.Test(ctx, access.From(ctx), in.Provider, in.ConnectionID)
	if err != nil {
		return nil, err
	}
	return &testOutput{Body: viewTested(&t)}, nil
}

// webhookURL returns the URL to register at the provider; nil if it sends no webhooks.
func (h *handlers) webhookURL(c *connections.Connection) *string {
	if !h.svc.Receives(c) {
		return nil
	}
	url := h.webhookBase + c.PathToken
	return &url
}
