// Package webhookeventshttp serves webhook events, their tries and their replay over HTTP.
package webhookeventshttp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/deliveries"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/webhookevents"
)

const (
	tag            = "Webhook events"
	collectionPath = "/webhook-events"
	itemPath       = collectionPath + "/{event_uuid}"
)

// Mount adds the operations to the API.
func Mount(api *httpapi.API, events *webhookevents.Store, d *deliveries.Service) {
	h := &handlers{events: events, deliveries: d}
	read := func(o httpapi.Operation) httpapi.Operation {
		o.Method, o.Tag, o.Status, o.Environment = http.MethodGet, tag, http.StatusOK, true
		o.Route, o.Permission = access.RouteEvents, access.EventsRead
		return o
	}
	httpapi.Register(api, read(httpapi.Operation{ID: "list-webhook-events", Path: collectionPath, Summary: "List webhook events",
		Description: "Lists the environment's events, newest first. Values of one filter, repeated or separated by commas, are alternatives; " +
			"different filters restrict together."}), h.list)
	httpapi.Register(api, read(httpapi.Operation{ID: "get-webhook-event", Path: itemPath, Summary: "Get a webhook event",
		Description: "Returns one event with its headers, body and deliveries."}), h.get)
	httpapi.Register(api, read(httpapi.Operation{ID: "list-webhook-event-attempts", Path: itemPath + "/attempts",
		Summary: "List the tries of a webhook event", Description: "Lists every recorded try of the event's deliveries, newest first."}), h.attempts)
	httpapi.Register(api, httpapi.Operation{ID: "replay-webhook-event", Method: http.MethodPost, Path: itemPath + "/replay", Tag: tag,
		Status: http.StatusAccepted, Environment: true, Route: access.RouteWebhooks, Permission: access.EventsReplay,
		Summary: "Send a webhook event again",
		Description: "Starts a new generation of the event's deliveries that are dead or between tries and, with `force`, of the others. " +
			"The `webhook-id` stays the same. An empty body replays all that failed.",
		Errors: []apperr.Code{apperr.CodeDeliveryInFlight, apperr.CodeNothingToReplay}}, h.replay)
}

type handlers struct {
	events     *webhookevents.Store
	deliveries *deliveries.Service
}

type listInput struct {
	page.Query
	Status            []string  `query:"status,explode" maxItems:"50" enum:"received,forwarding,forwarded,failed,dead_letter" doc:"Only events in these statuses."`
	Provider          []string  `query:"provider,explode" maxItems:"50" doc:"Only events of these providers." example:"github"`
	ProviderConfigKey []string  `query:"provider_config_key,explode" maxItems:"50" doc:"Only events of these provider configurations."`
	ConnectionID      []string  `query:"connection_id,explode" maxItems:"50" doc:"Only events of these connections."`
	EventType         []string  `query:"event_type,explode" maxItems:"50" doc:"Only events of these types; a trailing .* stands for one or more further segments." example:"issues.*"`
	SubscriptionID    []string  `query:"subscription_id,explode" maxItems:"50" doc:"Only events with a delivery to one of these subscriptions."`
	IdempotencyKey    string    `query:"idempotency_key" maxLength:"600" doc:"Only events of this key."`
	Duplicate         string    `query:"duplicate" enum:"true,false" doc:"true: only repeats; false: only events of their own."`
	Control           string    `query:"control" enum:"true,false" doc:"true: only control messages; false: only others."`
	ReceivedAfter     time.Time `query:"received_after" doc:"Only events received after this time."`
	ReceivedBefore    time.Time `query:"received_before" doc:"Only events received before this time."`
	HTTPStatus        []int     `query:"http_status,explode" maxItems:"50" minimum:"100" maximum:"599" doc:"Only events with a delivery whose last answer had one of these statuses."`
	ErrorCode         []string  `query:"error_code,explode" maxItems:"50" doc:"Only events with a delivery whose last failure had one of these codes." example:"timeout"`
	Include           []string  `query:"include,explode" maxItems:"3" enum:"body,headers,deliveries" doc:"What rows carry beside the rest. Default none."`
	url               url.URL
}

// Resolve adds what the schema cannot say to its faults, so that all come in one answer.
func (in *listInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	var f apperr.Faults
	for _, p := range in.EventType {
		if !validPattern(p) {
			f.Add("query.event_type", "pattern", "a pattern is an exact type, * or a type followed by .*")
		}
	}
	for name, values := range map[string][]string{"provider": in.Provider, "provider_config_key": in.ProviderConfigKey,
		"connection_id": in.ConnectionID, "error_code": in.ErrorCode, "subscription_id": in.SubscriptionID, "idempotency_key": {in.IdempotencyKey}} {
		for _, v := range values {
			if len(v) > 600 || strings.ContainsRune(v, 0) || v != strings.ToValidUTF8(v, "") {
				f.Add("query."+name, "format", "the value cannot be one of this field")
			}
		}
	}
	if err := f.Err(); err != nil {
		return []error{err}
	}
	return nil
}

// validPattern accepts what a list can look for: an exact type, everything, or everything below a prefix.
func validPattern(p string) bool {
	if p == "*" {
		return true
	}
	p = strings.TrimSuffix(p, ".*")
	if p == "" || len(p) > 256 {
		return false
	}
	return !strings.ContainsFunc(p, func(r rune) bool { return r <= ' ' || r > '~' || r == '*' })
}

func (in *listInput) filter() webhookevents.Filter {
	f := webhookevents.Filter{Providers: in.Provider, ProviderConfigKeys: in.ProviderConfigKey, ConnectionIDs: in.ConnectionID, Types: in.EventType,
		DeliveryCriteria: webhookevents.DeliveryCriteria{HTTPStatuses: in.HTTPStatus, ErrorCodes: in.ErrorCode, SubscriptionIDs: in.SubscriptionID}}
	for _, s := range in.Status {
		f.Statuses = append(f.Statuses, webhookevents.Status(s))
	}
	if in.IdempotencyKey != "" {
		f.IdempotencyKeys = []string{in.IdempotencyKey}
	}
	f.Duplicate, f.Control = flag(in.Duplicate), flag(in.Control)
	if !in.ReceivedAfter.IsZero() {
		f.ReceivedAfter = &in.ReceivedAfter
	}
	if !in.ReceivedBefore.IsZero() {
		f.ReceivedBefore = &in.ReceivedBefore
	}
	return f
}

func flag(s string) *bool {
	if s == "" {
		return nil
	}
	b := s == "true"
	return &b
}

type listOutput struct {
	page.Headers
	Body []Event
}

func (h *handlers) list(ctx context.Context, in *listInput) (*listOutput, error) {
	env := access.From(ctx).Environment
	filter := in.filter()
	request, err := in.Parse(filter.Scope(env), id.IsUUID)
	if err != nil {
		return nil, err
	}
	rows, err := h.events.List(ctx, env, filter, request)
	if err != nil {
		return nil, err
	}
	rows, headers := page.Cut(request, rows, func(e webhookevents.Event) string { return e.UUID }, in.url.Path, in.url.Query())
	body, err := h.views(ctx, env, rows, in.Include)
	if err != nil {
		return nil, err
	}
	return &listOutput{Headers: headers, Body: body}, nil
}

// views returns the events with what include names.
func (h *handlers) views(ctx context.Context, env id.Environment, rows []webhookevents.Event, include []string) ([]Event, error) {
	var payloads map[string]webhookevents.Payload
	var all map[string][]deliveries.Delivery
	var err error
	if slices.Contains(include, "body") || slices.Contains(include, "headers") {
		if payloads, err = h.events.Payloads(ctx, env, rows); err != nil {
			return nil, err
		}
	}
	if slices.Contains(include, "deliveries") {
		uuids := make([]string, len(rows))
		for i, e := range rows {
			uuids[i] = e.UUID
		}
		if all, err = h.deliveries.Store().ByEvents(ctx, env, uuids); err != nil {
			return nil, err
		}
	}
	out := make([]Event, 0, len(rows))
	for _, row := range rows {
		e, err := eventOf(row)
		if err != nil {
			return nil, err
		}
		if slices.Contains(include, "headers") {
			if err := e.addHeaders(payloads[row.UUID]); err != nil {
				return nil, err
			}
		}
		if slices.Contains(include, "body") {
			if err := e.addBody(payloads[row.UUID]); err != nil {
				return nil, err
			}
		}
		if slices.Contains(include, "deliveries") {
			list := deliveriesOf(all[row.UUID])
			e.Deliveries = &list
		}
		out = append(out, e)
	}
	return out, nil
}

// Item names one event in a path. It is exported because Huma looks only into exported embedded types.
type Item struct {
	EventUUID string `path:"event_uuid" doc:"The event's id." example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
}

type itemInput struct{ Item }

type itemOutput struct{ Body Event }

func (h *handlers) get(ctx context.Context, in *itemInput) (*itemOutput, error) {
	env := access.From(ctx).Environment
	row, err := h.events.Get(ctx, env, in.EventUUID)
	if err != nil {
		return nil, err
	}
	list, err := h.views(ctx, env, []webhookevents.Event{row}, []string{"body", "headers", "deliveries"})
	if err != nil {
		return nil, err
	}
	return &itemOutput{Body: list[0]}, nil
}

type attemptsInput struct {
	Item
	page.Query
	url url.URL
}

// Resolve keeps the URL for the link to the next page.
func (in *attemptsInput) Resolve(ctx huma.Context) []error {
	in.url = ctx.URL()
	return nil
}

type attemptsOutput struct {
	page.Headers
	Body []Attempt
}

func (h *handlers) attempts(ctx context.Context, in *attemptsInput) (*attemptsOutput, error) {
	env := access.From(ctx).Environment
	if _, err := h.events.Get(ctx, env, in.EventUUID); err != nil {
		return nil, err
	}
	request, err := in.Parse(string(env)+" attempts "+in.EventUUID, id.IsUUID)
	if err != nil {
		return nil, err
	}
	rows, err := h.deliveries.Store().Attempts(ctx, env, in.EventUUID, request)
	if err != nil {
		return nil, err
	}
	rows, headers := page.Cut(request, rows, func(a deliveries.Attempt) string { return a.ID }, in.url.Path, in.url.Query())
	out := &attemptsOutput{Headers: headers, Body: make([]Attempt, 0, len(rows))}
	for _, row := range rows {
		a, err := attemptOf(row)
		if err != nil {
			return nil, err
		}
		out.Body = append(out.Body, a)
	}
	return out, nil
}

// Replay is the body of a replay.
type Replay struct {
	SubscriptionIDs []string `json:"subscription_ids,omitempty" minItems:"1" maxItems:"100" uniqueItems:"true" doc:"Only the deliveries to these subscriptions. Default all." example:"[\"sub_06dyxk8z3pk6n5q1v7wc4t2m9r\"]"`
	Force           bool     `json:"force,omitempty" default:"false" doc:"Replay deliveries that have not failed, too. Default false."`
}

// Resolve checks the ids.
func (r *Replay) Resolve(_ huma.Context, prefix *huma.PathBuffer) []error {
	var f apperr.Faults
	for i, s := range r.SubscriptionIDs {
		if !id.Is(id.PrefixSubscription, s) {
			f.Add(fmt.Sprintf("%s.subscription_ids[%d]", prefix.String(), i), "format", "the value is no id of a subscription")
		}
	}
	if err := f.Err(); err != nil {
		return []error{err}
	}
	return nil
}

type replayInput struct {
	Item
	Body *Replay
}

// Replayed is a replayed event.
type Replayed struct {
	EventUUID  string     `json:"event_uuid" format:"uuid" doc:"The event." example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	Status     string     `json:"status" enum:"received,forwarding,forwarded,failed,dead_letter" doc:"Where the event stands now." example:"forwarding"`
	Deliveries []Delivery `json:"deliveries" doc:"The event's deliveries as they stand now."`
}

type replayOutput struct {
	Location string `header:"Location" doc:"The path of the event."`
	Body     Replayed
}

func (h *handlers) replay(ctx context.Context, in *replayInput) (*replayOutput, error) {
	p := access.From(ctx)
	var request deliveries.ReplayRequest
	if in.Body != nil {
		request = deliveries.ReplayRequest{SubscriptionIDs: in.Body.SubscriptionIDs, Force: in.Body.Force}
	}
	list, err := h.deliveries.Replay(ctx, p, in.EventUUID, request)
	if err != nil {
		return nil, err
	}
	e, err := h.events.Get(ctx, p.Environment, in.EventUUID)
	if err != nil {
		return nil, err
	}
	return &replayOutput{Location: httpapi.Prefix + collectionPath + "/" + e.UUID,
		Body: Replayed{EventUUID: e.UUID, Status: string(e.Status), Deliveries: deliveriesOf(list)}}, nil
}
