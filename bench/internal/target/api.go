package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	apiTimeout = 30 * time.Second
	// maxResponse bounds how much of an API response is read.
	maxResponse = 1 << 20
	// ConnectionID names the one connection of a run.
	ConnectionID = "bench"
)

// API makes the few calls that set a run up.
type API struct {
	base, key string
	client    *http.Client
}

// StreamPath is the path of the stream below the API's.
const StreamPath = "/webhook-events/stream"

// Stream returns the request target of the stream of events, and the key that opens it.
func (a *API) Stream() (path, key string, err error) {
	base, err := url.Parse(a.base)
	if err != nil {
		return "", "", fmt.Errorf("the API's URL: %w", err)
	}
	return base.Path + StreamPath, a.key, nil
}

// NewAPI returns an API under a base URL that ends in the API's path prefix.
func NewAPI(base, key string) *API {
	return &API{base: base, key: key, client: newClient()}
}

// newClient returns a client that goes to its address and nowhere else: no proxy, no redirect.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       apiTimeout,
	}
}

// CreateConnection makes a connection to a provider with a webhook secret and returns the request target of its webhook
// URL.
func (a *API) CreateConnection(ctx context.Context, provider, webhookSecret string) (path string, err error) {
	var created struct {
		WebhookURL string `json:"webhook_url"`
	}
	err = a.create(ctx, "/connections", map[string]any{
		"provider": provider, "connection_id": ConnectionID, "webhook_secret": webhookSecret,
	}, &created)
	if err != nil {
		return "", err
	}
	webhook, err := url.Parse(created.WebhookURL)
	if err != nil || webhook.Path == "" {
		return "", fmt.Errorf("%w: webhook_url %q", ErrServer, created.WebhookURL)
	}
	return webhook.RequestURI(), nil
}

// CreateSubscription forwards every event of the run's connection to a URL and returns the secret that forwards are
// signed with.
func (a *API) CreateSubscription(ctx context.Context, provider, forwardURL string) (signingSecret string, err error) {
	var created struct {
		ID            string `json:"id"`
		SigningSecret string `json:"signing_secret"`
	}
	err = a.create(ctx, "/webhook-subscriptions", map[string]any{
		"event_types": []string{"*"}, "forward_url": forwardURL,
		"connection_id": ConnectionID, "provider_config_key": provider,
	}, &created)
	if err != nil {
		return "", err
	}
	if created.ID == "" || created.SigningSecret == "" {
		return "", fmt.Errorf("%w: a created subscription without id or signing_secret", ErrServer)
	}
	return created.SigningSecret, nil
}

func (a *API) create(ctx context.Context, path string, resource, created any) error {
	body, err := json.Marshal(resource)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("API-Key", a.key)
	resp, err := a.client.Do(req)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	response, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%w: POST %s: response %s: %.300s", ErrServer, path, resp.Status, response)
	}
	if err := json.Unmarshal(response, created); err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	return nil
}

// SaveProfile writes the response of an admin listener to a GET of target into the file at path. The response may take
// as long as ctx.
func SaveProfile(ctx context.Context, adminAddr, target, path string) (err error) {
	client := newClient()
	client.Timeout = 0
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+adminAddr+target, http.NoBody)
	if err != nil {
		return fmt.Errorf("fetch profile: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("fetch profile: %w", err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: GET %s: response %s", ErrServer, target, resp.Status)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("save profile: %w", err)
	}
	_, err = io.Copy(file, resp.Body)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("save profile: %w", err)
	}
	return nil
}
