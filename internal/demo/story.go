package demo

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sallyport/internal/platform/apiclient"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/terminal"
)

// stage holds the parts of the story.
type stage struct {
	out      io.Writer
	clock    clock.Clock
	dir      string
	server   string
	api      *apiclient.Client
	receiver *receiver
	shop     *shop
	// provider sends what GitHub would send.
	provider *egress.Client

	line int
	// webhookURL and webhookSecret are the connection's, signingSecret the subscription's.
	webhookURL, webhookSecret string
	subscription              string
	signingSecret             string
	// delivery is the id that GitHub gives the delivery, event the gateway's.
	delivery, event string
}

// writeLine writes the next line of the story.
func (s *stage) writeLine(format string, args ...any) error {
	s.line++
	if _, err := fmt.Fprintf(s.out, "%2d. %s\n", s.line, terminal.Inline(fmt.Sprintf(format, args...))); err != nil {
		return fmt.Errorf("write the story: %w", err)
	}
	return nil
}

// body is GitHub's request, in short: an issue was opened.
const body = `{"action":"opened","issue":{"number":1,"title":"The gate is open"},` +
	`"repository":{"full_name":"octocat/demo"}}`

// play plays every step and checks each.
func (s *stage) play(ctx context.Context) error {
	for _, step := range []func(context.Context) error{s.begin, s.connect, s.subscribe, s.deliver, s.resend, s.forge,
		s.link, s.act} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) begin(context.Context) error {
	if err := s.writeLine("A gateway runs at %s and keeps its data in %s.", s.server, s.dir); err != nil {
		return err
	}
	return s.writeLine("A receiver, your application's part, listens at %s.", s.receiver.url)
}

func (s *stage) create(ctx context.Context, path string, in, out any) error {
	a, err := s.api.Call(ctx, apiclient.Request{Method: http.MethodPost, Path: path, Body: in})
	if err != nil {
		return err
	}
	return a.Decode(out)
}

func (s *stage) connect(ctx context.Context) error {
	s.webhookSecret, s.delivery = rand.Text(), id.NewUUID()
	var c struct {
		WebhookURL string `json:"webhook_url"`
	}
	if err := s.create(ctx, "/connections", map[string]any{"provider": "github", "connection_id": "demo",
		"webhook_secret": s.webhookSecret}, &c); err != nil {
		return err
	}
	s.webhookURL = c.WebhookURL
	return s.writeLine("Connection github/demo holds the secret shared with GitHub, which would post to %s.", c.WebhookURL)
}

func (s *stage) subscribe(ctx context.Context) error {
	var sub struct {
		ID            string `json:"id"`
		SigningSecret string `json:"signing_secret"`
	}
	if err := s.create(ctx, "/webhook-subscriptions", map[string]any{"event_types": []string{"issues.*"},
		"forward_url": s.receiver.url}, &sub); err != nil {
		return err
	}
	s.subscription, s.signingSecret = sub.ID, sub.SigningSecret
	return s.writeLine("Subscription %s sends issues.* to the receiver, signed with a secret that only the two know.",
		sub.ID)
}

// receipt is the gateway's response to a provider.
type receipt struct {
	EventUUID string `json:"event_uuid"`
	Duplicate bool   `json:"duplicate"`
	Error     struct {
		Code string `json:"code"`
	} `json:"error"`
}

// post does what GitHub does: it posts the body with its HMAC-SHA256 under the secret.
func (s *stage) post(ctx context.Context, delivery,
	secret string) (status int, r receipt, took time.Duration, err error) {
	target, terr := s.provider.ParseTarget(s.webhookURL)
	if terr != nil {
		return 0, r, 0, terr
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	h := http.Header{}
	for name, v := range map[string]string{"Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/demo",
		"X-GitHub-Event": "issues", "X-GitHub-Delivery": delivery, "X-Hub-Signature-256": "sha256=" +
			hex.EncodeToString(mac.Sum(nil))} {
		h.Set(name, v)
	}
	began := s.clock.Now()
	resp, eerr := s.provider.Do(ctx, egress.Request{Method: http.MethodPost, URL: target, Header: h, Body: []byte(body),
		MaxResponseBytes: 4 << 10})
	if eerr != nil {
		return 0, r, 0, eerr
	}
	took = s.clock.Now().Sub(began)
	if err := json.Unmarshal(resp.Body, &r); err != nil {
		return 0, r, 0, fmt.Errorf("the gateway's response is no JSON: %w", err)
	}
	return resp.Status, r, took, nil
}

func (s *stage) deliver(ctx context.Context) error {
	began := s.clock.Now()
	status, r, took, err := s.post(ctx, s.delivery, s.webhookSecret)
	if err != nil {
		return err
	}
	if status != http.StatusOK || r.EventUUID == "" || r.Duplicate {
		return fmt.Errorf("the gateway responded to a signed delivery with %d", status)
	}
	s.event = r.EventUUID
	if err := s.writeLine("GitHub posts an issue that was opened, signed: verified and stored as %s; response 200 "+
		"after %s.", r.EventUUID, milliseconds(took)); err != nil {
		return err
	}
	a, err := s.receiver.next(ctx)
	if err != nil {
		return err
	}
	hook, err := standardwebhooks.NewWebhook(s.signingSecret)
	if err != nil {
		return fmt.Errorf("the signing secret: %w", err)
	}
	if err := hook.Verify(a.body, a.header); err != nil {
		return fmt.Errorf("the receiver does not accept the signature: %w", err)
	}
	if err := s.writeLine("The receiver has it %s after GitHub began, and the Standard Webhooks library accepts its "+
		"signature.",
		milliseconds(a.at.Sub(began))); err != nil {
		return err
	}
	var envelope struct {
		ID   string          `json:"id"`
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(a.body, &envelope); err != nil {
		return fmt.Errorf("the body that arrived is no envelope: %w", err)
	}
	if envelope.ID != s.event || a.header.Get(standardwebhooks.HeaderWebhookID) != s.event ||
		!bytes.Equal(envelope.Data, []byte(body)) {
		return errors.New("the event that arrived differs from the one that was sent")
	}
	return s.writeLine("It is of the type %s, has that id, and inside is what GitHub sent: %s", envelope.Type, body)
}

func (s *stage) resend(ctx context.Context) error {
	status, r, _, err := s.post(ctx, s.delivery, s.webhookSecret)
	if err != nil {
		return err
	}
	if status != http.StatusOK || !r.Duplicate || r.EventUUID != s.event {
		return fmt.Errorf("the gateway responded to a resent delivery with %d and not as to a duplicate", status)
	}
	n := 0
	_, err = s.api.Each(ctx, apiclient.Request{Path: "/webhook-events", Query: url.Values{"duplicate": {"true"},
		"include": {"deliveries"}}}, 0, func(row json.RawMessage) error {
		var e struct {
			DuplicateOf string            `json:"duplicate_of"`
			Deliveries  []json.RawMessage `json:"deliveries"`
		}
		if err := json.Unmarshal(row, &e); err != nil {
			return fmt.Errorf("the list of events: %w", err)
		}
		if e.DuplicateOf != s.event || len(e.Deliveries) > 0 {
			return errors.New("a duplicate was forwarded")
		}
		n++
		return nil
	})
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("%d duplicates are on record in place of one", n)
	}
	return s.writeLine("GitHub resends the same: response 200, recorded as a duplicate, and not forwarded.")
}

func (s *stage) forge(ctx context.Context) error {
	status, r, _, err := s.post(ctx, id.NewUUID(), "a guess")
	if err != nil {
		return err
	}
	if status != http.StatusUnauthorized {
		return fmt.Errorf("the gateway responded to a forged delivery with %d", status)
	}
	reason, err := s.rejection(ctx)
	if err != nil {
		return err
	}
	return s.writeLine("A stranger posts with a forged signature: refused with %d %s, and on record as %s.", status,
		r.Error.Code, reason)
}

// recordInterval is how often it is looked whether something is on record, which follows the response.
const recordInterval = 20 * time.Millisecond

// rejection waits until the refusal is on record and returns its reason.
func (s *stage) rejection(ctx context.Context) (string, error) {
	for {
		a, err := s.api.Call(ctx, apiclient.Request{Method: http.MethodGet, Path: "/webhook-rejections"})
		if err != nil {
			return "", err
		}
		var rows []struct {
			Reason string `json:"reason"`
		}
		if err := a.Decode(&rows); err != nil {
			return "", err
		}
		if len(rows) > 0 {
			return rows[0].Reason, nil
		}
		if !s.wait(ctx) {
			return "", errors.New("the refusal is not on record")
		}
	}
}

// wait waits until it is worth looking at the record again. It reports false if the story has no time left.
func (s *stage) wait(ctx context.Context) bool {
	t := s.clock.NewTimer(recordInterval)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
