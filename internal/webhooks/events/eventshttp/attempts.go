package eventshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/deliveries"
)

// Attempt is one attempt of a delivery.
type Attempt struct {
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
	// The request that was sent.
	Request AttemptRequest `json:"request"`
	// The response; `null` if there was none.
	Response httpapi.OrNull[AttemptResponse] `json:"response"`
}

// AttemptError describes the failure of an attempt.
type AttemptError struct {
	// The kind of failure.
	Code string `json:"code" example:"timeout"`
	// A human-readable message.
	Message string `json:"message" example:"The target did not complete its response in time."`
}

// Timings holds the durations of an attempt's phases.
type Timings struct {
	// Name resolution, in milliseconds; 0 on a reused connection.
	DNS float64 `json:"dns_ms" example:"1.204"`
	// The TCP connection, in milliseconds; 0 on a reused connection.
	Connect float64 `json:"connect_ms" example:"8.31"`
	// The TLS handshake, in milliseconds; 0 on a reused connection.
	TLS float64 `json:"tls_ms" example:"21.7"`
	// From the established connection to the first byte of the response, in milliseconds.
	FirstByte float64 `json:"first_byte_ms" example:"45.02"`
	// The whole attempt, in milliseconds.
	Total float64 `json:"total_ms" example:"77.9"`
}

// AttemptRequest is the request of an attempt.
type AttemptRequest struct {
	// The request headers by lower-case name. Signatures, also the provider's, and the values of the subscription's own
	// headers are `[redacted]`.
	Headers headers `json:"headers"`
}

// AttemptResponse is the response to an attempt.
type AttemptResponse struct {
	// The HTTP status code.
	Status int `json:"status" example:"200"`
	// The response headers by lower-case name. Cookies and challenges are `[redacted]`.
	Headers headers `json:"headers"`
	// The first 16 KiB of the body, encoded as `body_encoding` says.
	Body string `json:"body" example:"ok"`
	// `text`: the body as it was received. `base64`: the body in base64, because it is not UTF-8 text.
	BodyEncoding httpapi.BodyEncoding `json:"body_encoding"`
	// Whether the body was longer than what is shown.
	Truncated bool `json:"truncated"`
}

func viewAttempt(a *deliveries.Attempt) Attempt {
	view := Attempt{
		ID: a.ID, SubscriptionID: a.SubscriptionID, Generation: a.Generation, Number: a.Number, Outcome: a.Outcome,
		StartedAt: httpapi.Time(a.StartedAt), HTTPStatus: a.HTTPStatus,
		Timings: Timings{DNS: httpapi.Milliseconds(a.Timings.DNS), Connect: httpapi.Milliseconds(a.Timings.Connect),
			TLS: httpapi.Milliseconds(a.Timings.TLS), FirstByte: httpapi.Milliseconds(a.Timings.FirstByte),
			Total: httpapi.Milliseconds(a.Timings.Total)},
		Request: AttemptRequest{Headers: headers(a.RequestHeaders)},
	}
	if a.ErrorCode != nil && a.ErrorMessage != nil {
		view.Error.Value = &AttemptError{Code: *a.ErrorCode, Message: *a.ErrorMessage}
	}
	if a.HTTPStatus != nil {
		body, encoding := httpapi.ShowBody(a.ResponseBody, a.Truncated)
		view.Response.Value = &AttemptResponse{Status: *a.HTTPStatus, Headers: headers(a.ResponseHeaders), Body: body,
			BodyEncoding: encoding, Truncated: a.Truncated}
	}
	return view
}
