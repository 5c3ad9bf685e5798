// Package rejectionshttp serves rejected webhooks over HTTP.
package rejectionshttp

import (
	"context"
	"encoding/json"
	"net/http"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/rejections"
)

// mount adds the operations on rejections to the API.
func mount(api *httpapi.API, svc *rejections.Service) {
	h := &handlers{svc: svc}
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-webhook-rejections", Method: http.MethodGet, Path: "/webhook-rejections", Status: http.StatusOK,
		Tag: "Webhook rejections", Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Summary: "List rejected webhooks",
		Description: "Lists the webhooks that the environment's connections rejected, newest first. Each row has the " +
			"reason and, if the service found one, the likely cause. The last 200 rejections of each connection are kept, for " +
			"at most 30 days. Beyond five rejections per second and connection, further ones are only counted, in " +
			"`suppressed` of the rejection before them. A rejected webhook is not an event and is not forwarded.",
	}, httpapi.List[listInput, rejections.Rejection, rejection]{Rows: h.list, View: viewRejection,
		Key: func(r *rejections.Rejection) string { return r.ID }, IsKey: id.Matcher(id.PrefixRejection)})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-webhook-rejection", Method: http.MethodGet, Path: "/webhook-rejections/{id}", Status: http.StatusOK,
		Tag: "Webhook rejections", Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Summary: "Get a rejected webhook",
		Description: "Returns a rejected webhook with its headers and the beginning of its body. It cannot be accepted " +
			"later, because only a part of it is kept: fix the cause, and have the provider send it again.",
	}, h.get)
}

type handlers struct{ svc *rejections.Service }

type listInput struct {
	page.Query
	// Only requests to the connections with these ids.
	ConnectionID []string `query:"connection_id,explode" minLength:"1" maxLength:"255" pattern:"^[A-Za-z0-9._:@-]+$" maxItems:"50" example:"acme-production"`
	// Only requests to connections of these provider configurations.
	ProviderConfigKey []string `query:"provider_config_key,explode" minLength:"1" maxLength:"63" pattern:"^[a-z0-9-]+$" maxItems:"50" example:"github"`
	// Only requests that were rejected for one of these reasons.
	Reason []string `query:"reason,explode" pattern:"^[a-z][a-z0-9_]{0,63}$" maxItems:"50" example:"signature_mismatch"`
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]rejections.Rejection, error) {
	return h.svc.List(ctx, access.From(ctx).View(), rejections.Filter{ConnectionIDs: in.ConnectionID,
		ProviderConfigKeys: in.ProviderConfigKey, Reasons: in.Reason}, p)
}

type itemInput struct {
	// The id of the rejection.
	ID string `path:"id" example:"rej_06dprg8dj1v6hckm0sjzmn2m1c"`
}

type itemOutput struct{ Body rejection }

func (h *handlers) get(ctx context.Context, in *itemInput) (*itemOutput, error) {
	r, err := h.svc.Get(ctx, access.From(ctx).View(), in.ID)
	if err != nil {
		return nil, err
	}
	return &itemOutput{viewRejection(ctx, &r)}, nil
}

// rejection is the wire form of a rejected webhook.
type rejection struct {
	// The id of the rejection.
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
	// When the request was received.
	ReceivedAt httpapi.Time `json:"received_at"`
	// The reason as a machine-readable code.
	Reason string `json:"reason" example:"signature_mismatch"`
	// The reason as a human-readable message, with advice on how to fix it.
	Message string `json:"message"`
	// The likely cause; `null` if none was found or looked for.
	Diagnosis httpapi.OrNull[diagnosis] `json:"diagnosis"`
	// Whether the request used the connection's alias, which anyone can guess.
	ByAlias bool `json:"by_alias"`
	// The sender's address.
	ClientIP string `json:"client_ip"`
	// The request method.
	Method string `json:"method"`
	// The request headers by lower-case name. Credentials are redacted.
	Headers map[string]string `json:"headers"`
	// The first 4096 bytes of the body, encoded as `body_encoding` says.
	Body string `json:"body"`
	// `text`: the body as it was received. `base64`: the body in base64, because it is not UTF-8 text.
	BodyEncoding httpapi.BodyEncoding `json:"body_encoding"`
	// The size of the whole body in bytes, as far as it was read or announced.
	BodySize int64 `json:"body_size"`
	// Whether `body` is only a part of the request's body.
	Truncated bool `json:"truncated"`
	// The number of further rejections of the connection that were counted and not kept.
	Suppressed int64 `json:"suppressed"`
}

// diagnosis is the wire form of the likely cause of a rejection.
type diagnosis struct {
	// The cause as a machine-readable code.
	Code string `json:"code" example:"body_rewritten"`
	// Advice on what to check.
	Message string `json:"message"`
}

func viewRejection(_ context.Context, r *rejections.Rejection) rejection {
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
		out.Headers = map[string]string{} // rejections stores an object of strings; anything else is not shown
	}
	out.Body, out.BodyEncoding = httpapi.ShowBody(r.Body, out.Truncated)
	return out
}
