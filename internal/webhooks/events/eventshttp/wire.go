package eventshttp

import (
	"encoding/json"
	"fmt"

	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
)

// Summary holds the fields that a list's row and a single event share. It is exported because only exported embedded
// structs are documented.
type Summary struct {
	// The event's UUID (version 7, sortable by time). Every forwarded request carries it as `webhook-id`.
	EventUUID string `json:"event_uuid" format:"uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	// The slug of the provider's definition. It is `sallyport` for events without a provider: published events and the
	// gateway's own events.
	Provider string `json:"provider" example:"github"`
	// The provider configuration of the connection; `sallyport` if there is no connection.
	ProviderConfigKey string `json:"provider_config_key" example:"github"`
	// The id of the connection within its provider configuration; `null` for an event without a connection.
	ConnectionID *string `json:"connection_id" example:"acme-production"`
	// The UUID of the connection, unique in the whole service; `null` for an event without a connection.
	ConnectionUUID *string `json:"connection_uuid" format:"uuid" example:"3f0c9f62-6a58-4c33-9d0c-5a4c6b1b7f0e"`
	// The environment that the event belongs to.
	EnvironmentID string `json:"environment_id" example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The provider's type of the event; `unknown` if it cannot be derived.
	EventType string `json:"event_type" example:"issues.opened"`
	// The distinct types of a batch's items, at most 1,000. `event_type` is the first of them; each subscription gets the
	// event under the first that its patterns match. Absent if the request contained a single event.
	EventTypes []string `json:"event_types,omitempty"`
	// The status of the event over all its deliveries:
	// - `received`: no delivery has been attempted, or there is none.
	// - `forwarding`: a delivery is being sent.
	// - `failed`: a delivery waits after a failed attempt.
	// - `dead_letter`: a delivery is dead.
	// - `forwarded`: the deliveries succeeded.
	Status events.Status `json:"status"`
	// The key by which duplicates of the event are recognised.
	IdempotencyKey string `json:"idempotency_key" example:"72d3162e-cc78-11e3-81ab-4c9367dc0958"`
	// The source of the idempotency key: a header (`header:…`), a place in the body (`json:/…`), or `body_hash`. For a
	// published event: `api`, or `event_uuid` if the publisher gave no key.
	IdempotencySource string `json:"idempotency_source" example:"header:x-github-delivery"`
	// The event that this event duplicates; `null` if it is not a duplicate. A duplicate has no payload and no deliveries.
	DuplicateOf *string `json:"duplicate_of" format:"uuid"`
	// `same_body_new_id`: the same body was received before under another, unsigned id, or one of the two came without the
	// id. `same_id_new_body`: the event is a duplicate by its id, and its body is not that of the original. Some providers
	// change a counter in what they resend; otherwise the sender has used one id twice, and what was in this body went to
	// no subscription. Otherwise `null`.
	Suspect suspicion `json:"suspect"`
	// Whether the event is a ping or confirmation of the provider. Such events are stored and never forwarded.
	Control bool `json:"control"`
	// The number of recorded attempts over all deliveries.
	AttemptCount int64 `json:"attempt_count" example:"1"`
	// The number of deliveries: one for each subscription that gets the event. 0 means that none matched it.
	DeliveryCount int64 `json:"delivery_count" example:"1"`
	// The number of deliveries that are held, because their subscriptions are disabled or their receivers fail.
	HeldCount int64 `json:"held_count" example:"0"`
	// The last failure of a delivery; `null` if none has failed, or if the API key may not see the subscription of the
	// delivery.
	LastError httpapi.OrNull[EventError] `json:"last_error"`
	// The `Content-Type` of the request; empty if it had none.
	ContentType string `json:"content_type" example:"application/json"`
	// The size of the body in bytes. It stays after the payload has expired.
	BodySize int64 `json:"body_size" example:"1024"`
	// When the headers and body are removed or were removed. `null` for a duplicate, and for a payload that was removed
	// under a shorter retention than the environment has now.
	PayloadExpiresAt *httpapi.Time `json:"payload_expires_at" nullable:"true"`
	// When the event is removed, with its deliveries, attempts and idempotency key.
	ExpiresAt httpapi.Time `json:"expires_at"`
	// Whether the payload has been removed. Then the headers and body are gone, and the event cannot be sent again. A
	// duplicate never had a payload.
	PayloadExpired bool `json:"payload_expired"`
	// How the request was verified.
	Verification Verification `json:"verification"`
	// When the request was received.
	ReceivedAt httpapi.Time `json:"received_at"`
	// When the event last changed.
	UpdatedAt httpapi.Time `json:"updated_at"`
	// When the event first had the status `forwarded`; `null` before.
	ForwardedAt *httpapi.Time `json:"forwarded_at" nullable:"true"`
}

// Listed is a row of the list of events.
type Listed struct {
	Summary
	// The request headers by lower-case name, without hop-by-hop headers. Credentials and signatures are `[redacted]`.
	// Empty after the payload has expired. Present only with `include=headers`.
	Headers included[headers] `json:"headers,omitzero"`
	// The body, encoded as `body_encoding` says; `null` for a duplicate and after the payload has expired. Present only
	// with `include=body`.
	Body included[content] `json:"body,omitzero"`
	// The form of `body`. Present only with `include=body`.
	// - `json`: the JSON value.
	// - `text`: a string.
	// - `base64`: the bytes in base64.
	// - `null`: there is no body to show.
	BodyEncoding included[encoding] `json:"body_encoding,omitzero"`
	// The deliveries of the event. Present only with `include=deliveries`.
	Deliveries included[[]Delivery] `json:"deliveries,omitzero"`
}

// Event is an event with its payload and deliveries.
type Event struct {
	Summary
	// The request headers by lower-case name, without hop-by-hop headers. Credentials and signatures are `[redacted]`.
	// Empty after the payload has expired.
	Headers headers `json:"headers"`
	// The body, encoded as `body_encoding` says; `null` for a duplicate and after the payload has expired.
	Body content `json:"body"`
	// The form of `body`:
	// - `json`: the JSON value.
	// - `text`: a string.
	// - `base64`: the bytes in base64.
	// - `null`: there is no body to show.
	BodyEncoding encoding `json:"body_encoding"`
	// The deliveries of the event: one for each subscription that matched or that a bulk replay sent the event to.
	Deliveries []Delivery `json:"deliveries"`
}

// Verification describes how a request was verified.
type Verification struct {
	// `verified`: the request was verified. `unverified`: the connection's scheme verifies nothing.
	Result string `json:"result" enum:"verified,unverified"`
	// The scheme by which the connection's requests are verified. For a published event: `api_key` or `user`.
	Scheme string `json:"scheme" example:"hmac"`
	// The secret of the connection that verified the request; `null` if none did. For a published event: the id of the API
	// key or user.
	KeyID *string `json:"key_id"`
}

// EventError is the last failure of an event's deliveries.
type EventError struct {
	DeliveryError
	// The subscription whose delivery failed.
	SubscriptionID string `json:"subscription_id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// DeliveryError is the last failure of a delivery. It is exported because only exported embedded structs are
// documented.
type DeliveryError struct {
	// The kind of failure.
	Code string `json:"code" example:"unexpected_status"`
	// A human-readable message.
	Message string `json:"message" example:"The receiver responded with status 503"`
	// The status code of the response; `null` if there was none.
	HTTPStatus *int `json:"http_status" example:"503"`
	// When the attempt ended.
	At httpapi.Time `json:"at"`
}

// Delivery is one event on its way to one subscription.
type Delivery struct {
	// The delivery's UUID.
	ID string `json:"id" format:"uuid" example:"01939a4e-7a60-7d11-9c1e-0d8a3c5b2e47"`
	// The subscription that the event goes to.
	SubscriptionID string `json:"subscription_id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The status of the delivery:
	// - `pending`: waits for a worker.
	// - `sending`: an attempt may be in progress.
	// - `retry_wait`: waits for a retry after a failed attempt.
	// - `held`: the subscription is disabled.
	// - `succeeded`: the receiver responded with a 2xx status code.
	// - `dead`: refused permanently, or all retries are used up.
	// - `cancelled`: the subscription was deleted, or the event's payload was expunged.
	Status deliveries.Status `json:"status"`
	// Counts from 1. Every replay increments it and restarts the retry schedule. A delivery created by a bulk replay
	// begins with 2.
	Generation int64 `json:"generation" example:"1"`
	// The number of recorded attempts over all generations.
	AttemptCount int64 `json:"attempt_count" example:"1"`
	// When the next attempt is due; `null` unless `status` is `pending` or `retry_wait`.
	NextAttemptAt *httpapi.Time `json:"next_attempt_at" nullable:"true"`
	// The status code of the last attempt's response; `null` if it got none.
	LastHTTPStatus *int `json:"last_http_status" example:"200"`
	// The last failure; `null` if no attempt has failed.
	LastError httpapi.OrNull[DeliveryError] `json:"last_error"`
	// When the delivery became succeeded, dead or cancelled; `null` while it is open.
	CompletedAt *httpapi.Time `json:"completed_at" nullable:"true"`
}

// Replay is the response to a replay.
type Replay struct {
	// The event.
	EventUUID string `json:"event_uuid" format:"uuid" example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	// The status of the event now.
	Status events.Status `json:"status"`
	// All deliveries of the event as they were when the replay was stored.
	Deliveries []Delivery `json:"deliveries"`
}

func viewEvent(e *events.Event, payloads map[string]events.Payload, list []deliveries.Delivery) (Event, error) {
	s, err := viewSummary(e)
	p := payloadOf(payloads, e.UUID)
	return Event{Summary: s, Headers: headersOf(p), Body: content{p}, BodyEncoding: encoding{p},
		Deliveries: viewDeliveries(list)}, err
}

func viewListed(e *events.Event, payloads map[string]events.Payload, list []deliveries.Delivery,
	want parts) (Listed, error) {
	s, err := viewSummary(e)
	row := Listed{Summary: s}
	p := payloadOf(payloads, e.UUID)
	if want.headers {
		row.Headers = newIncluded(headersOf(p))
	}
	if want.body {
		row.Body, row.BodyEncoding = newIncluded(content{p}), newIncluded(encoding{p})
	}
	if want.deliveries {
		row.Deliveries = newIncluded(viewDeliveries(list))
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

func viewSummary(e *events.Event) (Summary, error) {
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
		EventUUID: e.UUID, Provider: e.Provider, ProviderConfigKey: e.ProviderConfigKey,
		ConnectionID: httpapi.NullIfEmpty(e.ConnectionID), ConnectionUUID: httpapi.NullIfEmpty(e.ConnectionUUID),
		EnvironmentID: string(e.Environment), EventType: e.Type, EventTypes: e.Types, Status: e.Status,
		IdempotencyKey: e.IdempotencyKey, IdempotencySource: e.IdempotencySource, DuplicateOf: e.DuplicateOf,
		Suspect: suspicion{e.Suspect}, Control: e.Control, AttemptCount: e.AttemptCount,
		DeliveryCount: e.DeliveryCount, HeldCount: e.HeldCount, ContentType: e.ContentType,
		BodySize: e.BodySize, PayloadExpired: e.PayloadExpired, PayloadExpiresAt: (*httpapi.Time)(e.PayloadExpiresAt),
		ExpiresAt: httpapi.Time(e.ExpiresAt), Verification: Verification{Result: v.Result, Scheme: v.Scheme,
			KeyID: httpapi.NullIfEmpty(v.KeyID)},
		ReceivedAt: httpapi.Time(e.ReceivedAt), UpdatedAt: httpapi.Time(e.UpdatedAt),
		ForwardedAt: (*httpapi.Time)(e.ForwardedAt),
	}
	if failure != nil {
		s.LastError = httpapi.OrNull[EventError]{Value: &EventError{*viewDeliveryError(failure), subscriptionID}}
	}
	return s, nil
}

func viewDeliveryError(f *deliveries.Failure) *DeliveryError {
	if f == nil {
		return nil
	}
	return &DeliveryError{Code: f.Code, Message: f.Message, HTTPStatus: f.HTTPStatus, At: httpapi.Time(f.At)}
}

func viewDeliveries(list []deliveries.Delivery) []Delivery {
	views := make([]Delivery, len(list))
	for i := range list {
		d := &list[i]
		views[i] = Delivery{
			ID: d.ID, SubscriptionID: d.SubscriptionID, Status: d.Status, Generation: d.Generation,
			AttemptCount: d.AttemptCount, LastHTTPStatus: d.LastHTTPStatus,
			LastError:   httpapi.OrNull[DeliveryError]{Value: viewDeliveryError(d.LastFailure)},
			CompletedAt: (*httpapi.Time)(d.CompletedAt),
		}
		if d.Status == deliveries.Pending || d.Status == deliveries.RetryWait {
			due := httpapi.Time(d.Due)
			views[i].NextAttemptAt = &due
		}
	}
	return views
}
