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
	ConnectionID      []string `query:"connection_id,explode" minLength:"1" maxLength:"255" pattern:"^[A-Za-z0-9._:@-]+$" maxItems:"50" doc:"Only requests to the connections with these ids." example:"acme-production"`
	ProviderConfigKey []string `query:"provider_config_key,explode" minLength:"1" maxLength:"63" pattern:"^[a-z0-9-]+$" maxItems:"50" doc:"Only requests to connections of these provider configurations." example:"github"`
	Reason            []string `query:"reason,explode" pattern:"^[a-z][a-z0-9_]{0,63}$" maxItems:"50" doc:"Only requests that were refused for one of these reasons." example:"signature_mismatch"`
	url               url.URL
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
	ID                string                    `json:"id" doc:"The id of the refused request." example:"rej_06dprg8dj1v6hckm0sjzmn2m1c"`
	EnvironmentID     string                    `json:"environment_id" doc:"The environment of the connection."`
	ConnectionUUID    string                    `json:"connection_uuid" doc:"The connection's UUID."`
	ConnectionID      string                    `json:"connection_id" doc:"The connection's id."`
	Provider          string                    `json:"provider" doc:"The provider's slug."`
	ProviderConfigKey string                    `json:"provider_config_key" doc:"The key of the provider configuration."`
	ReceivedAt        httpapi.Time              `json:"received_at" doc:"When the request came."`
	Reason            string                    `json:"reason" doc:"Why it was refused, as a word for programs." example:"signature_mismatch"`
	Message           string                    `json:"message" doc:"Why it was refused, and what to mend."`
	Diagnosis         httpapi.OrNull[diagnosis] `json:"diagnosis" doc:"The likely cause; null where none was found or none was looked for."`
	ByAlias           bool                      `json:"by_alias" doc:"Whether the request came by the connection's alias. Then its body is not kept."`
	ClientIP          string                    `json:"client_ip" doc:"The sender's address."`
	Method            string                    `json:"method" doc:"The request's method."`
	Headers           map[string]string         `json:"headers" doc:"The request's headers by lower-case name, with credentials redacted."`
	Body              string                    `json:"body" doc:"The first 4096 bytes of the body."`
	BodyEncoding      string                    `json:"body_encoding" enum:"text,base64" doc:"How body is written: as text, or in base64 where it is not UTF-8."`
	BodySize          int64                     `json:"body_size" doc:"The size in bytes of the whole body, as far as it was read or announced."`
	Truncated         bool                      `json:"truncated" doc:"Whether body lacks a part of the request's body."`
	Suppressed        int64                     `json:"suppressed" doc:"How many further refusals of the connection followed that were counted and not kept."`
}

// diagnosis is the likely cause of a refusal on the wire.
type diagnosis struct {
	Code    string `json:"code" doc:"The cause as a word for programs." example:"body_rewritten"`
	Message string `json:"message" doc:"What to look at."`
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
