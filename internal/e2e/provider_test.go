package e2e_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"sallyport/internal/platform/id"
)

const (
	githubSecret   = "a secret shared with GitHub"
	standardSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	issueOpened    = `{"action":"opened","issue":{"number":1347,"title":"Found a bug"}}`
)

// message is a provider's request.
type message struct {
	header http.Header
	body   []byte
}

// with returns the message with a header set.
func (m message) with(name, value string) message {
	m.header = m.header.Clone()
	m.header.Set(name, value)
	return m
}

// without returns the message without a header.
func (m message) without(name string) message {
	m.header = m.header.Clone()
	m.header.Del(name)
	return m
}

func hexHMAC(secret string, parts ...string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	for _, p := range parts {
		mac.Write([]byte(p))
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// github is a delivery as GitHub documents it, of the event "issues" and with an id of its own.
func github(body string) message { return githubAs(githubSecret, "issues", id.NewUUID(), body) }

func githubAs(secret, event, delivery, body string) message {
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "GitHub-Hookshot/044aadd")
	h.Set("X-GitHub-Event", event)
	h.Set("X-GitHub-Delivery", delivery)
	h.Set("X-Hub-Signature-256", "sha256="+hexHMAC(secret, body))
	return message{h, []byte(body)}
}

// standard is a delivery signed by the library of the Standard Webhooks project.
func standard(t *testing.T, secret, msgID string, at time.Time, body string) message {
	t.Helper()
	signer, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	signature, err := signer.Sign(msgID, at, []byte(body))
	require.NoError(t, err)
	h := http.Header{}
	h.Set("Content-Type", "application/json")
	h.Set("Webhook-Id", msgID)
	h.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	h.Set("Webhook-Signature", signature)
	return message{h, []byte(body)}
}

// generic is a delivery of a sender that signs the body alone, in hexadecimal, in X-Signature.
func generic(secret, contentType, body string) message {
	h := http.Header{}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	h.Set("X-Signature", hexHMAC(secret, body))
	return message{h, []byte(body)}
}

// post delivers a message to the connection that the segment names.
func (w *world) post(segment string, m message) response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.base+prefix+"/webhook/"+segment,
		bytes.NewReader(m.body))
	require.NoError(w.t, err)
	r.Header = m.header
	return w.send(r)
}

// receipt is the response to an accepted delivery.
type receipt struct {
	EventUUID string `json:"event_uuid"`
	Status    string `json:"status"`
	Duplicate bool   `json:"duplicate"`
}

// deliver delivers a message that must be taken.
func (w *world) deliver(segment string, m message) receipt {
	w.t.Helper()
	var r receipt
	w.post(segment, m).want(w, http.StatusOK).into(w, &r)
	require.Equal(w.t, "received", r.Status)
	require.True(w.t, id.IsUUID(r.EventUUID))
	return r
}

// connection holds the fields of a connection that the tests read.
type connection struct {
	UUID         string  `json:"uuid"`
	ConnectionID string  `json:"connection_id"`
	WebhookAlias *string `json:"webhook_alias"`
	WebhookURL   string  `json:"webhook_url"`
	Status       string  `json:"status"`
	Webhook      struct {
		Duplicates struct {
			Summary         string   `json:"summary"`
			SingleUse       []string `json:"single_use"`
			SameBodySeconds int64    `json:"same_body_seconds"`
			SuspectSeconds  int64    `json:"suspect_seconds"`
		} `json:"duplicates"`
	} `json:"webhook"`
}

// pathToken is the last segment of the connection's URL.
func (c connection) pathToken() string {
	return c.WebhookURL[strings.LastIndexByte(c.WebhookURL, '/')+1:]
}

// connect creates a connection from a body.
func (w *world) connect(c credentials, body object) connection {
	w.t.Helper()
	var out connection
	w.call(c, http.MethodPost, "/connections", body).want(w, http.StatusCreated).into(w, &out)
	return out
}

// connectGitHub creates a GitHub connection of the id, with further fields.
func (w *world) connectGitHub(connectionID string, more ...object) connection {
	w.t.Helper()
	return w.connect(w.dev(), merged(object{"provider": "github", "connection_id": connectionID,
		"webhook_secret": githubSecret}, more...))
}

// subscription holds the fields of a subscription that the tests read.
type subscription struct {
	ID             string   `json:"id"`
	EventTypes     []string `json:"event_types"`
	Enabled        bool     `json:"enabled"`
	DisabledReason *string  `json:"disabled_reason"`
	Health         struct {
		State        string     `json:"state"`
		FailingSince *time.Time `json:"failing_since"`
		NextProbeAt  *time.Time `json:"next_probe_at"`
	} `json:"health"`
	ForwardURL    string `json:"forward_url"`
	SigningSecret string `json:"signing_secret"`
}

// subscribe creates a subscription to everything, with further fields.
func (w *world) subscribe(url string, more ...object) subscription {
	w.t.Helper()
	return w.subscribeAs(w.dev(), url, more...)
}

func (w *world) subscribeAs(c credentials, url string, more ...object) subscription {
	w.t.Helper()
	var out subscription
	body := merged(object{"event_types": []string{"*"}, "forward_url": url}, more...)
	w.call(c, http.MethodPost, "/webhook-subscriptions", body).want(w, http.StatusCreated).into(w, &out)
	return out
}

func (w *world) patchSubscription(subscriptionID string, change object) subscription {
	w.t.Helper()
	var out subscription
	w.call(w.dev(), http.MethodPatch, "/webhook-subscriptions/"+subscriptionID, change).want(w, http.StatusOK).into(w,
		&out)
	return out
}

func merged(base object, more ...object) object {
	for _, m := range more {
		for name, value := range m {
			base[name] = value
		}
	}
	return base
}
