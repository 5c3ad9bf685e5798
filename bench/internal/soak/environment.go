//go:build linux

package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
)

// environment is one of the two that share the gateway.
type environment struct {
	name, id, key string
	// webhook is the path token of its connection.
	webhook string
	// subscriptions are by id.
	subscriptions map[string]*subscription
	receivers     []*receiver
}

// subscription is one that a run has created.
type subscription struct {
	name     string
	id       string
	receiver *receiver
	// hostile says that its receiver misbehaves at times, so that its deliveries may die.
	hostile bool
	matches func(m message) bool
}

// plan is a subscription before it exists.
type plan struct {
	name, pattern, filter string
	raw, hostile          bool
	behaviour             behaviour
	matches               func(m message) bool
}

// backlogged names the subscription behind whose receiver deliveries gather. Otherwise it is well: nothing gathers in
// memory for one whose breaker is open.
const backlogged = "steady"

func plans() []plan {
	every := func(message) bool { return true }
	return []plan{
		{name: backlogged, pattern: "*", matches: every, behaviour: accept},
		{name: "slow", pattern: "*", raw: true, matches: every, behaviour: slow},
		{name: "issues", pattern: "issues.*", hostile: true, matches: func(m message) bool { return m.kind == issue },
			behaviour: accept},
		{name: "every", pattern: "*", raw: true, hostile: true, matches: every, behaviour: accept},
		{name: "push", pattern: "push", matches: func(m message) bool { return m.kind == push }, behaviour: accept},
		{name: "odd", pattern: "*", filter: "event.body.odd == true", matches: func(m message) bool { return m.odd },
			behaviour: accept},
	}
}

// attemptTimeout is the timeout of every subscription, in milliseconds: the least that the API allows.
const attemptTimeout = 1000

// patient is the retry schedule of a receiver that recovers; brief that of one whose deliveries may die.
func patient() []float64 {
	return []float64{0.2, 0.5, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3}
}
func brief() []float64 { return []float64{0.2, 0.5, 1, 2} }

// api makes requests to one node.
type api struct {
	http    *http.Client
	address string
	// credentials set the headers that authenticate.
	credentials map[string]string
}

// errResponse is a response of the API that the run cannot go on with.
type errResponse struct {
	method, path string
	status       int
	body         []byte
}

func (e *errResponse) Error() string {
	return fmt.Sprintf("%s %s: status %d: %.300s", e.method, e.path, e.status, e.body)
}

func (a api) call(ctx context.Context, method, path string, body, out any) error {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+a.address+"/api/v1"+path, &content)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	for name, value := range a.credentials {
		req.Header.Set(name, value)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if closeErr := resp.Body.Close(); err != nil || closeErr != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return &errResponse{method, path, resp.StatusCode, text}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

func (e *environment) api(client *http.Client, address string) api {
	return api{client, address, map[string]string{"API-Key": e.key}}
}

// environments creates the second environment next to that of development mode.
func environments(ctx context.Context, client *http.Client, node *process) ([]*environment, error) {
	text, err := os.ReadFile(filepath.Join(node.cfg.Data, "dev-credentials.json"))
	if err != nil {
		return nil, err
	}
	var dev struct {
		APIKey        string `json:"api_key"`
		EnvironmentID string `json:"environment_id"`
		Email         string `json:"email"`
		Password      string `json:"password"`
	}
	if err := json.Unmarshal(text, &dev); err != nil {
		return nil, err
	}
	first := &environment{name: "first", id: dev.EnvironmentID, key: dev.APIKey}
	second := &environment{name: "second"}
	user := api{http: client, address: node.cfg.Listen}
	var session struct {
		AccessToken string `json:"access_token"`
	}
	if err := user.call(ctx, http.MethodPost, "/team/login", map[string]any{"email": dev.Email,
		"password": dev.Password}, &session); err != nil {
		return nil, err
	}
	user.credentials = map[string]string{"Authorization": "Bearer " + session.AccessToken}
	var created struct{ ID, Key string }
	if err := user.call(ctx, http.MethodPost, "/team/environments", map[string]any{"name": second.name},
		&created); err != nil {
		return nil, err
	}
	second.id = created.ID
	if err := user.call(ctx, http.MethodPost, "/api-keys", map[string]any{"name": "soak", "environment_id": second.id,
		"grants": []map[string]any{{"effect": "allow", "routes": []string{"webhooks", "events", "events:write",
			"connections"}, "connections": []string{"*"}}}}, &created); err != nil {
		return nil, err
	}
	second.key = created.Key
	return []*environment{first, second}, nil
}

// populate creates the environment's connection, receivers and subscriptions. hosts numbers the receivers; fans is how
// many more subscriptions match events that fan out.
func (e *environment) populate(ctx context.Context, a api, secret string, hosts *int, fans int) error {
	var connection struct {
		WebhookURL string `json:"webhook_url"`
	}
	if err := a.call(ctx, http.MethodPost, "/connections", map[string]any{"provider": "github", "connection_id": e.name,
		"webhook_secret": secret, "webhook": map[string]any{"redeliver_on_duplicate": false}}, &connection); err != nil {
		return err
	}
	webhook, err := url.Parse(connection.WebhookURL)
	if err != nil {
		return err
	}
	e.webhook = path.Base(webhook.Path)
	e.subscriptions = map[string]*subscription{}
	all := plans()
	for i := range fans {
		all = append(all, plan{name: fmt.Sprintf("fan-%d", i), pattern: "fan.out", behaviour: accept,
			matches: func(m message) bool { return m.kind == fan }})
	}
	trap, err := e.receive(ctx, "trap", hosts)
	if err != nil {
		return err
	}
	var r *receiver
	for i, p := range all {
		if i <= len(plans()) { // those that fan out share the last
			if r, err = e.receive(ctx, p.name, hosts); err != nil {
				return err
			}
			r.trap = trap.url
			r.behave(p.behaviour)
		}
		if err := e.subscribe(ctx, a, p, r); err != nil {
			return err
		}
	}
	return nil
}

func (e *environment) receive(ctx context.Context, name string, hosts *int) (*receiver, error) {
	*hosts++
	r, err := newReceiver(ctx, e.id, name, *hosts)
	if err != nil {
		return nil, err
	}
	e.receivers = append(e.receivers, r)
	return r, nil
}

func (e *environment) subscribe(ctx context.Context, a api, p plan, r *receiver) error {
	body := map[string]any{"event_types": []string{p.pattern}, "forward_url": r.url, "timeout_ms": attemptTimeout,
		"retry_schedule_seconds": patient(), "description": p.name}
	if p.hostile {
		body["retry_schedule_seconds"] = brief()
	}
	if p.raw {
		body["payload_mode"] = "raw"
	}
	if p.filter != "" {
		body["filter"] = p.filter
	}
	var created struct {
		ID            string `json:"id"`
		SigningSecret string `json:"signing_secret"`
	}
	if err := a.call(ctx, http.MethodPost, "/webhook-subscriptions", body, &created); err != nil {
		return err
	}
	e.subscriptions[created.ID] = &subscription{name: p.name, id: created.ID, receiver: r, hostile: p.hostile,
		matches: p.matches}
	return r.expect(created.ID, created.SigningSecret)
}
