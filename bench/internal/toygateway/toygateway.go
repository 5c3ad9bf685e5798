// Package toygateway is the part of the gateway's HTTP contract that the bench uses, in memory, for the bench's own
// tests: it verifies, acknowledges and forwards, keeps nothing, and can be made to misbehave.
package toygateway

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sallyport/internal/platform/id"
)

const (
	// APIKey opens the toy's API.
	APIKey = "toy-key"
	// SigningSecret signs every forward.
	SigningSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

	queueLength = 1 << 16
	senders     = 8
)

// Defects are the ways in which the toy misbehaves, counted over its forwards; 0 is never.
type Defects struct {
	// DropEvery leaves out every nth forward.
	DropEvery int64
	// RepeatEvery sends every nth forward twice.
	DuplicateEvery int64
	// ForgetEvery leaves every nth event out of the streams, SendTwiceEvery sends every nth twice.
	ForgetEvery, SendTwiceEvery int64
	// WrongSecret signs with another secret than the one it returned.
	WrongSecret bool
}

// Gateway is the toy. Its zero value is not usable: take New.
type Gateway struct {
	http.Handler
	defects Defects
	hook    *standardwebhooks.Webhook
	client  *http.Client
	queue   chan forward
	wg      sync.WaitGroup
	count   atomic.Int64
	errs    atomic.Int64

	readers readers

	mu            sync.Mutex
	webhookSecret string
	subscription  *subscription
}

type subscription struct {
	ForwardURL        string   `json:"forward_url"`
	EventTypes        []string `json:"event_types"`
	ConnectionID      string   `json:"connection_id"`
	ProviderConfigKey string   `json:"provider_config_key"`
}

type forward struct {
	id   string
	to   subscription
	body []byte
}

// New returns a running toy. Its forwards end with ctx.
func New(ctx context.Context, defects Defects) (*Gateway, error) {
	secret := SigningSecret
	if defects.WrongSecret {
		secret = "whsec_" + strings.Repeat("QUFB", 8)
	}
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, fmt.Errorf("signing secret: %w", err)
	}
	g := &Gateway{
		defects: defects, hook: hook, queue: make(chan forward, queueLength),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: senders}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /api/v1/connections", g.createConnection)
	mux.HandleFunc("POST /api/v1/webhook-subscriptions", g.createSubscription)
	mux.HandleFunc("POST /api/v1/webhook/toy", g.receive)
	mux.HandleFunc("GET /api/v1/webhook-events/stream", g.stream)
	g.readers.open = map[chan string]bool{}
	g.Handler = mux
	for range senders {
		g.wg.Go(func() {
			for f := range g.queue {
				g.forward(ctx, f)
			}
		})
	}
	return g, nil
}

// Close sends what is queued and ends the toy; no request may come afterwards. It returns an error when a forward
// failed.
func (g *Gateway) Close() error {
	close(g.queue)
	g.wg.Wait()
	g.client.CloseIdleConnections()
	if n := g.errs.Load(); n > 0 {
		return fmt.Errorf("%w: %d", errForward, n)
	}
	return nil
}

var errForward = errors.New("forwards failed")

func (g *Gateway) createConnection(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Provider      string `json:"provider"`
		ConnectionID  string `json:"connection_id"`
		WebhookSecret string `json:"webhook_secret"`
	}
	if !decode(w, r, &in) {
		return
	}
	g.mu.Lock()
	g.webhookSecret = in.WebhookSecret
	g.mu.Unlock()
	respond(w, http.StatusCreated, map[string]any{"webhook_url": "http://public.test/api/v1/webhook/toy"})
}

func (g *Gateway) createSubscription(w http.ResponseWriter, r *http.Request) {
	var in subscription
	if !decode(w, r, &in) {
		return
	}
	g.mu.Lock()
	g.subscription = &in
	g.mu.Unlock()
	respond(w, http.StatusCreated, map[string]any{"id": "sub_toy", "signing_secret": SigningSecret})
}

func (g *Gateway) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "unreadable body", http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	secret, to := g.webhookSecret, g.subscription
	g.mu.Unlock()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	if r.Header.Get("X-Hub-Signature-256") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		http.Error(w, "bad signature", http.StatusUnauthorized)
		return
	}
	event := id.NewUUID()
	g.readers.send(g.defects, event)
	if to != nil {
		g.queue <- forward{id: event, to: *to, body: body}
	}
	respond(w, http.StatusOK, map[string]any{"event_uuid": event, "status": "received", "duplicate": false})
}

func (g *Gateway) forward(ctx context.Context, f forward) {
	n := g.count.Add(1)
	times := 1
	if every := g.defects.DuplicateEvery; every > 0 && n%every == 0 {
		times = 2
	}
	if every := g.defects.DropEvery; every > 0 && n%every == 0 {
		times = 0
	}
	for range times {
		if err := g.send(ctx, f); err != nil {
			g.errs.Add(1)
		}
	}
}

func (g *Gateway) send(ctx context.Context, f forward) error {
	now := time.Now()
	body, err := json.Marshal(map[string]any{
		"type": "push", "timestamp": now, "id": f.id, "provider": f.to.ProviderConfigKey,
		"provider_config_key": f.to.ProviderConfigKey, "connection_id": f.to.ConnectionID, "data": json.RawMessage(f.body),
	})
	if err != nil {
		return err
	}
	signature, err := g.hook.Sign(f.id, now, body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.to.ForwardURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set(standardwebhooks.HeaderWebhookID, f.id)
	req.Header.Set(standardwebhooks.HeaderWebhookTimestamp, fmt.Sprint(now.Unix()))
	req.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	resp, err := g.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	if r.Header.Get("API-Key") != APIKey {
		respond(w, http.StatusUnauthorized, map[string]any{"error": map[string]any{"code": "unauthorized"}})
		return false
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		respond(w, http.StatusUnprocessableEntity, map[string]any{"error": map[string]any{"code": "validation_error"}})
		return false
	}
	return true
}

func respond(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that has gone notices by itself.
	_ = json.NewEncoder(w).Encode(content)
}
