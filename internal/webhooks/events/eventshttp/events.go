// Package eventshttp serves webhook events, their deliveries, attempts and replay, and the event stream over HTTP.
package eventshttp

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/eventstream"
)

const (
	tag            = "Webhook events"
	collectionPath = "/webhook-events"
	itemPath       = "/webhook-events/{event_uuid}"
)

// Mount adds the operations on webhook events to the API.
func Mount(api *httpapi.API, found *events.Store, dl *deliveries.Service, stream *eventstream.Service) {
	h := &handlers{events: found, deliveries: dl}
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-webhook-events", Method: http.MethodGet, Path: collectionPath, Status: http.StatusOK, Tag: tag,
		Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Summary: "List webhook events",
		Description: "Lists the environment's events, newest first. Different filters are combined with AND. Several " +
			"values of one filter, in several parameters or separated by commas, are combined with OR. `subscription_id`, " +
			"`http_status` and `error_code` must match the same delivery.\n\n" +
			"`idempotency_key` and `q` find a duplicate only while its original exists. A `q` that is the beginning of more " +
			"than 200 event types in the environment is rejected. Bodies, headers and deliveries are omitted unless `include` " +
			"names them.\n\n" +
			"A page can be shorter than `limit` although another follows: if the parts that `include` names are large, or " +
			"if few of many events match the filters. Such a search ends after half a second, possibly without an event, and " +
			"the next page continues it. Only a page without `X-Next-Cursor` is the last.",
	}, httpapi.List[listInput, events.Event, Listed]{Search: h.list, Fit: countFitting, Views: h.viewRows,
		Key: func(e *events.Event) string { return e.UUID }, IsKey: id.IsUUID})
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-webhook-event-types", Method: http.MethodGet, Path: collectionPath + "/types", Status: http.StatusOK,
		Tag: tag, Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Summary: "List the event types of providers",
		Description: "Lists the types that providers are known to send, according to their definitions, by provider and " +
			"type. A provider may send further types, and for some providers none is " +
			"known. A provider that does not exist is an error. A pattern of a subscription that none of its provider's types " +
			"fits is only a warning.",
	}, httpapi.List[typesInput, knownType, eventType]{Rows: h.listTypes, View: viewType,
		Key: (*knownType).key, IsKey: func(key string) bool { return strings.Contains(key, "/") }})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-webhook-event", Method: http.MethodGet, Path: itemPath, Status: http.StatusOK, Tag: tag,
		Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Summary: "Get a webhook event",
		Description: "Returns an event with its headers, body and deliveries. An API key for some connections sees the " +
			"deliveries to subscriptions of these connections; `status` and `attempt_count` are about all deliveries.",
	}, h.get)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-webhook-event-attempts", Method: http.MethodGet, Path: itemPath + "/attempts", Status: http.StatusOK,
		Tag: tag, Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Summary: "List the attempts of a webhook event",
		Description: "Lists the attempts of the event's deliveries, newest first, with each request and response. An API " +
			"key for some connections sees those for subscriptions of these connections. A page of large ones may be shorter " +
			"than `limit`.",
	}, httpapi.List[attemptsInput, deliveries.Attempt, Attempt]{Search: h.listAttempts, View: viewListedAttempt,
		Key: func(a *deliveries.Attempt) string { return a.ID }, IsKey: id.IsUUID})
	httpapi.Register(api, httpapi.Operation{
		ID: "replay-webhook-event", Method: http.MethodPost, Path: itemPath + "/replay", Status: http.StatusAccepted,
		Tag: tag, Permission: access.EventsReplay, Route: access.RouteWebhooks, Environment: true,
		Errors:  []apperr.Code{apperr.CodeDeliveryInFlight, apperr.CodeNothingToReplay, apperr.CodePayloadExpired},
		Summary: "Replay a webhook event",
		Example: `{"force": true}`,
		Messages: map[apperr.Code][]string{
			apperr.CodeNothingToReplay: {
				"No delivery of the event has failed; force replays the others",
				"The event has no delivery that can be replayed; its subscriptions were deleted, or it matched none",
			},
		},
		Description: "Sends the event again to each subscription whose delivery is dead or waits for a retry. The retry " +
			"schedule starts from the beginning; the `webhook-id` stays the same. `force` also replays the other deliveries. " +
			"Deliveries of deleted subscriptions are not replayed, nor those of subscriptions that the API key may not see. " +
			"More than 200 deliveries can be replayed in parts. If a request fails with a status code of 500 or above, some " +
			"of them may have been replayed; a request without `force` then replays the others. An empty body means `{}`.",
	}, h.replay)
	httpapi.Register(api, httpapi.Operation{
		ID: "expunge-webhook-event-payload", Method: http.MethodDelete, Path: itemPath + "/payload",
		Status: http.StatusNoContent, Tag: tag, Permission: access.EventsExpunge, Route: access.RouteWebhooks,
		Environment: true, Summary: "Expunge the payload of a webhook event",
		Description: "Permanently removes the headers and body of the event and cancels its open deliveries. An attempt in " +
			"progress runs to its end. The event, its deliveries, its attempts and its idempotency key remain, so a duplicate " +
			"is still recognised. An event without a payload is left unchanged.",
	}, h.expunge)
	mountPayload(api, h)
	mountStream(api, stream)
}

type handlers struct {
	events     *events.Store
	deliveries *deliveries.Service
}

type itemInput struct {
	// The event's UUID.
	EventUUID string `path:"event_uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]events.Event, string, error) {
	if err := h.events.CheckTypes("query.event_type", in.EventType); err != nil {
		return nil, "", err
	}
	return h.events.List(ctx, access.From(ctx).View(), in.filter(), p)
}

func (h *handlers) expunge(ctx context.Context, in *itemInput) (*struct{}, error) {
	return nil, h.deliveries.Expunge(ctx, access.From(ctx), in.EventUUID)
}

type replayInput struct {
	// The event's UUID.
	EventUUID string      `path:"event_uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	Body      *replayBody // nil means {}
}

// Check rejects ids that no subscription can have.
func (b *replayBody) Check(_ context.Context, v *apperr.Violations) {
	for i, s := range b.SubscriptionIDs {
		if !id.Is(id.PrefixSubscription, s) {
			v.Add(fmt.Sprintf("subscription_ids[%d]", i), "format", "must be the id of a subscription")
		}
	}
}

type replayBody struct {
	// Replay only the deliveries to these subscriptions. Default: all subscriptions.
	SubscriptionIDs []string `json:"subscription_ids,omitempty" minItems:"1" maxItems:"250" uniqueItems:"true" example:"[\"sub_06dyxk8z3pk6n5q1v7wc4t2m9r\"]"`
	// Also replay deliveries that succeeded, wait for their first attempt or are held; held ones are sent when the
	// subscription is enabled. Default `false`.
	Force bool `json:"force,omitempty"`
}

type replayOutput struct {
	// The path of the event.
	Location string `header:"Location"`
	Body     Replay
}

func (h *handlers) replay(ctx context.Context, in *replayInput) (*replayOutput, error) {
	p := access.From(ctx)
	var req deliveries.ReplayRequest
	if in.Body != nil {
		req = deliveries.ReplayRequest{SubscriptionIDs: in.Body.SubscriptionIDs, Force: in.Body.Force}
	}
	list, err := h.deliveries.Replay(ctx, p, in.EventUUID, req)
	if err != nil {
		return nil, err
	}
	e, err := h.events.Get(ctx, p.View(), in.EventUUID)
	if err != nil {
		return nil, err
	}
	return &replayOutput{
		Location: httpapi.Prefix + collectionPath + "/" + e.UUID,
		Body:     Replay{EventUUID: e.UUID, Status: e.Status, Deliveries: viewDeliveries(list)},
	}, nil
}
