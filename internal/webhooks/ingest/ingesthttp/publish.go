package ingesthttp

import (
	"context"
	"net/http"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/patch"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/ingest"
)

// Publisher publishes events. *ingest.Service implements it.
type Publisher interface {
	Publish(ctx context.Context, p access.Principal, in ingest.Publication) (ingest.Receipt, error)
}

const eventsPath = "/webhook-events"

// mountPublish adds the operation that publishes an event.
func mountPublish(api *httpapi.API, publisher Publisher) {
	h := &publishHandler{publisher}
	httpapi.Register(api, httpapi.Operation{
		ID: "publish-webhook-event", Method: http.MethodPost, Path: eventsPath, Status: http.StatusCreated,
		OtherStatuses: []int{http.StatusOK}, Tag: "Webhook events", Permission: access.EventsWrite,
		Route: access.RouteEventsWrite, Environment: true, MaxBodyBytes: ingest.MaxPublishedBytes,
		Summary: "Publish a webhook event",
		Example: `{"event_type": "invoice.paid", "data": {"invoice": "4711", "amount_cents": 129900}}`,
		Description: "Stores an event of your own and forwards it to the matching subscriptions, as if a provider had sent " +
			"it. Its `provider` is `sallyport`. The event can name a connection. Without one its `provider_config_key` is " +
			"`sallyport` too, and a subscription to another provider configuration does not match.\n\n" +
			"The service responds when the event is durable: with 201, or with 200, `duplicate: true` and the UUID of the " +
			"first event if the idempotency key was received before. `suspect` says then that the data were others, which " +
			"are not forwarded. The request is at most 1 MiB.",
	}, h.publish)
}

type publishHandler struct{ publisher Publisher }

// publication is the body that publishes an event.
type publication struct {
	httpapi.RuleLimits
	// The event type: letters, digits, hyphens and underscores, in segments separated by dots. With a connection it can
	// also be written as the provider writes it, such as `orders/create` for Shopify's `orders.create`. Types that begin
	// with `sallyport` are reserved for the gateway's own events.
	EventType string `json:"event_type" minLength:"1" maxLength:"255" pattern:"^[!-~]+$" example:"invoice.paid"`
	// The event's body: any JSON value, nested at most 512 levels deep.
	Data httpapi.JSON `json:"data"`
	// The key by which duplicates are recognised. Of several events with the same key and the same connection, or without
	// a connection, only the first is forwarded. The key applies for as long as its event is kept. Default: the event is
	// never a duplicate.
	IdempotencyKey patch.Optional[string] `json:"idempotency_key,omitempty" minLength:"1" maxLength:"255" example:"invoice-4711-paid"`
	// The connection of the event. Default: none.
	ConnectionID patch.Optional[string] `json:"connection_id,omitempty" minLength:"1" example:"acme-production"`
	// The provider configuration of the connection. Required only if several connections have this id.
	ProviderConfigKey patch.Optional[string] `json:"provider_config_key,omitempty" minLength:"1" example:"github"`
}

// CheckRefused adds the errors that the service would find.
func (b *publication) CheckRefused(_ context.Context, v *apperr.Violations) {
	in := b.publication()
	in.Check(v)
}

func (b *publication) publication() ingest.Publication {
	return ingest.Publication{EventType: b.EventType, Data: b.Data.Bytes(), IdempotencyKey: b.IdempotencyKey.Pointer(),
		ConnectionID: b.ConnectionID.Pointer(), ProviderConfigKey: b.ProviderConfigKey.Pointer()}
}

type publishInput struct{ Body publication }

type publishOutput struct {
	Status int
	// The path of the event; absent for a duplicate.
	Location string `header:"Location"`
	Body     Published
}

// Published is the response to a publication.
type Published struct {
	Acknowledgement
	// `same_id_new_body`: the data of the first event with this idempotency key are others. These were not forwarded.
	// Absent otherwise.
	Suspect string `json:"suspect,omitempty" enum:"same_id_new_body"`
}

func (h *publishHandler) publish(ctx context.Context, in *publishInput) (*publishOutput, error) {
	receipt, err := h.publisher.Publish(ctx, access.From(ctx), in.Body.publication())
	if err != nil {
		return nil, err
	}
	out := &publishOutput{Status: http.StatusOK, Body: Published{Acknowledgement: Acknowledgement{
		EventUUID: receipt.EventUUID, Status: "received", Duplicate: receipt.Duplicate}}}
	if receipt.Suspect {
		out.Body.Suspect = events.SuspectNewBody
	}
	if !receipt.Duplicate {
		out.Status, out.Location = http.StatusCreated, httpapi.Prefix+eventsPath+"/"+receipt.EventUUID
	}
	return out, nil
}
