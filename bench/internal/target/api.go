package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"time"
)

const (
	apiTimeout = 30 * time.Second
	// maxResponse bounds how much of an API response is read.
	maxResponse = 1 << 20
	// mostIdle is how many connections stay open between requests.
	mostIdle = 64
	// ConnectionID names the one connection of a run.
	ConnectionID = "bench"
)

// API makes the calls that set a run up, and those of an attack.
type API struct {
	base               string
	header, credential string
	// environment is the one in which a user calls; keys have their own.
	environment string
	client      *http.Client
}

// Credentials are those of the user that development mode creates.
type Credentials struct{ Email, Password string }

// StreamPath is the path of the stream below the API's.
const StreamPath = "/webhook-events/stream"

// Stream returns the request target of the stream of events, and the key that opens it.
func (a *API) Stream() (path, key string, err error) {
	base, err := url.Parse(a.base)
	if err != nil {
		return "", "", fmt.Errorf("the API's URL: %w", err)
	}
	return base.Path + StreamPath, a.credential, nil
}

// NewAPI returns an API under a base URL that ends in the API's path prefix.
func NewAPI(base, key string) *API {
	return &API{base: base, header: "API-Key", credential: key, client: newClient()}
}

// newClient returns a client that goes to its address and nowhere else: no proxy, no redirect.
func newClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: mostIdle},
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

// Subscribe creates a subscription to all events of the environment, with further fields, and returns its id.
func (a *API) Subscribe(ctx context.Context, forwardURL string, fields map[string]any) (id string, err error) {
	resource := map[string]any{"event_types": []string{"*"}, "forward_url": forwardURL}
	maps.Copy(resource, fields)
	var created struct{ ID string }
	err = a.create(ctx, "/webhook-subscriptions", resource, &created)
	return created.ID, err
}

// create makes a resource, which the response describes.
func (a *API) create(ctx context.Context, path string, resource, created any) error {
	status, response, err := a.Do(ctx, http.MethodPost, path, resource)
	if err != nil {
		return err
	}
	if status != http.StatusCreated {
		return fmt.Errorf("%w: POST %s: status %d: %.300s", ErrServer, path, status, response)
	}
	if err := json.Unmarshal(response, created); err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	return nil
}

// Do makes a request and returns the status and the beginning of the response, any status. A body that is not nil is
// sent as JSON.
func (a *API) Do(ctx context.Context, method, path string, body any) (status int, response []byte, err error) {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
		}
		content = bytes.NewReader(text)
	}
	return a.send(ctx, method, path, "application/json", content)
}

func (a *API) send(ctx context.Context, method, path, contentType string, content io.Reader) (status int,
	response []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, content)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set(a.header, a.credential)
	if a.environment != "" {
		req.Header.Set("Environment-Id", a.environment)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	response, err = io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body) // so that the connection is used again
	}
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return 0, nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	return resp.StatusCode, response, nil
}

// WithKeyOf returns an API at this address with the credential of another.
func (a *API) WithKeyOf(other *API) *API {
	return &API{base: a.base, header: other.header, credential: other.credential, client: other.client}
}

// CreateEnvironment creates another environment as the user that development mode has created, and returns what calls
// the gateway with a key of it.
func (a *API) CreateEnvironment(ctx context.Context, user Credentials, name string) (*API, error) {
	key, _, err := a.CreateCatalog(ctx, user, name)
	return key, err
}

// CreateCatalog is CreateEnvironment and also returns what calls the gateway as the user, who may import documents into
// the environment.
func (a *API) CreateCatalog(ctx context.Context, user Credentials, name string) (key, member *API, err error) {
	var session struct {
		AccessToken string `json:"access_token"`
	}
	status, response, err := a.Do(ctx, http.MethodPost, "/team/login",
		map[string]any{"email": user.Email, "password": user.Password})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%w: sign-in: status %d: %.300s", ErrServer, status, response)
	}
	if err == nil {
		err = json.Unmarshal(response, &session)
	}
	if err != nil {
		return nil, nil, err
	}
	member = &API{base: a.base, header: "Authorization", credential: "Bearer " + session.AccessToken, client: a.client}
	var environment struct{ ID string }
	if err := member.create(ctx, "/team/environments", map[string]any{"name": name}, &environment); err != nil {
		return nil, nil, err
	}
	member.environment = environment.ID
	var created struct{ Key string }
	err = member.create(ctx, "/api-keys", map[string]any{"name": name, "environment_id": environment.ID,
		"grants": []map[string]any{{"routes": []string{"webhooks", "connections", "events", "catalog"}}}}, &created)
	return NewAPI(a.base, created.Key), member, err
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
