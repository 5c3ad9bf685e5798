// Package eventshttp serves webhook events, their deliveries, attempts and replay, and the event stream over HTTP.
package eventshttp

import (
	"context"
	"fmt"
	"net/http"

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
			"names them. A page with bodies may be shorter than `limit`.",
	}, httpapi.List[listInput, events.Event, Listed]{Rows: h.list, Fit: countFitting, Views: h.viewRows,
		Key: func(e *events.Event) string { return e.UUID }, IsKey: id.IsUUID})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-webhook-event", Method: http.MethodGet, Path: itemPath, Status: http.StatusOK, Tag: tag,
		Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Summary:     "Get a webhook event",
		Description: "Returns an event with its headers, body and deliveries.",
	}, h.get)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-webhook-event-attempts", Method: http.MethodGet, Path: itemPath + "/attempts", Status: http.StatusOK,
		Tag: tag, Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Summary:     "List the attempts of a webhook event",
		Description: "Lists the attempts of all the event's deliveries, newest first, with each request and response.",
	}, httpapi.List[attemptsInput, deliveries.Attempt, Attempt]{Rows: h.listAttempts, View: viewListedAttempt,
		Key: func(a *deliveries.Attempt) string { return a.ID }, IsKey: id.IsUUID})
	httpapi.Register(api, httpapi.Operation{
		ID: "replay-webhook-event", Method: http.MethodPost, Path: itemPath + "/replay", Status: http.StatusAccepted,
		Tag: tag, Permission: access.EventsReplay, Route: access.RouteWebhooks, Environment: true,
		Errors:  []apperr.Code{apperr.CodeDeliveryInFlight, apperr.CodeNothingToReplay, apperr.CodePayloadExpired},
		Summary: "Replay a webhook event",
		Description: "Sends the event again to each subscription whose delivery is dead or waits for a retry. The retry " +
			"schedule starts from the beginning; the `webhook-id` stays the same. `force` also replays the other deliveries. " +
			"Deliveries of deleted subscriptions are not replayed. An empty body means `{}`.",
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

// maxPageBodies limits the bodies of one page in bytes, so that a page of large events does not exhaust memory.
const maxPageBodies = 16 << 20

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]events.Event, error) {
	return h.events.List(ctx, access.From(ctx).View(), in.filter(), p)
}

// countFitting returns the number of events, at least one, whose bodies fit within the limit of a page.
func countFitting(in *listInput, list []events.Event) int {
	if !in.parts().body {
		return len(list)
	}
	left := int64(maxPageBodies)
	for i, e := range list {
		if e.PayloadExpired {
			continue
		}
		if left -= e.BodySize; left < 0 {
			return max(i, 1)
		}
	}
	return max(len(list), 1)
}

func (h *handlers) viewRows(ctx context.Context, in *listInput, list []events.Event) ([]Listed, error) {
	env, include := access.From(ctx).Environment, in.parts()
	var payloads map[string]events.Payload
	var byEvent map[string][]deliveries.Delivery
	var err error
	if include.body || include.headers {
		if payloads, err = h.events.Payloads(ctx, env, list); err != nil {
			return nil, err
		}
	}
	if include.deliveries {
		uuids := make([]string, len(list))
		for i, e := range list {
			uuids[i] = e.UUID
		}
		if byEvent, err = h.deliveries.Store().ByEvents(ctx, env, uuids); err != nil {
			return nil, err
		}
	}
	rows := make([]Listed, len(list))
	for i := range list {
		if rows[i], err = viewListed(&list[i], payloads, byEvent[list[i].UUID], include); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

type itemOutput struct{ Body Event }

func (h *handlers) get(ctx context.Context, in *itemInput) (*itemOutput, error) {
	v := access.From(ctx).View()
	env := v.Environment
	e, err := h.events.Get(ctx, v, in.EventUUID)
	if err != nil {
		return nil, err
	}
	payloads, err := h.events.Payloads(ctx, env, []events.Event{e})
	if err != nil {
		return nil, err
	}
	byEvent, err := h.deliveries.Store().ByEvents(ctx, env, []string{e.UUID})
	if err != nil {
		return nil, err
	}
	view, err := viewEvent(&e, payloads, byEvent[e.UUID])
	return &itemOutput{Body: view}, err
}

func (h *handlers) expunge(ctx context.Context, in *itemInput) (*struct{}, error) {
	return nil, h.deliveries.Expunge(ctx, access.From(ctx), in.EventUUID)
}

type attemptsInput struct {
	// The event's UUID.
	EventUUID string `path:"event_uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	page.Query
}

func (h *handlers) listAttempts(ctx context.Context, in *attemptsInput, p page.Request) ([]deliveries.Attempt, error) {
	v := access.From(ctx).View()
	if _, err := h.events.Get(ctx, v, in.EventUUID); err != nil {
		return nil, err
	}
	return h.deliveries.Store().Attempts(ctx, v.Environment, in.EventUUID, p)
}

func viewListedAttempt(_ context.Context, a *deliveries.Attempt) Attempt { return viewAttempt(a) }

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
