package deliveries

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/eventtypes"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/filters"
	"sallyport/internal/webhooks/subscriptions"
)

// Limits of tests.
const (
	// testEventType is the default type of a synthetic event.
	testEventType = "webhook.test"
	// maxTestHeaders is the maximum number of headers that a test may add.
	maxTestHeaders = 20
	// maxTests limits the tests in progress in this process, and maxEnvironmentTests those of one environment, so that
	// neither hanging targets nor large events fill the memory, and no environment takes every place.
	maxTests, maxEnvironmentTests = 32, 4
)

// maxShownRequest is the part of the request's body that a test returns, in bytes.
const maxShownRequest = 64 << 10

// TestRequest describes a test of a subscription: with a synthetic event, or with a stored one sent again outside its
// delivery.
type TestRequest struct {
	// EventType and Data describe a synthetic event; empty means testEventType and a message that explains it. Data is
	// JSON.
	EventType string
	Data      json.RawMessage
	// EventUUID names a stored event of the environment instead.
	EventUUID string
	// Headers are sent in addition to the subscription's own.
	Headers map[string]string
	// DryRun builds the request and sends nothing.
	DryRun bool
}

// TestResult is the result of a test.
type TestResult struct {
	// Delivered is set when the target responded with a status code of 2xx.
	Delivered bool
	// WouldMatch is set when the subscription matches the event: its type, the connection of a stored event, and the
	// filter.
	WouldMatch bool
	// EventType is the type of the event, as the provider's events have it.
	EventType string
	// Warnings are about the patterns of the subscription and the type of the request.
	Warnings []subscriptions.Warning
	// Filter is the result of the filter; nil if the subscription has none, or does not match the event for another
	// reason.
	Filter *filters.Result
	// WebhookID is the webhook-id of the request.
	WebhookID string
	URL       string
	// RequestHeaders and ResponseHeaders are JSON objects of lower-case names. Signatures and credentials are redacted.
	RequestHeaders string
	// RequestBody is the first 64 KiB of the request's body; RequestTruncated is set when there was more.
	RequestBody      []byte
	RequestTruncated bool
	// Status is 0 if there was no response.
	Status          int
	ResponseHeaders string
	ResponseBody    []byte
	Truncated       bool
	// Failure is nil if the test was delivered, and for a dry run.
	Failure *Failure
	Timings egress.Timings
}

// Test sends one signed request to the subscription's target, whether or not the subscription is enabled, and returns
// the response. It stores nothing and changes no state: a target that responds with 410 stays enabled.
//
// Errors: not_found for a subscription or event that the view does not show; payload_expired; rate_limited while too
// many tests are in progress; validation errors with locations relative to the body of the request.
func (s *Service) Test(ctx context.Context, v access.View, subscriptionID string, in TestRequest) (TestResult, error) {
	if err := in.validate(); err != nil {
		return TestResult{}, err
	}
	sub, err := s.subs.Get(ctx, v, subscriptionID)
	if err != nil {
		return TestResult{}, err
	}
	target, err := s.subs.Target(ctx, v.Environment, subscriptionID)
	if err != nil {
		return TestResult{}, err
	}
	if !s.tests.begin(v.Environment) {
		return TestResult{}, apperr.New(apperr.CodeRateLimited, "Too many tests are in progress").RetryIn(time.Second)
	}
	defer s.tests.end(v.Environment)
	e, p, err := s.testEvent(ctx, v, &in)
	if err != nil {
		return TestResult{}, err
	}
	found, warnings, err := s.matchTest(ctx, &sub, &e, &p)
	if err != nil {
		return TestResult{}, err
	}
	if in.EventType == "" {
		warnings = nil // no one has named the type
	}
	out := TestResult{WebhookID: e.UUID, EventType: e.Type, WouldMatch: found.Failed == "", Filter: found.Filter,
		Warnings: append(append(s.subs.Warnings(ctx, &sub), warnings...), warnDisabled(&sub)...),
		URL:      target.RawURL, ResponseHeaders: "{}"}
	eventType := typeFor(target, &e)
	f, err := buildForm(target.PayloadMode, eventType, &e, &p)
	if err != nil {
		return TestResult{}, err
	}
	now := s.clock.Now()
	once := *target
	once.Schedule = nil // there is no retry, and the request says so
	for name, value := range in.Headers {
		once.Headers = append(once.Headers[:len(once.Headers):len(once.Headers)],
			subscriptions.Header{Name: name, Value: value})
	}
	h := buildHeaders(&once, &Delivery{Key: Key{EventUUID: e.UUID, SubscriptionID: subscriptionID}, Generation: 1}, &e,
		eventType, &f, now)
	h.Set("Sallyport-Test", "true")
	out.RequestHeaders, out.RequestBody, out.RequestTruncated = storedRequestHeaders(h, target.Headers, f.headers), f.body,
		len(f.body) > maxShownRequest
	if out.RequestTruncated {
		out.RequestBody = slices.Clone(f.body[:maxShownRequest])
	}
	switch {
	case target.URL == nil:
		out.Failure = &Failure{Code: target.Refused.Code, Message: target.Refused.Message, At: now}
	case !in.DryRun:
		return out, s.sendTest(ctx, target, h, f.body, &out)
	}
	return out, nil
}

// ruleDisabled is the rule of the warning that a subscription gets nothing but tests.
const ruleDisabled = "disabled"

func warnDisabled(sub *subscriptions.Subscription) []subscriptions.Warning {
	if sub.Enabled {
		return nil
	}
	return []subscriptions.Warning{{Location: "enabled", Rule: ruleDisabled,
		Message: "the subscription is disabled: its deliveries are held until it is enabled"}}
}

// matchTest explains whether the subscription matches the event. A synthetic one gets the first of its possible types
// that matches, as a provider's event would have it.
func (s *Service) matchTest(ctx context.Context, sub *subscriptions.Subscription, e *events.Event,
	p *events.Payload) (subscriptions.Explanation, []subscriptions.Warning, error) {
	explain := func(rules eventtypes.Rules) subscriptions.Explanation {
		return Explain(e, rules, filters.NewEvent(e, p).Evaluate, sub)
	}
	if e.ProviderConfigKey != "" {
		rules, err := s.subs.TypeRules(ctx, sub.Environment, OriginOf(e))
		if err != nil {
			return subscriptions.Explanation{}, nil, err
		}
		return explain(rules), nil, nil
	}
	types := s.subs.TestedTypes(ctx, sub, e.Type)
	for _, t := range types {
		e.Type = t.Type
		if found := explain(t.Rules); found.Failed != subscriptions.OnEventTypes {
			return found, t.Warnings, nil
		}
	}
	e.Type = types[0].Type
	return explain(types[0].Rules), types[0].Warnings, nil
}

func (s *Service) sendTest(ctx context.Context, target *subscriptions.Target, h http.Header, content []byte,
	out *TestResult) error {
	resp, sendErr := s.client.Do(ctx, egress.Request{Method: http.MethodPost, URL: target.URL, Header: h, Body: content,
		Timeout: target.Timeout, MaxResponseBytes: maxResponseBody})
	if ctx.Err() != nil {
		return ctx.Err() // the caller has left
	}
	var a Attempt
	fillAttempt(&a, target, resp, sendErr)
	out.Timings, out.Status, out.ResponseBody, out.Truncated = a.Timings, resp.Status, a.ResponseBody, a.Truncated
	if a.ResponseHeaders != "" {
		out.ResponseHeaders = a.ResponseHeaders
	}
	out.Failure = judgeResponse(resp, sendErr, s.clock.Now()).Failure
	if out.Failure != nil && out.Failure.Code == codeGone {
		out.Failure.Message = "The receiver responded with 410 Gone; this response to a delivery disables the subscription"
	}
	out.Delivered = out.Failure == nil
	return nil
}

// testPlaces counts the tests in progress.
type testPlaces struct {
	mu    sync.Mutex
	all   int
	byEnv map[id.Environment]int
}

// begin takes a place, and reports whether there was one.
func (t *testPlaces) begin(env id.Environment) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= maxTests || t.byEnv[env] >= maxEnvironmentTests {
		return false
	}
	if t.byEnv == nil {
		t.byEnv = map[id.Environment]int{}
	}
	t.all++
	t.byEnv[env]++
	return true
}

func (t *testPlaces) end(env id.Environment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.byEnv[env]--; t.byEnv[env] == 0 {
		delete(t.byEnv, env)
	}
}

func (in *TestRequest) validate() error {
	var v apperr.Violations
	if in.EventUUID != "" {
		if in.EventType != "" {
			v.Add("event_type", "alone", "cannot be combined with event_uuid")
		}
		if in.Data != nil {
			v.Add("body", "alone", "cannot be combined with event_uuid")
		}
	}
	if in.EventType != "" {
		if subscriptions.PatternViolation(in.EventType) != nil || strings.Contains(in.EventType, "*") {
			v.Add("event_type", "pattern", "must be an event type: segments separated by dots, without wildcards")
		}
	}
	if len(in.Headers) > maxTestHeaders {
		v.Add("headers", "max_properties", "must be at most 20 headers")
	}
	subscriptions.CheckHeaders(&v, "headers", in.Headers)
	return v.Err()
}

// testEvent returns the stored event that the test names, or a synthetic one.
func (s *Service) testEvent(ctx context.Context, v access.View, in *TestRequest) (events.Event, events.Payload, error) {
	if in.EventUUID == "" {
		e := events.Event{UUID: id.NewUUID(), Environment: v.Environment, Type: testEventType,
			ContentType: "application/json", ReceivedAt: s.clock.Now()}
		p := events.Payload{Headers: "{}", Body: []byte(`{"message":"This is a test event from Sallyport."}`),
			Encoding: events.JSON}
		if in.EventType != "" {
			e.Type = in.EventType
		}
		if in.Data != nil {
			var compact bytes.Buffer
			if err := json.Compact(&compact, in.Data); err != nil {
				return e, p, apperr.Invalid(apperr.Detail{Location: "body", Rule: "json", Message: "must be JSON"})
			}
			p.Body = compact.Bytes()
		}
		e.BodySize = int64(len(p.Body))
		return e, p, nil
	}
	if !id.IsUUID(in.EventUUID) {
		return events.Event{}, events.Payload{}, apperr.NotFound("webhook event")
	}
	e, err := s.events.Get(ctx, v, in.EventUUID)
	if err != nil {
		return events.Event{}, events.Payload{}, err
	}
	if e.PayloadExpired {
		return e, events.Payload{}, errPayloadExpired()
	}
	payloads, err := s.events.Payloads(ctx, v.Environment, []events.Event{e})
	if err != nil {
		return e, events.Payload{}, err
	}
	p, ok := payloads[e.UUID]
	if !ok {
		return e, p, apperr.Invalid(apperr.Detail{Location: "event_uuid", Rule: "payload",
			Message: "the event has no payload of its own; name the event that it duplicates"})
	}
	return e, p, nil
}
