package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"sallyport/internal/platform/apiclient"
)

// item is what the story orders.
const item = "a lamp"

// execution is an execution of an action, as far as the story looks at it.
type execution struct {
	ID       string          `json:"execution_id"`
	Status   string          `json:"status"`
	Output   order           `json:"output"`
	Input    json.RawMessage `json:"input"`
	Replay   bool            `json:"idempotent_replay"`
	Attempts []struct{}      `json:"attempts"`
	Risk     struct {
		Level string `json:"level"`
	} `json:"risk"`
	Policy struct {
		Decision string `json:"decision"`
	} `json:"policy"`
	Timing struct {
		Total float64 `json:"total_ms"`
	} `json:"timing"`
}

// link connects the account at the shop.
func (s *stage) link(ctx context.Context) error {
	var c struct{ Status string }
	if err := s.create(ctx, "/connections", map[string]any{"provider": "http", "connection_id": "shop",
		"auth_mode": "bearer", "connection_config": map[string]any{"base_url": s.shop.url},
		"credentials": map[string]any{"token": s.shop.token}}, &c); err != nil {
		return err
	}
	if c.Status != "active" {
		return fmt.Errorf("the connection to the shop is %s", c.Status)
	}
	return s.writeLine("Connection http/shop holds the token of a shop's API at %s, encrypted.", s.shop.url)
}

// act orders once, with two requests.
func (s *stage) act(ctx context.Context) error {
	ask := map[string]any{"provider": "http", "connection_id": "shop", "action": "post", "idempotency_key": "order-1",
		"input": map[string]any{"path": "orders", "body": map[string]any{"item": item}}}
	var first, again execution
	if err := s.create(ctx, "/actions/execute", ask, &first); err != nil {
		return err
	}
	if first.Status != "succeeded" || first.Output != (order{1, item}) {
		return fmt.Errorf("the order is %s, and the shop returned %v", first.Status, first.Output)
	}
	if err := s.writeLine("Your software orders %s without the token: the gateway checks and signs the request, and has "+
		"the shop's response after %.1f ms.", item, first.Timing.Total); err != nil {
		return err
	}
	recorded, err := s.recorded(ctx, first.ID)
	if err != nil {
		return err
	}
	if err := s.create(ctx, "/actions/execute", ask, &again); err != nil {
		return err
	}
	if orders := len(s.shop.list()); orders != 1 || !again.Replay || again.ID != first.ID {
		return fmt.Errorf("the same request again made %d orders in place of one", orders)
	}
	return s.writeLine("The same request again, with its idempotency key, orders nothing. On record is execution %s: %s, "+
		"risk %s, %s after %d attempt.", first.ID, recorded.Policy.Decision, recorded.Risk.Level, recorded.Status,
		len(recorded.Attempts))
}

// recorded waits until the end of an execution is on record, which follows the response.
func (s *stage) recorded(ctx context.Context, executionID string) (e execution, err error) {
	for {
		a, err := s.api.Call(ctx, apiclient.Request{Method: http.MethodGet,
			Path: "/actions/executions" + apiclient.Path(executionID)})
		if err != nil {
			return e, err
		}
		if err := a.Decode(&e); err != nil {
			return e, err
		}
		if e.Status != "running" {
			return e, nil
		}
		if !s.wait(ctx) {
			return e, errors.New("the end of the execution is not on record")
		}
	}
}
