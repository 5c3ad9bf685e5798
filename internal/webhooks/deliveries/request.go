package deliveries

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// form is what one kind of subscription gets of an event.
type form struct {
	// head and body, one after the other, are the body of the request. A head is only there if subscriptions share the
	// rest.
	head, body  []byte
	contentType string
	// headers are the provider's, and omitted is how many further ones the limits left out.
	headers []forwardedHeader
	omitted int
	// sample is the id of the sample that the event is; empty for a real one.
	sample string
}

// buildForm returns the form for a subscription that gets the event under the type. The original JSON goes into the
// envelope byte for byte, so that numbers and the order of fields are preserved.
func buildForm(mode subscriptions.PayloadMode, eventType string, e *events.Event, p *events.Payload) (form, error) {
	if mode == subscriptions.Raw {
		headers, omitted := forwardedHeaders(p)
		return form{body: p.Body, contentType: e.ContentType, headers: headers, omitted: omitted, sample: sampleOf(p)}, nil
	}
	b := make([]byte, 0, envelopeSize(e, p))
	body, err := appendEnvelope(appendType(b, eventType), e, p)
	return form{body: body, contentType: envelopeContentType, sample: sampleOf(p)}, err
}

// buildShared is buildForm without the type, for subscriptions that get the event under different ones.
func buildShared(mode subscriptions.PayloadMode, e *events.Event, p *events.Payload) (form, error) {
	if mode == subscriptions.Raw || !isMixed(e) {
		return buildForm(mode, e.Type, e, p)
	}
	body, err := appendEnvelope(make([]byte, 0, envelopeSize(e, p)), e, p)
	return form{body: body, contentType: envelopeContentType, sample: sampleOf(p)}, err
}

// sampleOf returns the id of the sample that the webhook is; empty for a real one. Ingest lets the header pass on
// samples of the gateway's own making only.
func sampleOf(p *events.Payload) string {
	// Inside of a value the quotes are escaped.
	_, rest, _ := strings.Cut(p.Headers, `"sallyport-sample":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// under returns what buildShared has returned for the type of one subscription.
func (f form) under(mode subscriptions.PayloadMode, eventType string, e *events.Event) form {
	if mode != subscriptions.Raw && isMixed(e) {
		f.head = appendType(nil, eventType)
	}
	return f
}

// isMixed reports whether subscriptions may get the event under different types.
func isMixed(e *events.Event) bool { return len(e.Types) > 1 }

// typeFor returns the type under which the subscription gets the event.
func typeFor(t *subscriptions.Target, e *events.Event) string {
	if !isMixed(e) {
		return e.Type
	}
	return t.TypeOf(e.Provider, e.Types)
}

const envelopeContentType = "application/json"

// envelopeSize is enough for nearly every envelope of JSON: the names of its fields, time and id, and all that varies.
func envelopeSize(e *events.Event, p *events.Payload) int {
	return 224 + len(e.Type) + len(e.Provider) + len(e.ProviderConfigKey) + len(e.ConnectionID) + len(p.Headers) +
		len(p.Body)
}

// appendType appends the beginning of an envelope.
func appendType(b []byte, eventType string) []byte {
	return appendJSONString(append(b, `{"type":`...), eventType)
}

// appendEnvelope appends an envelope from its type on. The data come last.
func appendEnvelope(b []byte, e *events.Event, p *events.Payload) ([]byte, error) {
	field := func(name, value string) {
		b = append(b, name...)
		b = appendJSONString(b, value)
	}
	if len(e.Types) > 0 {
		types, err := json.Marshal(e.Types)
		if err != nil {
			return nil, fmt.Errorf("encode the types: %w", err)
		}
		b = append(append(b, `,"types":`...), types...)
	}
	field(`,"timestamp":`, clock.Wire(e.ReceivedAt))
	field(`,"id":`, e.UUID)
	field(`,"provider":`, e.Provider)
	field(`,"provider_config_key":`, e.ProviderConfigKey)
	field(`,"connection_id":`, e.ConnectionID)
	b = appendForwarded(append(b, `,"headers":`...), p)
	b = append(b, `,"data":`...)
	if p.Encoding == events.JSON {
		return append(append(b, p.Body...), '}'), nil
	}
	wrapped := map[string]any{}
	if p.Encoding == events.Text {
		wrapped["text"] = string(p.Body)
	} else {
		wrapped["base64"] = p.Body
	}
	data, err := json.Marshal(wrapped)
	if err != nil {
		return nil, fmt.Errorf("encode the data: %w", err)
	}
	return append(append(b, data...), '}'), nil
}

// Sign returns the value of webhook-signature: v1 of Standard Webhooks over "id.timestamp.body". The body may come in
// parts.
func Sign(key []byte, id string, timestamp int64, body ...[]byte) string {
	mac := hmac.New(sha256.New, key)
	b := make([]byte, 0, 128) // for the prefix, and then for the sum and its text
	b = append(append(b, id...), '.')
	b = append(strconv.AppendInt(b, timestamp, 10), '.')
	mac.Write(b)
	for _, part := range body {
		mac.Write(part)
	}
	sum := mac.Sum(b[:0])
	return string(base64.StdEncoding.AppendEncode(append(sum, "v1,"...), sum)[len(sum):])
}

// maxOwnHeaders is the number of headers that the gateway itself gives a delivery.
const maxOwnHeaders = 15

// buildHeaders returns the headers of an attempt: the gateway's own, those of the subscription, which replace none of
// them, and those of the provider, which replace neither, except that the provider's User-Agent replaces the gateway's.
func buildHeaders(t *subscriptions.Target, d *Delivery, e *events.Event, eventType string, f *form,
	now time.Time) http.Header {
	h := make(http.Header, maxOwnHeaders+len(t.Headers)+len(f.headers))
	values := make([]string, 0, maxOwnHeaders+len(f.headers)) // one allocation for all
	// The names are already in Go's canonical form, which the map requires.
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	for _, custom := range t.Headers {
		h.Add(custom.Name, custom.Value)
	}
	userAgent := "Sallyport"
	for i := range f.headers {
		switch forwarded := &f.headers[i]; {
		case forwarded.name == headerUserAgent:
			userAgent = forwarded.value
		case !replaces(t.Headers, forwarded.name):
			set(forwarded.name, forwarded.value)
		}
	}
	if f.contentType != "" {
		set("Content-Type", f.contentType)
	}
	timestamp := now.Unix()
	set(headerUserAgent, userAgent)
	set("Webhook-Id", e.UUID)
	set("Webhook-Timestamp", strconv.FormatInt(timestamp, 10))
	signature := Sign(t.SigningKey, e.UUID, timestamp, f.head, f.body)
	for _, old := range t.Retiring {
		if now.Before(old.Until) {
			signature += " " + Sign(old.Key, e.UUID, timestamp, f.head, f.body)
		}
	}
	set(headerSignature, signature)
	set("Sallyport-Event-Type", eventType)
	if e.Provider != "" {
		set("Sallyport-Provider", e.Provider)
	}
	if e.ConnectionID != "" {
		set("Sallyport-Connection-Id", e.ConnectionID)
	}
	set("Sallyport-Subscription-Id", d.SubscriptionID)
	attempt := d.GenerationAttempts + 1
	set("Sallyport-Attempt", strconv.FormatInt(attempt, 10))
	set("Sallyport-Will-Retry", strconv.FormatBool(attempt <= int64(len(t.Schedule))))
	set("Sallyport-Replay", strconv.FormatBool(d.Generation > 1))
	set("Sallyport-Hops", strconv.FormatInt(e.Hops+1, 10))
	if f.omitted > 0 {
		set("Sallyport-Headers-Omitted", strconv.Itoa(f.omitted))
	}
	if f.sample != "" {
		set("Sallyport-Sample", f.sample)
	}
	return h
}

// replaces reports whether a header of the subscription replaces the one of that name.
func replaces(custom []subscriptions.Header, name string) bool {
	return slices.ContainsFunc(custom, func(c subscriptions.Header) bool { return subscriptions.SameName(c.Name, name) })
}

// maxStoredHeaders limits the headers of a response that are stored.
const maxStoredHeaders = 8 << 10

// ownHeaders returns the gateway's own headers, as the map of a request has them and in lower case, in the order of the
// latter.
var ownHeaders = sync.OnceValue(func() [][2]string { //nolint:gochecknoglobals // a constant list
	names := []string{"Content-Type", "Sallyport-Attempt", "Sallyport-Connection-Id", "Sallyport-Event-Type",
		"Sallyport-Headers-Omitted", "Sallyport-Hops", "Sallyport-Provider", "Sallyport-Replay",
		"Sallyport-Sample", "Sallyport-Subscription-Id", "Sallyport-Will-Retry",
		headerUserAgent, "Webhook-Id", headerSignature, "Webhook-Timestamp"}
	list := make([][2]string, len(names))
	for i, name := range names {
		list[i] = [2]string{name, strings.ToLower(name)}
	}
	return list
})

const (
	headerSignature = "Webhook-Signature"
	headerUserAgent = "User-Agent"
)

// storedRequestHeaders returns the headers as a JSON object with lower-case names. Values of signatures and of the
// subscription's own headers are redacted: they may be credentials of the receiver. forwarded are the provider's
// headers among them.
func storedRequestHeaders(h http.Header, custom []subscriptions.Header, forwarded []forwardedHeader) string {
	// The buffers are of constant size, so that they need no memory of their own.
	if len(custom) == 0 && len(forwarded) == 0 {
		if text, ok := storedKnownHeaders(make([]byte, 0, 640), h, nil); ok {
			return text
		}
	} else if len(custom) == 0 {
		if text, ok := storedKnownHeaders(make([]byte, 0, 1536), h, forwarded); ok {
			return text
		}
	}
	return storedHeaders(h, func(name string) bool {
		return name == "webhook-signature" ||
			slices.ContainsFunc(custom, func(c subscriptions.Header) bool { return strings.EqualFold(c.Name, name) }) ||
			slices.ContainsFunc(forwarded, func(f forwardedHeader) bool { return f.signature && f.lower == name })
	})
}

// storedKnownHeaders is storedHeaders for headers that are all the gateway's own or the provider's, as nearly always;
// ok is false for others, and if they are too long. It writes into b, which is empty.
func storedKnownHeaders(b []byte, h http.Header, forwarded []forwardedHeader) (text string, ok bool) {
	b = append(b, '{')
	found := 0
	add := func(name, lower string, secret bool) {
		values := h[name]
		if len(values) != 1 {
			return
		}
		value := values[0]
		if secret {
			value = secretbox.Redacted
		}
		if found++; found > 1 {
			b = append(b, ',')
		}
		b = append(appendJSONString(b, lower), ':')
		b = appendJSONString(b, value)
	}
	for _, own := range ownHeaders() {
		name, lower := own[0], own[1]
		for ; len(forwarded) > 0 && forwarded[0].lower <= lower; forwarded = forwarded[1:] {
			if f := &forwarded[0]; f.lower < lower { // otherwise the map has it once
				add(f.name, f.lower, f.signature)
			}
		}
		add(name, lower, name == headerSignature)
	}
	for i := range forwarded {
		add(forwarded[i].name, forwarded[i].lower, forwarded[i].signature)
	}
	return string(append(b, '}')), found == len(h) && len(b) < maxStoredHeaders
}

// storedResponseHeaders is storedRequestHeaders for a response: cookies and challenges are redacted.
func storedResponseHeaders(h http.Header) string {
	return storedHeaders(h, func(name string) bool {
		return name == "set-cookie" || name == "www-authenticate" || name == "proxy-authenticate"
	})
}

func storedHeaders(h http.Header, secret func(name string) bool) string {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	sort.Strings(names)
	b := make([]byte, 0, 512)
	b = append(b, '{')
	for _, name := range names {
		lower := strings.ToLower(name)
		value := strings.Join(h[name], ", ")
		if secret(lower) {
			value = secretbox.Redacted
		}
		if len(b)+len(name)+len(value) > maxStoredHeaders {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = appendJSONString(b, lower)
		b = append(b, ':')
		b = appendJSONString(b, value)
	}
	return string(append(b, '}'))
}

// appendJSONString appends s as a JSON string, as encoding/json does. Plain ASCII needs no encoder.
func appendJSONString(b []byte, s string) []byte {
	// As bits, from the space on. A shift by more is 0.
	const escaped uint64 = 1<<('"'-' ') | 1<<('&'-' ') | 1<<('<'-' ') | 1<<('>'-' ') | 1<<('\\'-' ')
	for i := range len(s) {
		if c := s[i] - ' '; c > '~'-' ' || escaped>>c&1 != 0 {
			// Marshal of a string cannot fail: it replaces invalid UTF-8.
			quoted, _ := json.Marshal(s)
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
