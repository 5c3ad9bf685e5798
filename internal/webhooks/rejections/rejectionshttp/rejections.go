// Package rejectionshttp serves refused webhook requests over HTTP.
package rejectionshttp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/rejections"
)

// Mount adds the operations on refused requests to the API.
func Mount(api *httpapi.API, svc *rejections.Service) {
	h := &handlers{svc: svc}
	httpapi.Register(api, httpapi.Operation{
		ID: "list-webhook-rejections", Method: http.MethodGet, Path: "/webhook-rejections", Status: http.StatusOK,
		Tag: "Webhook events", Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Summary: "List refused webhook requests",
		Description: "Lists what the environment's connections refused, newest first: the last 200 requests of each " +
			"connection, for at " +
			"most 30 days, with the reason and, where a closer look found one, the likely cause. Beyond five a second and " +
			"connection " +
			"refusals are only counted, as `suppressed` of the one before them. Refused requests are no events: nothing is " +
			"forwarded.",
	}, h.list)
}

type handlers struct{ svc *rejections.Service }

type listInput struct {
	page.Query
	// Only requests to the connections with these ids.
	ConnectionID []string `query:"connection_id,explode" minLength:"1" maxLength:"255" pattern:"^[A-Za-z0-9._:@-]+$" maxItems:"50" example:"acme-production"`
	// Only requests to connections of these provider configurations.
	ProviderConfigKey []string `query:"provider_config_key,explode" minLength:"1" maxLength:"63" pattern:"^[a-z0-9-]+$" maxItems:"50" example:"github"`
	// Only requests that were refused for one of these reasons.
	Reason []string `query:"reason,explode" pattern:"^[a-z][a-z0-9_]{0,63}$" maxItems:"50" example:"signature_mismatch"`
	url    url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *listInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type listOutput struct {
	page.Headers
	Body []rejection
}

func (h *handlers) list(ctx context.Context, in *listInput) (*listOutput, error) {
	v := access.From(ctx).View()
	filter := rejections.Filter{ConnectionIDs: sorted(in.ConnectionID), ProviderConfigKeys: sorted(in.ProviderConfigKey),
		Reasons: sorted(in.Reason)}
	request, err := in.Parse(filter.Scope(v.Environment), func(key string) bool { return id.Is(id.PrefixRejection, key) })
	if err != nil {
		return nil, err
	}
	rows, err := h.svc.List(ctx, v, filter, request)
	if err != nil {
		return nil, err
	}
	rows, headers := page.Cut(request, rows, func(r rejections.Rejection) string {
		return r.ID
	}, in.url.Path, in.url.Query())
	out := &listOutput{Headers: headers, Body: make([]rejection, len(rows))}
	for i := range rows {
		out.Body[i] = view(&rows[i])
	}
	return out, nil
}

func sorted(values []string) []string {
	values = slices.Clone(values)
	slices.Sort(values)
	return slices.Compact(values)
}

// rejection is a refused request on the wire.
type rejection struct {
	// The id of the refused request.
	ID string `json:"id" example:"rej_06dprg8dj1v6hckm0sjzmn2m1c"`
	// The environment of the connection.
	EnvironmentID string `json:"environment_id"`
	// The connection's UUID.
	ConnectionUUID string `json:"connection_uuid"`
	// The connection's id.
	ConnectionID string `json:"connection_id"`
	// The provider's slug.
	Provider string `json:"provider"`
	// The key of the provider configuration.
	ProviderConfigKey string `json:"provider_config_key"`
	// When the request came.
	ReceivedAt httpapi.Time `json:"received_at"`
	// Why it was refused, as a word for programs.
	Reason string `json:"reason" example:"signature_mismatch"`
	// Why it was refused, and what to mend.
	Message string `json:"message"`
	// The likely cause; null where none was found or none was looked for.
	Diagnosis httpapi.OrNull[diagnosis] `json:"diagnosis"`
	// Whether the request came by the connection's alias. Then its body is not kept.
	ByAlias bool `json:"by_alias"`
	// The sender's address.
	ClientIP string `json:"client_ip"`
	// The request's method.
	Method string `json:"method"`
	// The request's headers by lower-case name, with credentials redacted.
	Headers map[string]string `json:"headers"`
	// The first 4096 bytes of the body.
	Body string `json:"body"`
	// How body is written: as text, or in base64 where it is not UTF-8.
	BodyEncoding string `json:"body_encoding" enum:"text,base64"`
	// The size in bytes of the whole body, as far as it was read or announced.
	BodySize int64 `json:"body_size"`
	// Whether body lacks a part of the request's body.
	Truncated bool `json:"truncated"`
	// How many further refusals of the connection followed that were counted and not kept.
	Suppressed int64 `json:"suppressed"`
}

// diagnosis is the likely cause of a refusal on the wire.
type diagnosis struct {
	// The cause as a word for programs.
	Code string `json:"code" example:"body_rewritten"`
	// What to look at.
	Message string `json:"message"`
}

func view(r *rejections.Rejection) rejection {
	out := rejection{
		ID: r.ID, EnvironmentID: string(r.Environment), ConnectionUUID: r.ConnectionUUID, ConnectionID: r.ConnectionID,
		Provider: r.Provider, ProviderConfigKey: r.ProviderConfigKey, ReceivedAt: httpapi.Time(r.ReceivedAt),
		Reason: r.Reason, Message: r.Message, ByAlias: r.ByAlias, ClientIP: r.ClientIP, Method: r.Method,
		Headers: map[string]string{}, BodySize: r.BodySize, Truncated: int64(len(r.Body)) < r.BodySize,
		Suppressed: r.Suppressed,
	}
	if r.Diagnosis.Code != "" {
		out.Diagnosis.Value = &diagnosis{r.Diagnosis.Code, r.Diagnosis.Message}
	}
	if err := json.Unmarshal([]byte(r.Headers), &out.Headers); err != nil {
		out.Headers = map[string]string{} // this package stores an object of strings; anything else is not shown
	}
	out.Body, out.BodyEncoding = httpapi.ShowBody(r.Body, out.Truncated)
	return out
}
