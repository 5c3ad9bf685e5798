package eventshttp

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/sse"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/eventstream"
)

const (
	streamPath = collectionPath + "/stream"
	streamTag  = "Event stream"
	ticketPath = collectionPath + "/stream-ticket"
	// retry is the reconnection time sent to clients.
	retry = 3 * time.Second
	// writeTimeout limits the time of a single write to a client.
	writeTimeout = 10 * time.Second
)

// mountStream adds the event stream and its tickets to the API.
func mountStream(api *httpapi.API, stream *eventstream.Service) {
	h := &streaming{stream: stream}
	httpapi.RegisterStream(api, httpapi.Operation{
		ID: "stream-webhook-events", Method: http.MethodGet, Path: streamPath, Status: http.StatusOK, Tag: streamTag,
		Permission: access.EventsRead, Route: access.RouteEvents, Environment: true, Tickets: h,
		Errors:  []apperr.Code{apperr.CodeTooManyStreams},
		Summary: "Stream webhook events",
		Messages: map[apperr.Code][]string{
			apperr.CodeUnavailable: {
				"The server has as many open streams as it can feed",
			},
			apperr.CodeAmbiguousCredentials: {
				"Send one credential: API-Key, Authorization or ticket, once",
			},
		},
		Description: "Streams server-sent events about received events, attempts and status changes as they happen. It " +
			"takes the filters of the list.\n\n" +
			"- `webhook_event.received` is sent once for each event.\n" +
			"- `webhook_attempt.completed` is sent once for each attempt.\n" +
			"- `webhook_event.updated` is sent when an event has changed and shows its present state. Changes in quick " +
			"succession are combined into one message.\n\n" +
			"A message is sent if the event matches the filters at that moment. For an attempt, `subscription_id`, " +
			"`http_status` and `error_code` apply to the attempt itself.\n\n" +
			"**Reconnecting.** A client that reconnects with `Last-Event-ID` resumes after that message, on any node and " +
			"after a restart. A client that has missed more than an hour or 10,000 messages of the environment receives " +
			"`stream.gap` and resumes from now. A client that reads too slowly receives `stream.lagged`. Every stream ends " +
			"within about 30 minutes with `stream.closed`; reconnect then. A comment every 15 seconds shows that the stream " +
			"is alive and advances the id. The stream ends within 5 seconds after its credential has ended.\n\n" +
			"**Browsers.** A browser's `EventSource` cannot send headers. Create a ticket with `POST " +
			"/webhook-events/stream-ticket` and open the stream with `?ticket=` and without filters. A ticket works once, so " +
			"each reconnect needs a new ticket, with `last_event_id` in the query.",
		Stream: []httpapi.StreamMessage{
			{Event: string(eventstream.EventReceived), Doc: "An event was received and stored.", Data: Summary{}},
			{Event: string(eventstream.AttemptCompleted), Doc: "An attempt was recorded.", Data: CompletedAttempt{}},
			{Event: string(eventstream.EventUpdated),
				Doc: "An event has changed, for example by an attempt, a replay or a hold.", Data: Summary{}},
			{Event: eventstream.StreamGap,
				Doc: "Messages of a period were missed. The stream resumes at the end of the period.", Data: eventstream.Gap{}},
			{Event: eventstream.StreamLagged, Doc: "The client reads too slowly. The stream ends.", Data: eventstream.Closing{}},
			{Event: eventstream.StreamClosed, Doc: "The stream ends.", Data: eventstream.Closing{}},
		},
	}, h.openStream)
	httpapi.Register(api, httpapi.Operation{
		ID: "create-webhook-event-stream-ticket", Method: http.MethodPost, Path: ticketPath, Status: http.StatusCreated,
		Tag: streamTag, Permission: access.EventsRead, Route: access.RouteEvents, Environment: true,
		Errors:  []apperr.Code{apperr.CodeRateLimited},
		Summary: "Create a ticket for the event stream",
		Messages: map[apperr.Code][]string{
			apperr.CodeRateLimited: {
				"Too many unused tickets",
			},
		},
		Description: "Creates a ticket that opens `GET /webhook-events/stream` once within 60 seconds. The stream acts for " +
			"the caller in the caller's environment and uses the filters of this request. The stream ends when the caller's " +
			"key or session ends.",
	}, h.createTicket)
}

type streaming struct{ stream *eventstream.Service }

type streamInput struct {
	FilterQuery
	// A ticket from `POST /webhook-events/stream-ticket`, instead of a credential in the headers. The ticket contains the
	// filters; other filters are rejected.
	Ticket string `query:"ticket" maxLength:"64"`
	// The id of the last message received. The stream resumes after it. The `Last-Event-ID` header takes precedence.
	After string `query:"last_event_id" maxLength:"64"`
	// The id of the last message received. The stream resumes after it. `EventSource` sends this header when it
	// reconnects.
	LastEventID string `header:"Last-Event-ID" maxLength:"64"`
	from        *eventstream.Place
}

// Check parses the place and checks the rules that the schema cannot express.
func (in *streamInput) Check(ctx context.Context, v *apperr.Violations) {
	in.FilterQuery.Check(ctx, v)
	for _, name := range superfluousParameters(httpapi.RequestFrom(ctx).URL.Query()) {
		v.Add("query."+name, "ticket", "must not be given together with a ticket, which contains the filters")
	}
	text, location := in.After, "query.last_event_id"
	if in.LastEventID != "" {
		text, location = in.LastEventID, "header.Last-Event-ID"
	}
	if text != "" {
		place, err := eventstream.ParsePlace(access.From(ctx).Environment, text)
		if err != nil {
			v.Add(location, "event_id", "is not from a stream of this environment")
		}
		in.from = &place
	}
}

// superfluousParameters returns the parameters of a query that must not be given with a ticket.
func superfluousParameters(query url.Values) []string {
	if !query.Has("ticket") {
		return nil
	}
	var names []string
	for name := range query {
		if name != "ticket" && name != "last_event_id" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// openStream reserves a place for the reader before the response begins, so that a refusal is an ordinary error.
func (h *streaming) openStream(ctx context.Context, in *streamInput) (httpapi.Responder, error) {
	filter := in.filter()
	if held, ok := ctx.Value(ticketFilterKey{}).(events.Filter); ok {
		filter = held
	}
	credential := httpapi.CredentialOf(ctx)
	request := eventstream.Request{View: access.From(ctx).View(), Filter: filter, From: in.from,
		Credential: credential.Name, Check: credential.Check}
	reader, err := h.stream.Open(ctx, request)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, w http.ResponseWriter) {
		out := sse.NewWriter(w, writeTimeout)
		if err := out.Open(retry); err != nil {
			return // the client is gone
		}
		reader.Serve(ctx, out)
	}, nil
}

type ticketInput struct{ FilterQuery }

// StreamTicketCreated is a new ticket. It is shown only once.
type StreamTicketCreated struct {
	// Generated: the ticket, which opens one stream as the query parameter `ticket`.
	Ticket string `json:"ticket" readOnly:"true" example:"tkt_06dprg8dj1v6hckm0sjzmn2m1c"`
	// When the ticket expires: 60 seconds after its creation.
	ExpiresAt httpapi.Time `json:"expires_at"`
}

type ticketOutput struct {
	// The path of the stream. Add the ticket to it.
	Location string `header:"Location"`
	Body     StreamTicketCreated
}

func (h *streaming) createTicket(ctx context.Context, in *ticketInput) (*ticketOutput, error) {
	ticket, expires, err := h.stream.MakeTicket(ctx, access.From(ctx), in.filter())
	return &ticketOutput{Location: httpapi.Prefix + streamPath, Body: StreamTicketCreated{Ticket: ticket,
		ExpiresAt: httpapi.Time(expires)}}, err
}

// ticketFilterKey is the context key of the filter of a ticket.
type ticketFilterKey struct{}

// UseTicket implements httpapi.Tickets.
func (h *streaming) UseTicket(ctx context.Context, ticket, ip string) (context.Context, access.Principal, error) {
	p, filter, err := h.stream.UseTicket(ctx, ticket, ip)
	return context.WithValue(ctx, ticketFilterKey{}, filter), p, err
}

// Current implements httpapi.Tickets.
func (h *streaming) Current(ctx context.Context, p access.Principal) (access.Principal, error) {
	return h.stream.Current(ctx, p)
}

// CompletedAttempt is an attempt as the stream shows it, without its request and response.
type CompletedAttempt struct {
	// The event's UUID.
	EventUUID string `json:"event_uuid" format:"uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	// The slug of the provider's definition.
	Provider string `json:"provider" example:"github"`
	// The provider configuration of the connection.
	ProviderConfigKey string `json:"provider_config_key" example:"github"`
	// The id of the connection within its provider configuration.
	ConnectionID string `json:"connection_id" example:"acme-production"`
	// The provider's type of the event.
	EventType string `json:"event_type" example:"issues.opened"`
	// The attempt's UUID.
	ID string `json:"id" format:"uuid" example:"01939a4e-7a61-7b02-b7f4-6e0d2f9a1c33"`
	// The subscription that the attempt was for.
	SubscriptionID string `json:"subscription_id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The generation of the delivery that the attempt belongs to.
	Generation int64 `json:"generation" example:"1"`
	// The attempt's number within its generation, counted from 1.
	Number int64 `json:"number" example:"1"`
	// The result of the attempt:
	// - `succeeded`: the receiver responded with a 2xx status code.
	// - `failed`: the attempt failed; see `error`.
	// - `superseded`: the request was sent, but another worker had taken over the delivery before the outcome was stored.
	Outcome deliveries.AttemptOutcome `json:"outcome"`
	// When the attempt began.
	StartedAt httpapi.Time `json:"started_at"`
	// The status code of the response; `null` if there was no response.
	HTTPStatus *int `json:"http_status" example:"200"`
	// Why the attempt failed; `null` if it did not fail.
	Error httpapi.OrNull[AttemptError] `json:"error"`
	// The duration of each phase.
	Timings Timings `json:"timings"`
}

func viewCompletedAttempt(e *events.Event, a *deliveries.Attempt) CompletedAttempt {
	full := viewAttempt(a)
	return CompletedAttempt{EventUUID: e.UUID, Provider: e.Provider, ProviderConfigKey: e.ProviderConfigKey,
		ConnectionID: e.ConnectionID, EventType: e.Type, ID: full.ID, SubscriptionID: full.SubscriptionID,
		Generation: full.Generation, Number: full.Number, Outcome: full.Outcome, StartedAt: full.StartedAt,
		HTTPStatus: full.HTTPStatus, Error: full.Error, Timings: full.Timings}
}

// StreamData returns the data of a message of the stream.
func StreamData(m eventstream.Message) ([]byte, error) {
	var data any
	if m.Attempt != nil {
		data = viewCompletedAttempt(m.Event, m.Attempt)
	} else {
		s, err := viewSummary(m.Event)
		if err != nil {
			return nil, err
		}
		data = s
	}
	b, err := marshalUnescaped(data)
	return bytes.TrimSuffix(b, []byte("\n")), err
}
