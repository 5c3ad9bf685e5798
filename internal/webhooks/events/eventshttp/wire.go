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
	// The event's UUID (version 7, sortable by time), and the webhook-id of every forward.
	EventUUID string `json:"event_uuid" format:"uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	// The slug of the provider's definition; sallyport for events that no provider has sent: those that are published, and
	// the gateway's own.
	Provider string `json:"provider" example:"github"`
	// The provider configuration of the connection; sallyport where there is no connection.
	ProviderConfigKey string `json:"provider_config_key" example:"github"`
	// The id of the connection inside its provider configuration; null for an event that is about none.
	ConnectionID *string `json:"connection_id" example:"acme-production"`
	// The id of the connection in the whole service; null for an event that is about none.
	ConnectionUUID *string `json:"connection_uuid" format:"uuid" example:"3f0c9f62-6a58-4c33-9d0c-5a4c6b1b7f0e"`
	// The environment that the event belongs to.
	EnvironmentID string `json:"environment_id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The provider's type of the event; unknown when it cannot be derived.
	EventType string `json:"event_type" example:"issues.opened"`
	// The types of a batch's items, each once and at most 64; event_type is the first. Absent where the delivery told of
	// one event.
	EventTypes []string `json:"event_types,omitempty"`
	// Where the event stands, over all its deliveries. received: no delivery has been tried, or there is none. forwarding:
	// one is being sent. failed: one waits after a failed try. dead_letter: one is dead. forwarded: they succeeded.
	Status string `json:"status" enum:"received,forwarding,forwarded,failed,dead_letter"`
	// What tells a repeat from an event.
	IdempotencyKey string `json:"idempotency_key" example:"72d3162e-cc78-11e3-81ab-4c9367dc0958"`
	// Where the key comes from: a header (header:…), a place in the body (json:/…), or body_hash; of an event that was
	// published, api, or event_uuid where it has no key of its own.
	IdempotencySource string `json:"idempotency_source" example:"header:x-github-delivery"`
	// The event that this one repeats; null for an event of its own. A repeat has no payload and no deliveries.
	DuplicateOf *string `json:"duplicate_of" format:"uuid"`
	// same_body_new_id: the body came before under another, unsigned id. Otherwise null.
	Suspect suspicion `json:"suspect"`
	// Whether it is a ping or confirmation of the provider, which is stored and never forwarded.
	Control bool `json:"control"`
	// The tries recorded, over all deliveries.
	AttemptCount int64 `json:"attempt_count" example:"1"`
	// The last failure of a delivery; null when none has failed.
	LastError httpapi.OrNull[EventError] `json:"last_error"`
	// The Content-Type of the delivery; empty when it had none.
	ContentType string `json:"content_type" example:"application/json"`
	// The size of the body in bytes, also when it has expired.
	BodySize int64 `json:"body_size" example:"1024"`
	// When the headers and the body are removed, or were; null for a repeat, and where they went under a shorter time than
	// the environment has now.
	PayloadExpiresAt *httpapi.Time `json:"payload_expires_at" nullable:"true"`
	// When the event is removed, with its deliveries, its attempts and its idempotency key.
	ExpiresAt httpapi.Time `json:"expires_at"`
	// Whether the payload has been removed: there are no headers and no body any more, and nothing can be sent again. A
	// repeat never had one.
	PayloadExpired bool `json:"payload_expired"`
	// How the delivery was verified.
	Verification Verification `json:"verification"`
	// When the delivery was received.
	ReceivedAt httpapi.Time `json:"received_at"`
	// When the event last changed.
	UpdatedAt httpapi.Time `json:"updated_at"`
	// When the event first stood at forwarded; null before that.
	ForwardedAt *httpapi.Time `json:"forwarded_at" nullable:"true"`
}

// Listed is a list's row.
type Listed struct {
	Summary
	// The headers of the delivery by lower-case name, without hop-by-hop headers; credentials are [redacted]. Empty once
	// the payload has expired. Only with include=headers.
	Headers included[headers] `json:"headers,omitzero"`
	// The body as body_encoding says; null for a repeat and once the payload has expired. Only with include=body.
	Body included[content] `json:"body,omitzero"`
	// json: body is the JSON value. text: a string. base64: the bytes in base64. null: there is no body to show. Only with
	// include=body.
	BodyEncoding included[encoding] `json:"body_encoding,omitzero"`
	// The deliveries of the event. Only with include=deliveries.
	Deliveries included[[]Delivery] `json:"deliveries,omitzero"`
}

// Event is an event's detail.
type Event struct {
	Summary
	// The headers of the delivery by lower-case name, without hop-by-hop headers; credentials are [redacted]. Empty once
	// the payload has expired.
	Headers headers `json:"headers"`
	// The body as body_encoding says; null for a repeat and once the payload has expired.
	Body content `json:"body"`
	// json: body is the JSON value. text: a string. base64: the bytes in base64. null: there is no body to show.
	BodyEncoding encoding `json:"body_encoding"`
	// The deliveries of the event, one per subscription that matched or that a bulk replay sent it to.
	Deliveries []Delivery `json:"deliveries"`
}

// Verification says how a delivery was verified.
type Verification struct {
	// unverified: the connection's scheme verifies nothing.
	Result string `json:"result" enum:"verified,unverified"`
	// The scheme by which deliveries of the connection are verified. Of an event that was published: api_key or user.
	Scheme string `json:"scheme" example:"hmac"`
	// Which of the connection's secrets verified it; null where none did. Of an event that was published, the id of the
	// key or user.
	KeyID *string `json:"key_id"`
}

// EventError is the last failure of an event's deliveries.
type EventError struct {
	DeliveryError
	// The subscription whose delivery failed.
	SubscriptionID string `json:"subscription_id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// DeliveryError is the last failure of a delivery. It is exported because Huma looks only into exported embedded types.
type DeliveryError struct {
	// The kind of failure.
	Code string `json:"code" example:"unexpected_status"`
	// A sentence for a person.
	Message string `json:"message" example:"The receiver answered with status 503"`
	// The status of the answer; null where there was none.
	HTTPStatus *int `json:"http_status" example:"503"`
	// When the try ended.
	At httpapi.Time `json:"at"`
}

// Delivery is one event on its way to one subscription.
type Delivery struct {
	// The delivery's UUID.
	ID string `json:"id" format:"uuid" example:"01939a4e-7a60-7d11-9c1e-0d8a3c5b2e47"`
	// The subscription that the event goes to.
	SubscriptionID string `json:"subscription_id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// pending: waits for a worker. sending: a try may be on the wire. retry_wait: waits after a failed try. held: its
	// subscription is disabled. succeeded: answered 2xx. dead: refused for good, or the schedule is spent. cancelled: its
	// subscription was deleted, or the event's payload expunged.
	Status string `json:"status" enum:"pending,sending,retry_wait,held,succeeded,dead,cancelled"`
	// Counts from 1; every replay raises it and restarts the schedule. A delivery that a bulk replay made begins with 2.
	Generation int64 `json:"generation" example:"1"`
	// The tries recorded, over all generations.
	AttemptCount int64 `json:"attempt_count" example:"1"`
	// When the next try is due; null unless status is pending or retry_wait.
	NextAttemptAt *httpapi.Time `json:"next_attempt_at" nullable:"true"`
	// The status of the last answer; null where the last try got none.
	LastHTTPStatus *int `json:"last_http_status" example:"200"`
	// The last failure; null when no try has failed.
	LastError httpapi.OrNull[DeliveryError] `json:"last_error"`
	// When the delivery succeeded, died or was cancelled; null while it is open.
	CompletedAt *httpapi.Time `json:"completed_at" nullable:"true"`
}

// Replay is the answer to a replay.
type Replay struct {
	// The event.
	EventUUID string `json:"event_uuid" format:"uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	// Where the event stands now.
	Status string `json:"status" enum:"received,forwarding,forwarded,failed,dead_letter"`
	// All deliveries of the event as they stood when the replay was stored.
	Deliveries []Delivery `json:"deliveries"`
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
