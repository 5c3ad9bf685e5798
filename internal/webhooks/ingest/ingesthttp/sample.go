package ingesthttp

import (
	"context"
	"net/http"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/ingest"
	"sallyport/internal/webhooks/subscriptions"
)

// Sampler sends samples of webhooks. *ingest.Service implements it.
type Sampler interface {
	SendSample(ctx context.Context, p access.Principal, in ingest.SampleRequest) (ingest.SampleReceipt, error)
}

// mountSample adds the operation that sends a sample to a connection.
func mountSample(api *httpapi.API, sampler Sampler) {
	h := &sampleHandler{sampler}
	httpapi.Register(api, httpapi.Operation{
		ID: "send-webhook-sample", Method: http.MethodPost, Path: "/connections/{provider}/{connection_id}/webhook-sample",
		Status: http.StatusCreated, Tag: "Connections", Permission: access.ConnectionsWrite, Route: access.RouteConnections,
		Environment: true, MaxBodyBytes: ingest.MaxPublishedBytes,
		Errors: []apperr.Code{apperr.CodeSampleUnavailable, apperr.CodeRateLimited},
		Messages: map[apperr.Code][]string{
			apperr.CodeSampleUnavailable: {
				"The connection is disabled and accepts no webhooks. Enable it first.",
				"The connection rejects every webhook, because its settings do not fit the provider's definition. Correct its " +
					"parameters first.",
				"The connection accepts webhooks from no network of the provider. Correct its `source_cidrs` first.",
				"The connection has no webhook secret to sign a sample with. Add one first.",
				"The connection has changed since the sample was signed. Send it again.",
				"The provider signs its webhooks with a private key, which only it has, so the gateway cannot sign a sample.",
			},
			apperr.CodeGrantDenied: {"The API key has no grant for the route events:write on this connection"},
			apperr.CodePayloadTooLarge: {"The body is larger than this route accepts",
				"The body is larger than the connection accepts", "The webhook has too many items"},
		},
		Summary: "Send a sample of a webhook",
		Description: "Makes a webhook as the provider would send it, signs it with the connection's newest secret as the " +
			"provider's definition describes, and passes it to the connection's inbound endpoint. It is verified, stored, " +
			"matched and forwarded as a webhook of the provider is: **every subscription that matches gets it**, those of " +
			"production too. The secret does not leave the service.\n\n" +
			"Deliveries of the sample have the header `sallyport-sample`, in both payload modes. The body has the member " +
			"`sallyport_sample`, and the webhook an id of its own, so that it is no duplicate of a real event. Webhooks from " +
			"outside with that member are rejected. The audit trail records the sample.\n\n" +
			"With `data`, the caller must be allowed to publish events of the connection (`events:write`), and receivers of " +
			"`raw` requests do not get the provider's signature: it would sign any content for anyone who may send samples. " +
			"If the provider signs with a private key, no sample can be made: publish an event, " +
			"or test a subscription. The request is at most 1 MiB.",
	}, h.send)
}

type sampleHandler struct{ sampler Sampler }

// sampleOrder is the body that sends a sample.
type sampleOrder struct {
	// The event type of the sample, as the provider's definition derives it from a webhook.
	EventType string `json:"event_type" minLength:"1" maxLength:"255" example:"issues.opened"`
	// The body of the webhook: a JSON object or array. The members that the type, the id, times and the signature are read
	// from are set. Default: the body that the provider's definition declares for the type, or a minimal one.
	Data httpapi.JSON `json:"data,omitempty"`
}

type sampleInput struct {
	// The key of the provider configuration.
	Provider string `path:"provider" example:"github"`
	// The id of the connection.
	ConnectionID string `path:"connection_id" example:"acme-production"`
	Body         sampleOrder
}

// sampleSent is the response to a sample that was accepted.
type sampleSent struct {
	Acknowledgement
	// The type of the stored event.
	EventType string `json:"event_type" example:"issues.opened"`
	// Whether the body has only what the gateway reads from it, because the provider's definition has no body for the
	// type.
	MinimalBody bool `json:"minimal_body"`
	// How many subscriptions get the event.
	Subscriptions int `json:"subscriptions" example:"1"`
	// A type that the provider is not known to send.
	Warnings []httpapi.Warning `json:"warnings"`
	// The id of the sample: the value of the header `sallyport-sample`, and the event's idempotency key if the provider's
	// webhooks have an id.
	SampleID string `json:"sample_id" example:"smp_06dprg8dj1v6hckm0sjzmn2m1c"`
}

type sampleOutput struct {
	// The path of the event.
	Location string `header:"Location"`
	Body     sampleSent
}

func (h *sampleHandler) send(ctx context.Context, in *sampleInput) (*sampleOutput, error) {
	order := ingest.SampleRequest{ProviderConfigKey: in.Provider, ConnectionID: in.ConnectionID,
		EventType: in.Body.EventType, Path: httpapi.Prefix + "/webhook/", Address: httpapi.ClientAddr(ctx)}
	if data := in.Body.Data.Bytes(); len(data) > 0 {
		order.Data = data
	}
	receipt, err := h.sampler.SendSample(ctx, access.From(ctx), order)
	if err != nil {
		return nil, err
	}
	return &sampleOutput{Location: httpapi.Prefix + eventsPath + "/" + receipt.EventUUID, Body: sampleSent{
		Acknowledgement: Acknowledgement{EventUUID: receipt.EventUUID, Status: "received", Duplicate: receipt.Duplicate},
		EventType:       receipt.EventType, MinimalBody: receipt.Minimal, Subscriptions: receipt.Matched,
		Warnings: viewWarnings(receipt.Warnings), SampleID: receipt.ID}}, nil
}

func viewWarnings(list []subscriptions.Warning) []httpapi.Warning {
	out := make([]httpapi.Warning, len(list))
	for i, w := range list {
		out[i] = httpapi.Warning(w)
	}
	return out
}
