package executionshttp

import (
	"context"

	"sallyport/internal/calls/executions"
	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/providers/connections"
)

type checkInput struct {
	// The key of the provider configuration, such as the slug of a provider.
	Provider string `path:"provider" example:"github"`
	// The name of the action.
	Name string `path:"action_name" example:"create_issue"`
	Body checkBody
}

// checkBody asks what would come of an execution.
type checkBody struct {
	// The id of the connection.
	ConnectionID string `json:"connection_id" minLength:"1" maxLength:"255" example:"acme-production"`
	// The input, as for an execution. Default: none, so that only what does not depend on it is decided.
	Input httpapi.JSON `json:"input,omitempty"`
	// The version of the action that the caller has seen. Default: any version.
	Version string `json:"version,omitempty" maxLength:"200" example:"5a1f0c9e"`
	// A statement of the caller about the execution, as for an execution.
	Context *callContext `json:"context,omitempty"`
}

// check is the wire form of what would come of an execution.
type check struct {
	// The id of the check. Nothing is recorded, so there is no decision with this id.
	DecisionID string `json:"decision_id" example:"0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11"`
	// The decision of the environment's rules.
	Decision gateway.Effect `json:"decision" example:"allow"`
	// The code of the rule that decides; `default` without one.
	Code string `json:"code" example:"default"`
	// The reason that the rule gives; empty without one.
	Reason string `json:"reason" example:"Refunds over 100 need an approval."`
	// The rules that match.
	MatchedPolicies []apperr.CallRule `json:"matched_policies"`
	// Further things that are done when the call is made.
	Obligations []obligation `json:"obligations"`
	// The risk of the action as it is decided on.
	Risk executionRisk `json:"risk"`
	// The OAuth scopes of the action.
	Scopes checkScopes `json:"scopes"`
	// The connection.
	Connection checkConnection `json:"connection"`
	// The rest of the budgets that apply; `null` where none does.
	Budget value `json:"budget"`
	// The limit that the provider has named; `null` if nothing is known.
	RateLimit httpapi.OrNull[checkLimit] `json:"rate_limit"`
	// Whether the input fits the action; `null` without an input.
	InputValid *bool `json:"input_valid" nullable:"true" example:"true"`
	// All errors of the input.
	Details []apperr.Detail `json:"details"`
	// When it was decided.
	EvaluatedAt httpapi.Time `json:"evaluated_at" example:"2026-11-28T09:30:00.000Z"`
}

// obligation is what a rule adds to a call.
type obligation struct {
	// The kind of obligation.
	Type string `json:"type" example:"notify"`
}

// checkScopes is the wire form of the scopes of an action.
type checkScopes struct {
	// The scopes that permit the action: one of the lists is enough.
	Required [][]string `json:"required"`
	// Those that the connection does not have; none if the provider has not said which it has granted.
	Missing []string `json:"missing"`
}

// checkConnection is the wire form of the connection of a check.
type checkConnection struct {
	// The id of the connection.
	ConnectionID string `json:"connection_id" example:"acme-production"`
	// The status of the connection.
	Status connections.Status `json:"status" example:"active"`
	// Whether the caller can use it for calls now.
	Ready bool `json:"ready" example:"true"`
	// The error code of a call if it cannot; empty otherwise.
	Code string `json:"code" example:"connection_not_ready"`
	// A human-readable reason; empty if it can.
	Reason string `json:"reason" example:"The connection is disabled"`
}

// checkLimit is the wire form of a provider's limit.
type checkLimit struct {
	// Whether requests can be sent:
	// - `ok`: they can.
	// - `limited`: the provider wants no request until `reset_at`.
	State checkLimitState `json:"state" example:"ok"`
	// The number of requests of a whole window; `null` if the provider does not say it.
	Limit *int64 `json:"limit" example:"5000"`
	// How many of them are left; `null` if the provider does not say it.
	Remaining *int64 `json:"remaining" example:"4990"`
	// When the window ends, or requests can be sent again; `null` if it is not known or over.
	ResetAt *httpapi.Time `json:"reset_at" nullable:"true" example:"2026-12-24T18:00:00.000Z"`
}

// checkLimitState is a state of a limit.
type checkLimitState string

// Schema returns the schema with the states.
func (checkLimitState) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]checkLimitState{"ok", "limited"})
}

type checkOutput struct{ Body check }

func (h *handlers) check(ctx context.Context, in *checkInput) (*checkOutput, error) {
	b := &in.Body
	c, err := h.svc.Check(ctx, access.From(ctx), &executions.Request{ConfigKey: in.Provider, Connection: b.ConnectionID,
		Action: in.Name, Version: b.Version, Input: b.Input.Bytes()})
	if err != nil {
		return nil, err
	}
	return &checkOutput{viewCheck(c)}, nil
}

func viewCheck(c *executions.Checked) check {
	call, ready := c.Call, c.Readiness
	d, r := &call.Decision, &call.Risk
	out := check{DecisionID: call.ID, Decision: d.Effect, Code: d.Code, Reason: d.Reason,
		MatchedPolicies: append([]apperr.CallRule{}, d.Rules...), Obligations: []obligation{},
		Risk: viewRisk(r.Level, r.Operation, r.Flags, r.Reasons),
		Scopes: checkScopes{Required: append([][]string{}, call.Target.Scopes...),
			Missing: append([]string{}, c.MissingScopes...)},
		Connection: checkConnection{ConnectionID: call.Connected.ConnectionID, Status: call.Connected.Status,
			Ready: ready.Problem == nil},
		Details: append([]apperr.Detail{}, c.Errors...), EvaluatedAt: httpapi.Time(call.Time)}
	if p := ready.Problem; p != nil {
		out.Connection.Code, out.Connection.Reason = string(p.Code), p.Message
	}
	if c.InputGiven {
		out.InputValid = new(len(c.Errors) == 0)
	}
	if l := ready.RateLimit; l != nil {
		out.RateLimit.Value = &checkLimit{State: "ok"}
		if l.Limited {
			out.RateLimit.Value.State = "limited"
		}
		if l.Limit > 0 {
			out.RateLimit.Value.Limit = &l.Limit
		}
		if l.Remaining >= 0 {
			out.RateLimit.Value.Remaining = &l.Remaining
		}
		if !l.ResetAt.IsZero() {
			out.RateLimit.Value.ResetAt = new(httpapi.Time(l.ResetAt))
		}
	}
	return out
}
