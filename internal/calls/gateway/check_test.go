package gateway_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/catalog"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/registry"
	"sallyport/internal/providers/risk"
)

// stages stand for what a pipeline asks. Calls of a connection that can be used end with errOpened, before anything is
// sent.
type stages struct {
	actions []*catalog.Action
	// problem is why the connection cannot be used; nil if it can.
	problem *apperr.Error
	// salt makes another policy, and another budget.
	salt string
	// ended are the calls that were recorded, and touched counts effects.
	ended   []*gateway.Call
	touched int
}

var errOpened = apperr.New(apperr.CodeConnectionNotReady, "opened")

func (s *stages) Knows(context.Context, id.Environment, string) error { return nil }

func (s *stages) Find(_ context.Context, _ id.Environment, key, name string) (*catalog.Action, error) {
	for _, a := range s.actions {
		if a.Key == key && a.Name == name {
			return a, nil
		}
	}
	return nil, apperr.New(apperr.CodeActionNotFound, "none")
}

// links are the connections of stages.
type links struct{ *stages }

func (links) Find(_ context.Context, v access.View, key, name string) (*connections.Connection, error) {
	if name != "acme" {
		return nil, apperr.New(apperr.CodeConnectionNotFound, "none")
	}
	return &connections.Connection{Environment: v.Environment, ProviderConfigKey: key, ConnectionID: name,
		Status: connections.Active}, nil
}

func (l links) Open(context.Context, access.Principal, *connections.Connection) (*connections.Session, error) {
	l.touched++
	if l.problem != nil {
		return nil, l.problem
	}
	return nil, errOpened
}

func (l links) Look(context.Context, access.Principal, *connections.Connection) (*connections.Readiness, error) {
	return &connections.Readiness{Problem: l.problem}, nil
}

func (s *stages) Ready() error { return nil }
func (s *stages) Begin(context.Context, *gateway.Call) error {
	s.touched++
	return nil
}
func (s *stages) End(c *gateway.Call) { s.ended = append(s.ended, c) }

// Decide is a policy that depends on all that policies can see.
func (s *stages) Decide(_ context.Context, c *gateway.Call) (gateway.Decision, error) {
	sum := sha256.Sum256([]byte(s.salt + c.Request.ConfigKey + c.Target.Name + string(c.Risk.Level) +
		string(c.Input.Raw()) + c.Request.Principal.ID + c.Connected.ConnectionID))
	if sum[1] < 16 {
		return gateway.Decision{}, apperr.Unavailable(errors.New("no policies"))
	}
	effects := []gateway.Effect{gateway.Allow, gateway.Deny, gateway.Approval, gateway.Transform}
	return gateway.Decision{Effect: effects[sum[0]%4], Code: string(rune('a' + sum[2]%26)), Reason: "salt " + s.salt,
		Rules: []apperr.CallRule{{ID: "pol_1", Name: s.salt}}}, nil
}

func (s *stages) Admit(_ context.Context, c *gateway.Call) error {
	if sha256.Sum256([]byte(s.salt + c.Target.Name))[3] < 16 {
		return apperr.New(apperr.CodeRateLimited, "The budget is used up")
	}
	return nil
}

func (s *stages) Charge(*gateway.Call) { s.touched++ }

// shipped returns the actions that ship.
func shipped(t testing.TB) (all []*catalog.Action) {
	t.Helper()
	loaded, err := registry.Builtin()
	require.NoError(t, err)
	for _, p := range loaded.List() {
		for _, a := range p.Actions {
			all = append(all, &catalog.Action{Action: a, Key: p.Definition.Slug, Provider: p, Version: p.Sum(),
				Risk: risk.Assess(&a.Call)})
		}
	}
	require.Greater(t, len(all), 500)
	return all
}

// calls is how many calls are checked and then made.
const calls = 10_000

// drawInput returns an input that fits the action often.
func drawInput(t *testing.T, rng *rand.Rand, a *catalog.Action) json.RawMessage {
	t.Helper()
	var schema struct {
		Properties map[string]struct{ Type any }
		Required   []string
	}
	require.NoError(t, json.Unmarshal(a.Input, &schema))
	value := func(kind any) any {
		if rng.IntN(40) == 0 {
			return []any{nil}
		}
		switch kind {
		case "integer", "number":
			return 1 + rng.IntN(50)
		case "boolean":
			return rng.IntN(2) == 0
		case "object":
			return map[string]any{}
		case "array":
			return []any{}
		default:
			return fmt.Sprintf("text%d", rng.IntN(1000))
		}
	}
	in := map[string]any{}
	for _, name := range schema.Required {
		if rng.IntN(20) > 0 {
			in[name] = value(schema.Properties[name].Type)
		}
	}
	if rng.IntN(20) == 0 {
		in["no such input"] = 1
	}
	text, err := json.Marshal(in)
	require.NoError(t, err)
	return text
}

// draw makes a policy and a state of the connection, and returns a request.
func (s *stages) draw(t *testing.T, rng *rand.Rand) gateway.Request {
	t.Helper()
	s.ended, s.touched, s.salt, s.problem = nil, 0, fmt.Sprint(rng.IntN(1000)), nil
	switch rng.IntN(4) {
	case 0:
		s.problem = apperr.New(apperr.CodeConnectionNotReady, "disabled")
	case 1:
		s.problem = apperr.New(apperr.CodeConnectionOwned, "of a member")
	}
	a := s.actions[rng.IntN(len(s.actions))]
	r := gateway.Request{Principal: access.Principal{Kind: access.KindUser, ID: "user_1", Environment: "env_1"},
		Via: gateway.ViaExecute, ConfigKey: a.Key, Connection: "acme", Action: a.Name, Input: drawInput(t, rng, a),
		Timeout: time.Second}
	switch rng.IntN(30) {
	case 0:
		r.Action = "nothing"
	case 1:
		r.Connection = "other"
	case 2:
		r.Version = "other"
	case 3:
		r.Input = json.RawMessage(`[`)
	}
	return r
}

// A check is right: for actions that ship, any input, policy and state of the connection, an execution
// right after it is decided on in the same way and ends as the check has said. A check itself has no effect.
func TestCheckAgreesWithRun(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &stages{actions: shipped(t)}
	p := gateway.New(gateway.Config{Catalog: s, Connections: links{s}, Recorder: s, Policy: s, Budgets: s,
		Clock: clock.NewManual(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))})
	seen := map[string]int{}
	for range calls {
		r := s.draw(t, rng)
		checked, refusal := p.Check(t.Context(), r)
		require.Zero(t, s.touched+len(s.ended), "a check has an effect")
		c, err := p.Prepare(t.Context(), r)
		if err == nil {
			err = p.Run(t.Context(), c)
		}
		var failed *apperr.Error
		require.ErrorAs(t, err, &failed)
		if refusal != nil {
			seen[sameRefusal(t, refusal, failed)]++
			continue
		}
		seen[s.sameEnd(t, checked, c, failed)]++
	}
	for _, state := range []string{"refused", "input", "denied", "not ready", "run"} {
		require.Greater(t, seen[state], calls/100, "few cases reached %s: %v", state, seen)
	}
}

// sameRefusal requires that a call ended as its check did.
func sameRefusal(t *testing.T, refusal error, failed *apperr.Error) string {
	t.Helper()
	var e *apperr.Error
	require.ErrorAs(t, refusal, &e)
	require.Empty(t, e.Call.ExecutionID, "it names an execution")
	if failed.Code == apperr.CodeValidation { // which is found before the rules are asked
		require.Contains(t, []apperr.Code{apperr.CodeUnavailable, apperr.CodeRateLimited}, e.Code)
		return "input"
	}
	require.Equal(t, []any{failed.Code, failed.Message}, []any{e.Code, e.Message})
	return "refused"
}

// sameEnd requires that a call ended as its check has said.
func (s *stages) sameEnd(t *testing.T, checked *gateway.Checked, c *gateway.Call, failed *apperr.Error) string {
	t.Helper()
	if len(checked.Errors) > 0 {
		require.Equal(t, apperr.CodeValidation, failed.Code)
		require.ElementsMatch(t, failed.Details, checked.Errors)
		return "input"
	}
	require.Equal(t, c.Decision, checked.Call.Decision)
	require.Equal(t, c.Risk, checked.Call.Risk)
	require.Len(t, s.ended, 1, "the call is recorded")
	switch {
	case c.Decision.Effect == gateway.Deny || c.Decision.Effect == gateway.Approval:
		require.Equal(t, apperr.CodePolicyDenied, failed.Code)
		return "denied"
	case checked.Readiness.Problem != nil:
		require.Equal(t, []any{checked.Readiness.Problem.Code, checked.Readiness.Problem.Message},
			[]any{failed.Code, failed.Message})
		return "not ready"
	default:
		require.Equal(t, errOpened.Message, failed.Message)
		return "run"
	}
}

// A check without an input decides on an empty one, and does not call it wrong.
func TestCheckWithoutInput(t *testing.T) {
	t.Parallel()
	s := &stages{actions: shipped(t)}
	p := gateway.New(gateway.Config{Catalog: s, Connections: links{s}, Recorder: s, Clock: clock.System()})
	checked, err := p.Check(t.Context(), gateway.Request{Principal: access.Principal{Kind: access.KindUser,
		Environment: "env_1"}, ConfigKey: "github", Connection: "acme",
		Action: "create_issue"})
	require.NoError(t, err)
	require.Equal(t, gateway.Allow, checked.Call.Decision.Effect)
	require.False(t, checked.InputGiven)
	require.Empty(t, checked.Errors)
	require.Equal(t, "{}", string(checked.Call.Input.Raw()))
}
