package deliveries

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
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

// buildBody returns the body to send and its content type. The original JSON goes into the envelope byte for byte, so
// that numbers and the order of fields are preserved.
func buildBody(mode subscriptions.PayloadMode, e *events.Event, p *events.Payload) ([]byte, string, error) {
	if mode == subscriptions.Raw {
		return p.Body, e.ContentType, nil
	}
	out, err := appendEnvelope(make([]byte, 0, envelopeRoom+len(p.Body)), e)
	if err != nil {
		return nil, "", fmt.Errorf("encode the envelope: %w", err)
	}
	if p.Encoding == events.JSON {
		out = append(out, p.Body...)
	} else {
		wrapped := map[string]any{}
		if p.Encoding == events.Text {
			wrapped["text"] = string(p.Body)
		} else {
			wrapped["base64"] = p.Body
		}
		data, err := json.Marshal(wrapped)
		if err != nil {
			return nil, "", fmt.Errorf("encode the data: %w", err)
		}
		out = append(out, data...)
	}
	return append(out, '}'), "application/json", nil
}

// envelopeRoom is enough for what surrounds the data of nearly every event.
const envelopeRoom = 512

// appendEnvelope appends the default body of a delivery up to the data, which come last.
func appendEnvelope(b []byte, e *events.Event) ([]byte, error) {
	field := func(name, value string) {
		b = append(b, name...)
		b = appendJSONString(b, value)
	}
	field(`{"type":`, e.Type)
	if len(e.Types) > 0 { // of a batch, of which Type is the first
		types, err := json.Marshal(e.Types)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"types":`...), types...)
	}
	field(`,"timestamp":`, clock.Wire(e.ReceivedAt))
	field(`,"id":`, e.UUID)
	field(`,"provider":`, e.Provider)
	field(`,"provider_config_key":`, e.ProviderConfigKey)
	field(`,"connection_id":`, e.ConnectionID)
	return append(b, `,"data":`...), nil
}

// Sign returns the value of webhook-signature: v1 of Standard Webhooks over "id.timestamp.body".
func Sign(key []byte, id string, timestamp int64, body []byte) string {
	mac := hmac.New(sha256.New, key)
	b := make([]byte, 0, 128) // for the prefix, and then for the sum and its text
	b = append(append(b, id...), '.')
	b = append(strconv.AppendInt(b, timestamp, 10), '.')
	mac.Write(b)
	mac.Write(body)
	sum := mac.Sum(b[:0])
	return string(base64.StdEncoding.AppendEncode(append(sum, "v1,"...), sum)[len(sum):])
}

// maxOwnHeaders is the number of headers that the gateway itself gives a delivery.
const maxOwnHeaders = 13

// buildHeaders returns the headers of an attempt.
func buildHeaders(t *subscriptions.Target, d *Delivery, e *events.Event, contentType string, body []byte,
	now time.Time) http.Header {
	h := make(http.Header, maxOwnHeaders+len(t.Headers))
	values := make([]string, 0, maxOwnHeaders) // one allocation for all
	// The names are already in Go's canonical form, which the map requires.
	set := func(name, value string) {
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	for _, custom := range t.Headers {
		h.Add(custom.Name, custom.Value)
	}
	if contentType != "" {
		set("Content-Type", contentType)
	}
	timestamp := now.Unix()
	set("User-Agent", "Sallyport")
	set("Webhook-Id", e.UUID)
	set("Webhook-Timestamp", strconv.FormatInt(timestamp, 10))
	signature := Sign(t.SigningKey, e.UUID, timestamp, body)
	for _, old := range t.Retiring {
		if now.Before(old.Until) {
			signature += " " + Sign(old.Key, e.UUID, timestamp, body)
		}
	}
	set(headerSignature, signature)
	set("Sallyport-Event-Type", e.Type)
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
	return h
}

// maxStoredHeaders limits the headers of a response that are stored.
const maxStoredHeaders = 8 << 10

// ownHeaders returns the gateway's own headers, as the map of a request has them and in lower case, in the order of the
// latter.
var ownHeaders = sync.OnceValue(func() [][2]string { //nolint:gochecknoglobals // a constant list
	names := []string{"Content-Type", "Sallyport-Attempt", "Sallyport-Connection-Id", "Sallyport-Event-Type",
		"Sallyport-Hops", "Sallyport-Provider", "Sallyport-Replay", "Sallyport-Subscription-Id", "Sallyport-Will-Retry",
		"User-Agent", "Webhook-Id", headerSignature, "Webhook-Timestamp"}
	list := make([][2]string, len(names))
	for i, name := range names {
		list[i] = [2]string{name, strings.ToLower(name)}
	}
	return list
})

const headerSignature = "Webhook-Signature"

// storedRequestHeaders returns the headers as a JSON object with lower-case names. Values of signatures and of the
// subscription's own headers are redacted: they may be credentials of the receiver.
func storedRequestHeaders(h http.Header, custom []subscriptions.Header) string {
	if len(custom) == 0 {
		if text, ok := storedOwnHeaders(h); ok {
			return text
		}
	}
	return storedHeaders(h, func(name string) bool {
		if name == "webhook-signature" {
			return true
		}
		for _, c := range custom {
			if strings.EqualFold(c.Name, name) {
				return true
			}
		}
		return false
	})
}

// storedOwnHeaders is storedHeaders for headers that are all the gateway's own, as nearly always; ok is false for
// others, and if they are too long.
func storedOwnHeaders(h http.Header) (text string, ok bool) {
	b := make([]byte, 0, 640)
	b = append(b, '{')
	found := 0
	for _, name := range ownHeaders() {
		values := h[name[0]]
		if len(values) != 1 {
			continue
		}
		value := values[0]
		if name[0] == headerSignature {
			value = secretbox.Redacted
		}
		if found++; found > 1 {
			b = append(b, ',')
		}
		b = appendJSONString(b, name[1])
		b = append(b, ':')
		b = appendJSONString(b, value)
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
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			// Marshal of a string cannot fail: it replaces invalid UTF-8.
			quoted, _ := json.Marshal(s)
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
