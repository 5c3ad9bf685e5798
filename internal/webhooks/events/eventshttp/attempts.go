package eventshttp

import (
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/deliveries"
)

// Attempt is one try of a delivery.
type Attempt struct {
	ID             string                          `json:"id" format:"uuid" doc:"The attempt's UUID." example:"01939a4e-7a61-7b02-b7f4-6e0d2f9a1c33"`
	SubscriptionID string                          `json:"subscription_id" doc:"The subscription that was tried." example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Generation     int64                           `json:"generation" doc:"The generation of the delivery that the try belongs to." example:"1"`
	Number         int64                           `json:"number" doc:"Counts the tries of the generation from 1." example:"1"`
	Outcome        string                          `json:"outcome" enum:"succeeded,failed,superseded" doc:"superseded: the try was made, but the delivery had been given to another worker before its outcome was stored."`
	StartedAt      httpapi.Time                    `json:"started_at" doc:"When the try began."`
	HTTPStatus     *int                            `json:"http_status" doc:"The status of the answer; null where there was none." example:"200"`
	Error          httpapi.OrNull[AttemptError]    `json:"error" doc:"Why the try failed; null where it did not."`
	Timings        Timings                         `json:"timings" doc:"How long each phase took."`
	Request        AttemptRequest                  `json:"request" doc:"What was sent."`
	Response       httpapi.OrNull[AttemptResponse] `json:"response" doc:"What came back; null where no answer did."`
}

// AttemptError is why a try failed.
type AttemptError struct {
	Code    string `json:"code" doc:"The kind of failure." example:"timeout"`
	Message string `json:"message" doc:"A sentence for a person." example:"The target did not complete its answer in time."`
}

// Timings are the durations of a try's phases.
type Timings struct {
	DNS       float64 `json:"dns_ms" doc:"Name resolution, in milliseconds; 0 on a kept connection." example:"1.204"`
	Connect   float64 `json:"connect_ms" doc:"The TCP connection, in milliseconds; 0 on a kept one." example:"8.31"`
	TLS       float64 `json:"tls_ms" doc:"The TLS handshake, in milliseconds; 0 on a kept connection." example:"21.7"`
	FirstByte float64 `json:"first_byte_ms" doc:"From having a connection to the first byte of the answer, in milliseconds." example:"45.02"`
	Total     float64 `json:"total_ms" doc:"The whole try, in milliseconds." example:"77.9"`
}

// AttemptRequest is what a try sent.
type AttemptRequest struct {
	Headers headers `json:"headers" doc:"The headers by lower-case name. The signature and the values of the subscription's own headers are [redacted]."`
}

// AttemptResponse is what a try got back.
type AttemptResponse struct {
	Status       int     `json:"status" doc:"The HTTP status." example:"200"`
	Headers      headers `json:"headers" doc:"The headers by lower-case name. Cookies and challenges are [redacted]."`
	Body         string  `json:"body" doc:"The first 16 KiB of the body, as body_encoding says." example:"ok"`
	BodyEncoding string  `json:"body_encoding" enum:"text,base64" doc:"text: the body as it came. base64: it is not UTF-8 text."`
	Truncated    bool    `json:"truncated" doc:"Whether the body was longer."`
}

func attempt(a *deliveries.Attempt) Attempt {
	view := Attempt{
		ID: a.ID, SubscriptionID: a.SubscriptionID, Generation: a.Generation, Number: a.Number, Outcome: string(a.Outcome),
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
