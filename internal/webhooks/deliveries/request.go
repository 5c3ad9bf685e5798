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
	"time"

	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/webhooks/events"
	"sallyport/internal/webhooks/subscriptions"
)

// envelope is the default body of a delivery.
type envelope struct {
	Type string `json:"type"`
	// Types are the types of a batch, of which Type is the first.
	Types             []string        `json:"types,omitempty"`
	Timestamp         string          `json:"timestamp"`
	ID                string          `json:"id"`
	Provider          string          `json:"provider"`
	ProviderConfigKey string          `json:"provider_config_key"`
	ConnectionID      string          `json:"connection_id"`
	Data              json.RawMessage `json:"data"`
}

// buildBody returns the body to send and its content type. The original JSON goes into the envelope byte for byte, so
// that numbers and the order of fields are preserved.
func buildBody(mode subscriptions.PayloadMode, e *events.Event, p *events.Payload) ([]byte, string, error) {
	if mode == subscriptions.Raw {
		return p.Body, e.ContentType, nil
	}
	data := []byte("null")
	if p.Encoding != events.JSON {
		wrapped := map[string]any{}
		if p.Encoding == events.Text {
			wrapped["text"] = string(p.Body)
		} else {
			wrapped["base64"] = p.Body
		}
		var err error
		if data, err = json.Marshal(wrapped); err != nil {
			return nil, "", fmt.Errorf("encode the data: %w", err)
		}
	}
	head, err := json.Marshal(envelope{Type: e.Type, Types: e.Types, Timestamp: clock.Wire(e.ReceivedAt),
		ID: e.UUID, Provider: e.Provider, ProviderConfigKey: e.ProviderConfigKey, ConnectionID: e.ConnectionID, Data: data})
	if err != nil {
		return nil, "", fmt.Errorf("encode the envelope: %w", err)
	}
	if p.Encoding == events.JSON {
		head = head[:len(head)-len("null}")]
		out := make([]byte, 0, len(head)+len(p.Body)+1)
		out = append(out, head...)
		out = append(out, p.Body...)
		head = append(out, '}')
	}
	return head, "application/json", nil
}

// Sign returns the value of webhook-signature: v1 of Standard Webhooks over "id.timestamp.body".
func Sign(key []byte, id string, timestamp int64, body []byte) string {
	mac := hmac.New(sha256.New, key)
	var prefix [64]byte
	b := append(prefix[:0], id...)
	b = append(b, '.')
	b = strconv.AppendInt(b, timestamp, 10)
	b = append(b, '.')
	mac.Write(b)
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// buildHeaders returns the headers of an attempt.
func buildHeaders(t *subscriptions.Target, d *Delivery, e *events.Event, contentType string, body []byte,
	now time.Time) http.Header {
	h := make(http.Header, 14+len(t.Headers))
	// The names are already in Go's canonical form, which the map requires.
	set := func(name, value string) { h[name] = []string{value} }
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
	set("Webhook-Signature", signature)
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

// storedRequestHeaders returns the headers as a JSON object with lower-case names. Values of signatures and of the
// subscription's own headers are redacted: they may be credentials of the receiver.
func storedRequestHeaders(h http.Header, custom []subscriptions.Header) string {
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

// appendJSONString appends s as a JSON string. Plain ASCII needs no encoder.
func appendJSONString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			// Marshal of a string cannot fail: it replaces invalid UTF-8.
			quoted, _ := json.Marshal(s)
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
