// Package deliverieshttp serves what joins events, subscriptions and deliveries: the test of a subscription, and why an
// event went where it went.
package deliverieshttp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// Mount adds the operations to the API.
func Mount(api *httpapi.API, list *events.Store, dl *deliveries.Service, subs *subscriptions.Service) {
	h := &handlers{events: list, deliveries: dl, subscriptions: subs}
	httpapi.Register(api, httpapi.Operation{
		ID: "test-webhook-subscription", Method: http.MethodPost, Path: "/webhook-subscriptions/{id}/test",
		Status: http.StatusOK, Tag: "Webhook subscriptions", Permission: access.SubscriptionsWrite,
		Route: access.RouteWebhooks, Environment: true, Errors: []apperr.Code{apperr.CodeRateLimited,
			apperr.CodePayloadExpired},
		Summary: "Test a webhook subscription",
		Description: "Sends one signed request to the subscription's URL, whether or not it is enabled, and answers with " +
			"what was sent " +
			"and what came back within 10 seconds. The answer is 200 even when the target fails. The event is made up, or a " +
			"stored one " +
			"that `event_uuid` names. Nothing is stored, retried or counted. The request carries `sallyport-test: true`. " +
			"With `dry_run` " +
			"the request is built and not sent. Without a body the request means `{}`.",
	}, h.test)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-webhook-subscription-stats", Method: http.MethodGet, Path: "/webhook-subscriptions/{id}/stats",
		Status: http.StatusOK, Tag: "Webhook subscriptions", Permission: access.SubscriptionsRead,
		Route: access.RouteWebhooks, Environment: true, Summary: "Tell what happened to a webhook subscription's deliveries",
		Description: "Counts attempts by outcome and deliveries by what they came to, with percentiles of how long " +
			"attempts took and of how " +
			"long it was from the receipt of an event to the success of its delivery: over the range, and for each bucket of " +
			"it. What " +
			"waits is counted as it stands now. Statistics by the minute reach back 24 hours, the others as long as events " +
			"are kept. A " +
			"range is at most 24 hours by the minute, 31 days by the hour and 366 days by the day.",
	}, h.stats)
	httpapi.Register(api, httpapi.Operation{
		ID: "explain-webhook-event", Method: http.MethodGet, Path: "/webhook-events/{event_uuid}/explain",
		Status: http.StatusOK, Tag: "Webhook events", Permission: access.SubscriptionsRead, Route: access.RouteWebhooks,
		Environment: true, Summary: "Explain where a webhook event went",
		Description: "Tells for each of the environment's subscriptions whether it takes the event: the pattern that " +
			"does, what its filter " +
			"says, or the first condition that does not hold, and where its delivery stands. Events are matched when they " +
			"come; `created_after_event` and " +
			"`changed_after_event` tell a subscription that was not, or not so, there then.",
	}, h.explain)
}

type handlers struct {
	events        *events.Store
	deliveries    *deliveries.Service
	subscriptions *subscriptions.Service
}

type testInput struct {
	// The id of the subscription.
	ID   string `path:"id" example:"sub_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	Body *testBody
}

// testBody is the body of a test.
type testBody struct {
	// The type of the made-up event. Default webhook.test.
	EventType string `json:"event_type,omitempty" minLength:"1" maxLength:"255" example:"issues.opened"`
	// The data of the made-up event: any JSON value.
	Body httpapi.JSON `json:"body,omitempty"`
	// Headers to send beside the subscription's own, by the same rules.
	Headers map[string]string `json:"headers,omitempty" maxProperties:"20"`
	// A stored event of the environment to send in place of a made-up one.
	EventUUID string `json:"event_uuid,omitempty" format:"uuid"`
	// Build the request and send nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

type testOutput struct{ Body testResult }

// testResult is what became of a test.
type testResult struct {
	// Whether the target answered with a status of 2xx.
	Delivered bool `json:"delivered"`
	// Whether the subscription takes the event: its type, for a stored event its connection, and what the filter asks. To
	// a filter a made-up event has no provider, connection or headers.
	WouldMatch bool `json:"would_match"`
	// What became of the subscription's filter; null where it has none, or does not take the event for another reason.
	Filter httpapi.OrNull[filterResult] `json:"filter"`
	// The webhook-id of the request.
	WebhookID string `json:"webhook_id" format:"uuid"`
	// What was sent, or would have been.
	Request testRequest `json:"request"`
	// What came back; null where no answer came or nothing was sent.
	Response httpapi.OrNull[testResponse] `json:"response"`
	// Why the test was not delivered; null where it was, and of a dry run.
	Error httpapi.OrNull[testError] `json:"error"`
	// The whole try, in milliseconds.
	Duration float64 `json:"duration_ms"`
	// Name resolution, in milliseconds; 0 on a kept connection.
	DNS float64 `json:"dns_ms"`
	// The TCP connection, in milliseconds; 0 on a kept one.
	Connect float64 `json:"connect_ms"`
	// The TLS handshake, in milliseconds; 0 on a kept connection.
	TLS float64 `json:"tls_ms"`
	// From having a connection to the first byte of the answer, in milliseconds.
	TTFB float64 `json:"ttfb_ms"`
}

type testRequest struct {
	// Where it went.
	URL string `json:"url"`
	// The headers by lower-case name. The signature and the values of the subscription's own headers are [redacted].
	Headers map[string]string `json:"headers"`
	// The body, as body_encoding says.
	Body string `json:"body"`
	// text: the body as it went. base64: it is not UTF-8 text.
	BodyEncoding string `json:"body_encoding" enum:"text,base64"`
	// Whether the body was longer than the 64 KiB that are shown.
	Truncated bool `json:"truncated"`
}

type testResponse struct {
	// The HTTP status.
	StatusCode int `json:"status_code"`
	// The headers by lower-case name. Cookies and challenges are [redacted].
	Headers map[string]string `json:"headers"`
	// The first 16 KiB of the body, as body_encoding says.
	Body string `json:"body"`
	// text: the body as it came. base64: it is not UTF-8 text.
	BodyEncoding string `json:"body_encoding" enum:"text,base64"`
	// Whether the body was longer.
	Truncated bool `json:"truncated"`
}

type testError struct {
	// The kind of failure.
	Code string `json:"code" example:"timeout"`
	// A sentence for a person.
	Message string `json:"message"`
}

func (h *handlers) test(ctx context.Context, in *testInput) (*testOutput, error) {
	var request deliveries.TestRequest
	if b := in.Body; b != nil {
		request = deliveries.TestRequest{EventType: b.EventType, Data: b.Body.Bytes(), EventUUID: b.EventUUID,
			Headers: b.Headers, DryRun: b.DryRun}
	}
	r, err := h.deliveries.Test(ctx, access.From(ctx).View(), in.ID, request)
	if err != nil {
		return nil, err
	}
	out := testResult{Delivered: r.Delivered, WouldMatch: r.WouldMatch, Filter: filterView(r.Filter),
		WebhookID: r.WebhookID, Request: testRequest{URL: r.URL, Truncated: r.RequestTruncated},
		Duration: httpapi.Milliseconds(r.Timings.Total), DNS: httpapi.Milliseconds(r.Timings.DNS),
		Connect: httpapi.Milliseconds(r.Timings.Connect), TLS: httpapi.Milliseconds(r.Timings.TLS),
		TTFB: httpapi.Milliseconds(r.Timings.FirstByte)}
	out.Request.Body, out.Request.BodyEncoding = httpapi.ShowBody(r.RequestBody, r.RequestTruncated)
	if out.Request.Headers, err = headers(r.RequestHeaders); err != nil {
		return nil, err
	}
	if r.Status != 0 {
		resp := testResponse{StatusCode: r.Status, Truncated: r.Truncated}
		resp.Body, resp.BodyEncoding = httpapi.ShowBody(r.ResponseBody, r.Truncated)
		if resp.Headers, err = headers(r.ResponseHeaders); err != nil {
			return nil, err
		}
		out.Response.Value = &resp
	}
	if r.Failure != nil {
		out.Error.Value = &testError{r.Failure.Code, r.Failure.Message}
	}
	return &testOutput{out}, nil
}

func headers(text string) (map[string]string, error) {
	out := map[string]string{}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("read the headers of a test: %w", err)
	}
	return out, nil
}
