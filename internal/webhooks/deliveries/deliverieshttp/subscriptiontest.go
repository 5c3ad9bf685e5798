// Package deliverieshttp serves the operations that combine events, subscriptions and deliveries: tests and statistics
// of a subscription, and the explanation of an event.
package deliverieshttp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/webhooks/deliveries"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// mount adds the operations to the API.
func mount(api *httpapi.API, list *events.Store, dl *deliveries.Service, subs *subscriptions.Service) {
	h := &handlers{events: list, deliveries: dl, subscriptions: subs}
	httpapi.Register(api, httpapi.Operation{
		ID: "test-webhook-subscription", Method: http.MethodPost, Path: "/webhook-subscriptions/{id}/test",
		Status: http.StatusOK, Tag: "Webhook subscriptions", Permission: access.SubscriptionsWrite,
		Route: access.RouteWebhooks, Environment: true, Errors: []apperr.Code{apperr.CodeRateLimited,
			apperr.CodePayloadExpired},
		Summary: "Test a webhook subscription",
		Example: `{"event_type": "invoice.paid", "body": {"invoice": "4711"}, "dry_run": true}`,
		Missing: []string{"webhook event"},
		Messages: map[apperr.Code][]string{
			apperr.CodeRateLimited: {
				"Too many tests are in progress",
			},
		},
		Description: "Sends one signed request to the subscription's URL, even if the subscription is disabled, and " +
			"returns the request and what the target responded within the subscription's `timeout_ms`. The status code is " +
			"200 even if the target fails. The event is a synthetic one, or the stored event that `event_uuid` names. " +
			"Nothing is stored, retried or counted. The request has the header `sallyport-test: true`. With `dry_run` the " +
			"request is built but not sent. An empty body means `{}`.",
	}, h.test)
	httpapi.Register(api, httpapi.Operation{
		ID: "get-webhook-subscription-stats", Method: http.MethodGet, Path: "/webhook-subscriptions/{id}/stats",
		Status: http.StatusOK, Tag: "Webhook subscriptions", Permission: access.SubscriptionsRead,
		Route: access.RouteWebhooks, Environment: true, Summary: "Get the delivery statistics of a webhook subscription",
		Description: "Counts attempts by outcome and deliveries by final status, over the range and for each of its " +
			"buckets. It includes percentiles of the duration of attempts and of the time from receiving an event to the " +
			"success of its delivery. Waiting deliveries are counted as they are now.\n\n" +
			"Statistics by minute are kept for 24 hours, the others for as long as events are kept. A range is at most 24 " +
			"hours by minute, 31 days by hour and 366 days by day.",
	}, h.stats)
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "explain-webhook-event", Method: http.MethodGet, Path: "/webhook-events/{event_uuid}/explain",
		Status: http.StatusOK, Tag: "Webhook events", Permission: access.SubscriptionsRead, Route: access.RouteWebhooks,
		Environment: true, Summary: "Explain where a webhook event was sent",
		Description: "Shows for each subscription of the environment whether it matches the event: the matching pattern, " +
			"the result of the filter, or the first condition that is not met, and the status of the delivery. Events are " +
			"matched when they are received. `created_after_event` and `changed_after_event` mark subscriptions that did not " +
			"exist, or were different, at that time.",
	}, httpapi.List[explainInput, subscriptions.Subscription, explanation]{Rows: h.listSubscriptions,
		Views: h.explainEvent,
		Key:   func(s *subscriptions.Subscription) string { return s.ID }, IsKey: id.Matcher(id.PrefixSubscription)})
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
	// The type of the synthetic event, also as the provider writes it, such as `orders/create`. Default `webhook.test`.
	EventType string `json:"event_type,omitempty" minLength:"1" maxLength:"255" example:"issues.opened"`
	// The data of the synthetic event: any JSON value.
	Body httpapi.JSON `json:"body,omitempty"`
	// Headers to send in addition to the subscription's own headers, by the same rules.
	Headers map[string]string `json:"headers,omitempty" maxProperties:"20"`
	// A stored event of the environment to send instead of a synthetic event.
	EventUUID string `json:"event_uuid,omitempty" format:"uuid"`
	// Build the request but do not send it. Default `false`.
	DryRun bool `json:"dry_run,omitempty"`
}

type testOutput struct{ Body testResult }

// testResult is the result of a test.
type testResult struct {
	// Whether the target responded with a 2xx status code.
	Delivered bool `json:"delivered"`
	// Whether the subscription matches the event: its type, the connection of a stored event, and the filter. For the
	// filter, a synthetic event has no provider, connection or headers.
	WouldMatch bool `json:"would_match"`
	// The type of the event, as the provider's events have it: `orders.create` for Shopify's `orders/create`.
	EventType string `json:"event_type" example:"issues.opened"`
	// Patterns of the subscription, or the type of the request, that no type fits which the provider is known to send.
	Warnings []httpapi.Warning `json:"warnings"`
	// The result of the subscription's filter; `null` if it has none or the event does not match for another reason.
	Filter httpapi.OrNull[filterResult] `json:"filter"`
	// The `webhook-id` of the request.
	WebhookID string `json:"webhook_id" format:"uuid"`
	// The request that was sent, or would have been sent.
	Request testRequest `json:"request"`
	// The response; `null` if there was none or nothing was sent.
	Response httpapi.OrNull[testResponse] `json:"response"`
	// Why the test was not delivered; `null` if it was delivered, and for a dry run.
	Error httpapi.OrNull[testError] `json:"error"`
	// The whole attempt, in milliseconds.
	Duration float64 `json:"duration_ms"`
	// Name resolution, in milliseconds; 0 on a reused connection.
	DNS float64 `json:"dns_ms"`
	// The TCP connection, in milliseconds; 0 on a reused connection.
	Connect float64 `json:"connect_ms"`
	// The TLS handshake, in milliseconds; 0 on a reused connection.
	TLS float64 `json:"tls_ms"`
	// From the established connection to the first byte of the response, in milliseconds.
	TTFB float64 `json:"ttfb_ms"`
}

type testRequest struct {
	// The URL of the request.
	URL string `json:"url"`
	// The request headers by lower-case name. Signatures, also the provider's, and the values of the subscription's own
	// headers are `[redacted]`.
	Headers map[string]string `json:"headers"`
	// The body, encoded as `body_encoding` says.
	Body string `json:"body"`
	// `text`: the body as it was sent. `base64`: the body in base64, because it is not UTF-8 text.
	BodyEncoding httpapi.BodyEncoding `json:"body_encoding"`
	// Whether the body was longer than the 64 KiB that are shown.
	Truncated bool `json:"truncated"`
}

type testResponse struct {
	// The HTTP status code.
	StatusCode int `json:"status_code"`
	// The response headers by lower-case name. Cookies and challenges are `[redacted]`.
	Headers map[string]string `json:"headers"`
	// The first 16 KiB of the body, encoded as `body_encoding` says.
	Body string `json:"body"`
	// `text`: the body as it was received. `base64`: the body in base64, because it is not UTF-8 text.
	BodyEncoding httpapi.BodyEncoding `json:"body_encoding"`
	// Whether the body was longer than what is shown.
	Truncated bool `json:"truncated"`
}

type testError struct {
	// The kind of failure.
	Code string `json:"code" example:"timeout"`
	// A human-readable message.
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
	out := testResult{Delivered: r.Delivered, WouldMatch: r.WouldMatch, EventType: r.EventType,
		Warnings: []httpapi.Warning{}, Filter: viewFilterResult(r.Filter),
		WebhookID: r.WebhookID, Request: testRequest{URL: r.URL, Truncated: r.RequestTruncated},
		Duration: httpapi.Milliseconds(r.Timings.Total), DNS: httpapi.Milliseconds(r.Timings.DNS),
		Connect: httpapi.Milliseconds(r.Timings.Connect), TLS: httpapi.Milliseconds(r.Timings.TLS),
		TTFB: httpapi.Milliseconds(r.Timings.FirstByte)}
	out.Request.Body, out.Request.BodyEncoding = httpapi.ShowBody(r.RequestBody, r.RequestTruncated)
	if out.Request.Headers, err = decodeHeaders(r.RequestHeaders); err != nil {
		return nil, err
	}
	for _, warning := range r.Warnings {
		out.Warnings = append(out.Warnings, httpapi.Warning(warning))
	}
	if r.Status != 0 {
		resp := testResponse{StatusCode: r.Status, Truncated: r.Truncated}
		resp.Body, resp.BodyEncoding = httpapi.ShowBody(r.ResponseBody, r.Truncated)
		if resp.Headers, err = decodeHeaders(r.ResponseHeaders); err != nil {
			return nil, err
		}
		out.Response.Value = &resp
	}
	if r.Failure != nil {
		out.Error.Value = &testError{r.Failure.Code, r.Failure.Message}
	}
	return &testOutput{out}, nil
}

func decodeHeaders(text string) (map[string]string, error) {
	out := map[string]string{}
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		return nil, fmt.Errorf("read the headers of a test: %w", err)
	}
	return out, nil
}
