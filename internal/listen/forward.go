package listen

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/egress"
	"sallyport/internal/webhooks/deliveries"
)

const (
	// maxResponse is how much of a receiver's response is read.
	maxResponse = 64 << 10
	// fetches is how often an event is requested while the server does not respond, and fetchWait the time between two
	// requests.
	fetches   = 5
	fetchWait = 2 * time.Second
)

// event holds an event's fields from the stream and the API.
type event struct {
	EventUUID         string            `json:"event_uuid"`
	EventType         string            `json:"event_type"`
	Provider          string            `json:"provider"`
	ProviderConfigKey string            `json:"provider_config_key"`
	ConnectionID      string            `json:"connection_id"`
	ContentType       string            `json:"content_type"`
	ReceivedAt        time.Time         `json:"received_at"`
	Headers           map[string]string `json:"headers"`
}

// Result is the outcome of one event.
type Result struct {
	EventUUID         string    `json:"event_uuid"`
	EventType         string    `json:"event_type"`
	Provider          string    `json:"provider"`
	ProviderConfigKey string    `json:"provider_config_key"`
	ConnectionID      string    `json:"connection_id"`
	ReceivedAt        time.Time `json:"received_at"`
	// Status is the status code of the receiver's response; 0 if there was none.
	Status int `json:"status"`
	// Taken reports whether the status code is one of success.
	Taken bool `json:"taken"`
	// Error is the reason why there was no complete response; empty if there was one.
	Error string `json:"error,omitempty"`
	// DurationMS is how long the forward took, in milliseconds.
	DurationMS float64 `json:"duration_ms"`
}

// forward fetches the event and posts it. It is not retried: the developer of the receiver wants to see what it
// does.
func (l *listener) forward(ctx context.Context, e *event) Result {
	body, err := l.fetch(ctx, e)
	if err != nil {
		r := resultOf(e)
		r.Error = "It could not be fetched: " + err.Error()
		return r
	}
	return l.post(ctx, e, body)
}

// resultOf returns the result of an event before anything has come of it.
func resultOf(e *event) Result {
	return Result{EventUUID: e.EventUUID, EventType: e.EventType, Provider: e.Provider,
		ProviderConfigKey: e.ProviderConfigKey, ConnectionID: e.ConnectionID, ReceivedAt: e.ReceivedAt}
}

// post posts an event that was fetched.
func (l *listener) post(ctx context.Context, e *event, body []byte) Result {
	r := resultOf(e)
	start := l.Clock.Now()
	resp, eerr := l.client.Do(ctx, egress.Request{Method: http.MethodPost, URL: l.target,
		Header: l.headers(e, body, start), Body: body, Timeout: l.Timeout, MaxResponseBytes: maxResponse})
	r.Status, r.DurationMS = resp.Status, float64(l.Clock.Now().Sub(start).Microseconds())/1000
	if eerr != nil {
		r.Error = eerr.Message
	}
	r.Taken = eerr == nil && resp.Status >= 200 && resp.Status <= 299
	return r
}

// fetch reads the headers and the body of an event, which the stream does not carry, and asks again for a while when
// the server does not respond.
func (l *listener) fetch(ctx context.Context, e *event) (body []byte, err error) {
	for n := range fetches {
		if n > 0 {
			t := l.Clock.NewTimer(fetchWait)
			select {
			case <-t.C():
			case <-ctx.Done():
				t.Stop()
				return nil, ctx.Err()
			}
		}
		if body, err = l.fetchOnce(ctx, e); err == nil || !apiclient.Temporary(err) {
			break
		}
	}
	return body, err
}

func (l *listener) fetchOnce(ctx context.Context, e *event) ([]byte, error) {
	path := "/webhook-events" + apiclient.Path(e.EventUUID)
	body, err := l.API.Download(ctx, apiclient.Request{Method: http.MethodGet, Path: path + "/payload"})
	if err != nil {
		return nil, err
	}
	shown, err := l.API.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: path})
	if err != nil {
		return nil, err
	}
	return body, shown.Decode(e)
}

// headers are those that a subscription to the raw webhook gets, less the provider's signature, which the API does not
// show, and with the signature of Standard Webhooks over the original body.
func (l *listener) headers(e *event, body []byte, now time.Time) http.Header {
	h := make(http.Header, len(e.Headers)+10)
	for name, value := range e.Headers {
		if deliveries.MayForward(name, value) {
			h.Set(name, value)
		}
	}
	if e.ContentType != "" {
		h.Set("Content-Type", e.ContentType)
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "Sallyport")
	}
	// A receiver that leads back to a gateway is recognised there by the hops.
	hops, err := strconv.ParseInt(strings.TrimSpace(e.Headers["sallyport-hops"]), 10, 16)
	if err != nil || hops < 0 {
		hops = 0
	}
	h.Set("Webhook-Id", e.EventUUID)
	h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	h.Set("Webhook-Signature", deliveries.Sign(l.key, e.EventUUID, now.Unix(), body))
	for name, value := range map[string]string{"Sallyport-Event-Type": e.EventType, "Sallyport-Provider": e.Provider,
		"Sallyport-Connection-Id": e.ConnectionID, "Sallyport-Sample": e.Headers["sallyport-sample"]} {
		if value != "" {
			h.Set(name, value)
		}
	}
	h.Set("Sallyport-Hops", strconv.FormatInt(hops+1, 10))
	return h
}
