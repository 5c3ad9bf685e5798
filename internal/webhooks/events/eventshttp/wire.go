package eventshttp

import (
	"encoding/json"
	"fmt"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// Summary is what a list's row and an event's detail have in common. It is exported because Huma looks only into
// exported embedded types.
type Summary struct {
	EventUUID         string                     `json:"event_uuid" format:"uuid" doc:"The event's UUID (version 7, sortable by time), and the webhook-id of every forward." example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	Provider          string                     `json:"provider" doc:"The slug of the provider's definition; sallyport for events that no provider has sent: those that are published, and the gateway's own." example:"github"`
	ProviderConfigKey string                     `json:"provider_config_key" doc:"The provider configuration of the connection; sallyport where there is no connection." example:"github"`
	ConnectionID      *string                    `json:"connection_id" doc:"The id of the connection inside its provider configuration; null for an event that is about none." example:"acme-production"`
	ConnectionUUID    *string                    `json:"connection_uuid" format:"uuid" doc:"The id of the connection in the whole service; null for an event that is about none." example:"3f0c9f62-6a58-4c33-9d0c-5a4c6b1b7f0e"`
	EnvironmentID     string                     `json:"environment_id" doc:"The environment that the event belongs to." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	EventType         string                     `json:"event_type" doc:"The provider's type of the event; unknown when it cannot be derived." example:"issues.opened"`
	EventTypes        []string                   `json:"event_types,omitempty" doc:"The types of a batch's items, each once and at most 64; event_type is the first. Absent where the delivery told of one event."`
	Status            string                     `json:"status" enum:"received,forwarding,forwarded,failed,dead_letter" doc:"Where the event stands, over all its deliveries. received: no delivery has been tried, or there is none. forwarding: one is being sent. failed: one waits after a failed try. dead_letter: one is dead. forwarded: they succeeded."`
	IdempotencyKey    string                     `json:"idempotency_key" doc:"What tells a repeat from an event." example:"72d3162e-cc78-11e3-81ab-4c9367dc0958"`
	IdempotencySource string                     `json:"idempotency_source" doc:"Where the key comes from: a header (header:…), a place in the body (json:/…), or body_hash; of an event that was published, api, or event_uuid where it has no key of its own." example:"header:x-github-delivery"`
	DuplicateOf       *string                    `json:"duplicate_of" format:"uuid" doc:"The event that this one repeats; null for an event of its own. A repeat has no payload and no deliveries."`
	Suspect           suspicion                  `json:"suspect" doc:"same_body_new_id: the body came before under another, unsigned id. Otherwise null."`
	Control           bool                       `json:"control" doc:"Whether it is a ping or confirmation of the provider, which is stored and never forwarded."`
	AttemptCount      int64                      `json:"attempt_count" doc:"The tries recorded, over all deliveries." example:"1"`
	LastError         httpapi.OrNull[EventError] `json:"last_error" doc:"The last failure of a delivery; null when none has failed."`
	ContentType       string                     `json:"content_type" doc:"The Content-Type of the delivery; empty when it had none." example:"application/json"`
	BodySize          int64                      `json:"body_size" doc:"The size of the body in bytes, also when it has expired." example:"1024"`
	PayloadExpiresAt  *httpapi.Time              `json:"payload_expires_at" nullable:"true" doc:"When the headers and the body are removed, or were; null for a repeat, and where they went under a shorter time than the environment has now."`
	ExpiresAt         httpapi.Time               `json:"expires_at" doc:"When the event is removed, with its deliveries, its attempts and its idempotency key."`
	PayloadExpired    bool                       `json:"payload_expired" doc:"Whether the payload has been removed: there are no headers and no body any more, and nothing can be sent again. A repeat never had one."`
	Verification      Verification               `json:"verification" doc:"How the delivery was verified."`
	ReceivedAt        httpapi.Time               `json:"received_at" doc:"When the delivery was received."`
	UpdatedAt         httpapi.Time               `json:"updated_at" doc:"When the event last changed."`
	ForwardedAt       *httpapi.Time              `json:"forwarded_at" nullable:"true" doc:"When the event first stood at forwarded; null before that."`
}

// Listed is a list's row.
type Listed struct {
	Summary
	Headers      included[headers]    `json:"headers,omitzero" doc:"The headers of the delivery by lower-case name, without hop-by-hop headers; credentials are [redacted]. Empty once the payload has expired. Only with include=headers."`
	Body         included[content]    `json:"body,omitzero" doc:"The body as body_encoding says; null for a repeat and once the payload has expired. Only with include=body."`
	BodyEncoding included[encoding]   `json:"body_encoding,omitzero" doc:"json: body is the JSON value. text: a string. base64: the bytes in base64. null: there is no body to show. Only with include=body."`
	Deliveries   included[[]Delivery] `json:"deliveries,omitzero" doc:"The deliveries of the event. Only with include=deliveries."`
}

// Event is an event's detail.
type Event struct {
	Summary
	Headers      headers    `json:"headers" doc:"The headers of the delivery by lower-case name, without hop-by-hop headers; credentials are [redacted]. Empty once the payload has expired."`
	Body         content    `json:"body" doc:"The body as body_encoding says; null for a repeat and once the payload has expired."`
	BodyEncoding encoding   `json:"body_encoding" doc:"json: body is the JSON value. text: a string. base64: the bytes in base64. null: there is no body to show."`
	Deliveries   []Delivery `json:"deliveries" doc:"The deliveries of the event, one per subscription that matched or that a bulk replay sent it to."`
}

// Verification says how a delivery was verified.
type Verification struct {
	Result string  `json:"result" enum:"verified,unverified" doc:"unverified: the connection's scheme verifies nothing."`
	Scheme string  `json:"scheme" doc:"The scheme by which deliveries of the connection are verified. Of an event that was published: api_key or user." example:"hmac"`
	KeyID  *string `json:"key_id" doc:"Which of the connection's secrets verified it; null where none did. Of an event that was published, the id of the key or user."`
}

// EventError is the last failure of an event's deliveries.
type EventError struct {
	DeliveryError
	SubscriptionID string `json:"subscription_id" doc:"The subscription whose delivery failed." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// DeliveryError is the last failure of a delivery. It is exported because Huma looks only into exported embedded types.
type DeliveryError struct {
	Code       string       `json:"code" doc:"The kind of failure." example:"unexpected_status"`
	Message    string       `json:"message" doc:"A sentence for a person." example:"The receiver answered with status 503"`
	HTTPStatus *int         `json:"http_status" doc:"The status of the answer; null where there was none." example:"503"`
	At         httpapi.Time `json:"at" doc:"When the try ended."`
}

// Delivery is one event on its way to one subscription.
type Delivery struct {
	ID             string                        `json:"id" format:"uuid" doc:"The delivery's UUID." example:"01939a4e-7a60-7d11-9c1e-0d8a3c5b2e47"`
	SubscriptionID string                        `json:"subscription_id" doc:"The subscription that the event goes to." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Status         string                        `json:"status" enum:"pending,sending,retry_wait,held,succeeded,dead,cancelled" doc:"pending: waits for a worker. sending: a try may be on the wire. retry_wait: waits after a failed try. held: its subscription is disabled. succeeded: answered 2xx. dead: refused for good, or the schedule is spent. cancelled: its subscription was deleted, or the event's payload expunged."`
	Generation     int64                         `json:"generation" doc:"Counts from 1; every replay raises it and restarts the schedule. A delivery that a bulk replay made begins with 2." example:"1"`
	AttemptCount   int64                         `json:"attempt_count" doc:"The tries recorded, over all generations." example:"1"`
	NextAttemptAt  *httpapi.Time                 `json:"next_attempt_at" nullable:"true" doc:"When the next try is due; null unless status is pending or retry_wait."`
	LastHTTPStatus *int                          `json:"last_http_status" doc:"The status of the last answer; null where the last try got none." example:"200"`
	LastError      httpapi.OrNull[DeliveryError] `json:"last_error" doc:"The last failure; null when no try has failed."`
	CompletedAt    *httpapi.Time                 `json:"completed_at" nullable:"true" doc:"When the delivery succeeded, died or was cancelled; null while it is open."`
}

// Replay is the answer to a replay.
type Replay struct {
	EventUUID  string     `json:"event_uuid" format:"uuid" doc:"The event." example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	Status     string     `json:"status" enum:"received,forwarding,forwarded,failed,dead_letter" doc:"Where the event stands now."`
	Deliveries []Delivery `json:"deliveries" doc:"All deliveries of the event as they stood when the replay was stored."`
}

func detail(e *events.Event, payloads map[string]events.Payload, list []deliveries.Delivery) (Event, error) {
	s, err := summary(e)
	p := payloadOf(payloads, e.UUID)
	return Event{Summary: s, Headers: headersOf(p), Body: content{p}, BodyEncoding: encoding{p},
		Deliveries: deliveryViews(list)}, err
}

func listed(e *events.Event, payloads map[string]events.Payload, list []deliveries.Delivery,
	want including) (Listed, error) {
	s, err := summary(e)
	row := Listed{Summary: s}
	p := payloadOf(payloads, e.UUID)
	if want.headers {
		row.Headers = include(headersOf(p))
	}
	if want.body {
		row.Body, row.BodyEncoding = include(content{p}), include(encoding{p})
	}
	if want.deliveries {
		row.Deliveries = include(deliveryViews(list))
	}
	return row, err
}

func payloadOf(payloads map[string]events.Payload, uuid string) *events.Payload {
	if p, ok := payloads[uuid]; ok {
		return &p
	}
	return nil
}

func headersOf(p *events.Payload) headers {
	if p == nil {
		return ""
	}
	return headers(p.Headers)
}

func summary(e *events.Event) (Summary, error) {
	var v struct {
		Result string `json:"result"`
		Scheme string `json:"scheme"`
		KeyID  string `json:"key_id"`
	}
	if err := json.Unmarshal([]byte(e.Verification), &v); err != nil {
		return Summary{}, fmt.Errorf("read an event's verification: %w", err)
	}
	failure, subscriptionID, err := deliveries.DecodeFailure(e.LastError)
	if err != nil {
		return Summary{}, err
	}
	s := Summary{
		EventUUID: e.UUID, Provider: e.Provider, ProviderConfigKey: e.ProviderConfigKey, ConnectionID: orNull(e.ConnectionID),
		ConnectionUUID: orNull(e.ConnectionUUID), EnvironmentID: string(e.Environment), EventType: e.Type,
		EventTypes: e.Types, Status: string(e.Status), IdempotencyKey: e.IdempotencyKey,
		IdempotencySource: e.IdempotencySource, DuplicateOf: e.DuplicateOf, Suspect: suspicion{e.Suspect}, Control: e.Control,
		AttemptCount: e.AttemptCount, ContentType: e.ContentType, BodySize: e.BodySize, PayloadExpired: e.PayloadExpired,
		PayloadExpiresAt: (*httpapi.Time)(e.PayloadExpiresAt), ExpiresAt: httpapi.Time(e.ExpiresAt),
		Verification: Verification{Result: v.Result, Scheme: v.Scheme, KeyID: orNull(v.KeyID)},
		ReceivedAt:   httpapi.Time(e.ReceivedAt), UpdatedAt: httpapi.Time(e.UpdatedAt),
		ForwardedAt: (*httpapi.Time)(e.ForwardedAt),
	}
	if failure != nil {
		s.LastError = httpapi.OrNull[EventError]{Value: &EventError{*failureView(failure), subscriptionID}}
	}
	return s, nil
}

func failureView(f *deliveries.Failure) *DeliveryError {
	if f == nil {
		return nil
	}
	return &DeliveryError{Code: f.Code, Message: f.Message, HTTPStatus: f.HTTPStatus, At: httpapi.Time(f.At)}
}

func deliveryViews(list []deliveries.Delivery) []Delivery {
	views := make([]Delivery, len(list))
	for i := range list {
		d := &list[i]
		views[i] = Delivery{
			ID: d.ID, SubscriptionID: d.SubscriptionID, Status: string(d.Status), Generation: d.Generation,
			AttemptCount: d.AttemptCount, LastHTTPStatus: d.LastHTTPStatus,
			LastError:   httpapi.OrNull[DeliveryError]{Value: failureView(d.LastFailure)},
			CompletedAt: (*httpapi.Time)(d.CompletedAt),
		}
		if d.Status == deliveries.Pending || d.Status == deliveries.RetryWait {
			due := httpapi.Time(d.Due)
			views[i].NextAttemptAt = &due
		}
	}
	return views
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
