package webhookeventshttp

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/deliveries"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhookevents"
)

// Value is any JSON value: a provider's body as it came, or text.
type Value struct{ raw json.RawMessage }

// MarshalJSON writes the value; none is null.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.raw == nil {
		return []byte("null"), nil
	}
	return v.raw, nil
}

// Schema allows every value.
func (Value) Schema(huma.Registry) *huma.Schema { return &huma.Schema{} }

// Verification says how the sender was proved.
type Verification struct {
	Result string `json:"result" enum:"verified,unverified" doc:"Whether the sender was proved." example:"verified"`
	Scheme string `json:"scheme" doc:"The scheme of the provider's definition." example:"hmac"`
	KeyID  string `json:"key_id" doc:"The id of the webhook secret that matched; empty where none was needed." example:"whs_06dyxk8z3pk6n5q1v7wc4t2m9r"`
}

// Failure is why a try failed.
type Failure struct {
	Code       string       `json:"code" doc:"A code of the table in docs/arch/states.md." example:"unexpected_status"`
	Message    string       `json:"message" doc:"A sentence for a person." example:"The receiver answered with status 500"`
	HTTPStatus *int         `json:"http_status" nullable:"true" doc:"The status of the answer; null without one." example:"500"`
	At         httpapi.Time `json:"at" doc:"When the try ended." example:"2026-01-01T12:00:00.000Z"`
}

// EventFailure is the last failed try of any of an event's deliveries.
type EventFailure struct {
	Code           string       `json:"code" doc:"A code of the table in docs/arch/states.md." example:"unexpected_status"`
	Message        string       `json:"message" doc:"A sentence for a person." example:"The receiver answered with status 500"`
	HTTPStatus     *int         `json:"http_status" nullable:"true" doc:"The status of the answer; null without one." example:"500"`
	SubscriptionID string       `json:"subscription_id" doc:"The subscription of the delivery." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	At             httpapi.Time `json:"at" doc:"When the try ended." example:"2026-01-01T12:00:00.000Z"`
}

// Delivery is the event on its way to one subscription.
type Delivery struct {
	ID             string                  `json:"id" format:"uuid" doc:"The delivery's id."`
	SubscriptionID string                  `json:"subscription_id" doc:"Where it goes." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Status         string                  `json:"status" enum:"pending,sending,retry_wait,held,succeeded,dead,cancelled" doc:"The state of the delivery." example:"succeeded"`
	Generation     int64                   `json:"generation" doc:"1, and one more for every replay." example:"1"`
	AttemptCount   int64                   `json:"attempt_count" doc:"Tries recorded, over all generations." example:"1"`
	NextAttemptAt  *httpapi.Time           `json:"next_attempt_at" nullable:"true" doc:"When the next try is due; null where none is."`
	LastHTTPStatus *int                    `json:"last_http_status" nullable:"true" doc:"The status of the last answer; null without one." example:"200"`
	LastError      httpapi.OrNull[Failure] `json:"last_error" doc:"The last failed try; null where none failed."`
	CompletedAt    *httpapi.Time           `json:"completed_at" nullable:"true" doc:"When the delivery ended; null while it has not."`
}

// Event is a stored event.
type Event struct {
	EventUUID         string                       `json:"event_uuid" format:"uuid" doc:"The event's id; the webhook-id of every forward." example:"01939a4e-7a5e-7c6f-8a54-3b1f0f6a8f11"`
	Provider          string                       `json:"provider" doc:"The provider's slug." example:"github"`
	ProviderConfigKey string                       `json:"provider_config_key" doc:"The provider configuration of the connection." example:"github"`
	ConnectionID      string                       `json:"connection_id" doc:"The connection that received it." example:"my-repo"`
	ConnectionUUID    string                       `json:"connection_uuid" format:"uuid" doc:"The connection's global id."`
	EnvironmentID     string                       `json:"environment_id" doc:"The environment." example:"env_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	EventType         string                       `json:"event_type" doc:"The type; unknown where none can be derived." example:"issues.opened"`
	Status            string                       `json:"status" enum:"received,forwarding,forwarded,failed,dead_letter" doc:"Where the event stands, over all deliveries." example:"forwarded"`
	IdempotencyKey    string                       `json:"idempotency_key" doc:"What tells a repeat from a new event, within the connection." example:"72d3162e-cc78-11e3-81ab-4c9367dc0958"`
	IdempotencySource string                       `json:"idempotency_source" doc:"Where the key came from: a header, a JSON pointer, or body_hash." example:"header:x-github-delivery"`
	DuplicateOf       *string                      `json:"duplicate_of" nullable:"true" doc:"The event that this one repeats; null for an event of its own."`
	Suspect           *string                      `json:"suspect" nullable:"true" enum:"same_body_new_id" doc:"same_body_new_id: the body came before under another id, and the provider does not sign its ids."`
	Control           bool                         `json:"control" doc:"A provider's ping or confirmation: stored, never forwarded."`
	AttemptCount      int64                        `json:"attempt_count" doc:"Tries recorded, over all deliveries." example:"1"`
	LastError         httpapi.OrNull[EventFailure] `json:"last_error" doc:"The last failed try; null where none failed."`
	Headers           *map[string]string           `json:"headers,omitempty" doc:"Request headers by lower-case name; hop-by-hop headers dropped, credentials and signatures [redacted]. In lists only with include=headers."`
	Body              *Value                       `json:"body,omitempty" doc:"The body in the form that body_encoding names; null for a duplicate, which keeps none. In lists only with include=body."`
	BodyEncoding      *string                      `json:"body_encoding,omitempty" nullable:"true" enum:"json,text,base64" doc:"json: the value itself; text: a string; base64: bytes. In lists only with include=body." example:"json"`
	ContentType       string                       `json:"content_type" doc:"The Content-Type that came." example:"application/json"`
	BodySize          int64                        `json:"body_size" doc:"Bytes of the body." example:"1024"`
	Verification      Verification                 `json:"verification" doc:"How the sender was proved."`
	Deliveries        *[]Delivery                  `json:"deliveries,omitempty" doc:"One per matching subscription. In lists only with include=deliveries."`
	ReceivedAt        httpapi.Time                 `json:"received_at" doc:"When it arrived." example:"2026-01-01T12:00:00.000Z"`
	UpdatedAt         httpapi.Time                 `json:"updated_at" doc:"When the event last changed." example:"2026-01-01T12:00:00.000Z"`
	ForwardedAt       *httpapi.Time                `json:"forwarded_at" nullable:"true" doc:"When it first stood at forwarded; null before."`
}

func eventOf(e webhookevents.Event) (Event, error) {
	out := Event{EventUUID: e.UUID, Provider: e.Provider, ProviderConfigKey: e.ProviderConfigKey, ConnectionID: e.ConnectionID,
		ConnectionUUID: e.ConnectionUUID, EnvironmentID: string(e.Environment), EventType: e.Type, Status: string(e.Status),
		IdempotencyKey: e.IdempotencyKey, IdempotencySource: e.IdempotencySource, DuplicateOf: e.DuplicateOf, Suspect: e.Suspect,
		Control: e.Control, AttemptCount: e.AttemptCount, ContentType: e.ContentType, BodySize: e.BodySize,
		ReceivedAt: httpapi.Time(e.ReceivedAt), UpdatedAt: httpapi.Time(e.UpdatedAt), ForwardedAt: (*httpapi.Time)(e.ForwardedAt)}
	if err := json.Unmarshal([]byte(e.Verification), &out.Verification); err != nil {
		return out, fmt.Errorf("read an event's verification: %w", err)
	}
	f, subscription, err := deliveries.DecodeFailure(e.LastError)
	if err != nil {
		return out, err
	}
	if f != nil {
		out.LastError.Value = &EventFailure{Code: f.Code, Message: f.Message, HTTPStatus: f.HTTPStatus, SubscriptionID: subscription, At: httpapi.Time(f.At)}
	}
	return out, nil
}

// addHeaders and addBody fill in the payload; an event without one, a duplicate, gets the empty forms.
func (e *Event) addHeaders(p webhookevents.Payload) error {
	headers := map[string]string{}
	if p.Headers != "" {
		if err := json.Unmarshal([]byte(p.Headers), &headers); err != nil {
			return fmt.Errorf("read an event's headers: %w", err)
		}
	}
	e.Headers = &headers
	return nil
}

func (e *Event) addBody(p webhookevents.Payload) error {
	e.Body = &Value{}
	if p.Encoding == "" {
		return nil
	}
	encoding := string(p.Encoding)
	e.BodyEncoding = &encoding
	var err error
	switch p.Encoding {
	case webhookevents.JSON:
		e.Body.raw = p.Body
	case webhookevents.Text:
		e.Body.raw, err = json.Marshal(string(p.Body))
	case webhookevents.Base64:
		e.Body.raw, err = json.Marshal(p.Body)
	}
	if err != nil {
		return fmt.Errorf("write an event's body: %w", err)
	}
	return nil
}

func deliveriesOf(list []deliveries.Delivery) []Delivery {
	out := make([]Delivery, 0, len(list))
	for _, d := range list {
		v := Delivery{ID: d.ID, SubscriptionID: d.SubscriptionID, Status: string(d.Status), Generation: d.Generation, AttemptCount: d.AttemptCount,
			LastHTTPStatus: d.LastHTTPStatus, CompletedAt: (*httpapi.Time)(d.CompletedAt)}
		if d.Status == deliveries.Pending || d.Status == deliveries.RetryWait {
			due := httpapi.Time(d.Due)
			v.NextAttemptAt = &due
		}
		if f := d.LastFailure; f != nil {
			v.LastError.Value = &Failure{Code: f.Code, Message: f.Message, HTTPStatus: f.HTTPStatus, At: httpapi.Time(f.At)}
		}
		out = append(out, v)
	}
	return out
}

// Timings are the phases of a try, in milliseconds; 0 for one that did not happen, as on a kept connection.
type Timings struct {
	DNS       float64 `json:"dns_ms" doc:"Name look-up, in milliseconds."`
	Connect   float64 `json:"connect_ms" doc:"TCP connection, in milliseconds."`
	TLS       float64 `json:"tls_ms" doc:"TLS handshake, in milliseconds."`
	FirstByte float64 `json:"first_byte_ms" doc:"From the start to the first byte of the answer, in milliseconds."`
	Total     float64 `json:"total_ms" doc:"The whole try, in milliseconds." example:"12.5"`
}

// AttemptError is why a try failed.
type AttemptError struct {
	Code    string `json:"code" doc:"A code of the table in docs/arch/states.md." example:"timeout"`
	Message string `json:"message" doc:"A sentence for a person."`
}

// AttemptRequest is what was sent.
type AttemptRequest struct {
	Headers map[string]string `json:"headers" doc:"Headers by lower-case name; values of the signature and of the subscription's own headers are [redacted]."`
}

// AttemptResponse is what came back.
type AttemptResponse struct {
	Status       int               `json:"status" doc:"The HTTP status." example:"200"`
	Headers      map[string]string `json:"headers" doc:"Headers by lower-case name, up to 8 KiB."`
	Body         string            `json:"body" doc:"The first 16 KiB of the body."`
	BodyEncoding string            `json:"body_encoding" enum:"text,base64" doc:"base64 where the body is not text."`
	Truncated    bool              `json:"truncated" doc:"Whether the body was longer."`
}

// Attempt is one try of a delivery.
type Attempt struct {
	ID             string                          `json:"id" format:"uuid" doc:"The try's id."`
	SubscriptionID string                          `json:"subscription_id" doc:"Where it went." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Generation     int64                           `json:"generation" doc:"The delivery's generation." example:"1"`
	Number         int64                           `json:"number" doc:"The try's number in its generation, from 1." example:"1"`
	Outcome        string                          `json:"outcome" enum:"succeeded,failed,superseded" doc:"superseded: the try was made, but its lease had been lost before its outcome was stored."`
	StartedAt      httpapi.Time                    `json:"started_at" doc:"When it began." example:"2026-01-01T12:00:00.000Z"`
	HTTPStatus     *int                            `json:"http_status" nullable:"true" doc:"The status of the answer; null without one." example:"200"`
	Error          httpapi.OrNull[AttemptError]    `json:"error" doc:"Why it failed; null for a success."`
	Timings        Timings                         `json:"timings" doc:"How long each phase took."`
	Request        AttemptRequest                  `json:"request" doc:"What was sent."`
	Response       httpapi.OrNull[AttemptResponse] `json:"response" doc:"What came back; null without an answer."`
}

func attemptOf(a deliveries.Attempt) (Attempt, error) {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	out := Attempt{ID: a.ID, SubscriptionID: a.SubscriptionID, Generation: a.Generation, Number: a.Number, Outcome: string(a.Outcome),
		StartedAt: httpapi.TimeMillis(clock.Millis(a.StartedAt)), HTTPStatus: a.HTTPStatus,
		Timings: Timings{DNS: ms(a.Timings.DNS.Microseconds()), Connect: ms(a.Timings.Connect.Microseconds()), TLS: ms(a.Timings.TLS.Microseconds()),
			FirstByte: ms(a.Timings.FirstByte.Microseconds()), Total: ms(a.Timings.Total.Microseconds())}}
	if a.ErrorCode != nil && a.ErrorMessage != nil {
		out.Error.Value = &AttemptError{Code: *a.ErrorCode, Message: *a.ErrorMessage}
	}
	if err := json.Unmarshal([]byte(a.RequestHeaders), &out.Request.Headers); err != nil {
		return out, fmt.Errorf("read an attempt's headers: %w", err)
	}
	if a.HTTPStatus == nil {
		return out, nil
	}
	r := &AttemptResponse{Status: *a.HTTPStatus, Body: string(a.ResponseBody), BodyEncoding: "text", Truncated: a.Truncated}
	if !utf8.Valid(a.ResponseBody) {
		b, err := json.Marshal(a.ResponseBody)
		if err != nil {
			return out, fmt.Errorf("write an attempt's body: %w", err)
		}
		r.Body, r.BodyEncoding = string(b[1:len(b)-1]), "base64"
	}
	if err := json.Unmarshal([]byte(a.ResponseHeaders), &r.Headers); err != nil {
		return out, fmt.Errorf("read an attempt's headers: %w", err)
	}
	out.Response.Value = r
	return out, nil
}
