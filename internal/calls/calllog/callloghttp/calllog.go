// Package callloghttp serves the call log over HTTP.
package callloghttp

import (
	"context"
	"net/http"
	"time"

	"sallyport/internal/calls/calllog"
	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/module"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
	"sallyport/internal/providers/risk"
)

// Module returns the module of the call log with its operations.
func Module(l *calllog.Log) module.Module {
	m := l.Module()
	m.Mount = func(api *httpapi.API) { mount(api, l) }
	return m
}

const decisionsPath = "/governance/policies/decisions"

type handlers struct{ log *calllog.Log }

// mount adds the operations on calls to the API.
func mount(api *httpapi.API, l *calllog.Log) {
	h := &handlers{l}
	httpapi.RegisterList(api, httpapi.Operation{
		ID: "list-decisions", Method: http.MethodGet, Path: decisionsPath, Status: http.StatusOK, Tag: "Governance",
		Permission: access.CallsRead, Environment: true, Summary: "List decisions about calls",
		Description: "Lists the calls to providers that the rules of the environment decided on, newest first: who asked " +
			"for what, what was decided, and how the call ended. Calls are kept for 90 days.",
	}, httpapi.List[listInput, calllog.Call, decision]{Rows: h.list, View: view,
		Key: func(c *calllog.Call) string { return c.ID }, IsKey: id.IsUUID})
	httpapi.Register(api, httpapi.Operation{
		ID: "get-decision", Method: http.MethodGet, Path: decisionsPath + "/{id}", Status: http.StatusOK, Tag: "Governance",
		Permission: access.CallsRead, Environment: true, Summary: "Get a decision about a call",
		Description: "Returns a call to a provider with what was decided about it.",
	}, h.get)
}

type listInput struct {
	page.Query
	// Only calls at these provider configurations.
	Provider []string `query:"provider,explode" minLength:"1" maxLength:"63" maxItems:"50" example:"github"`
	// Only calls with these connections.
	ConnectionID []string `query:"connection_id,explode" minLength:"1" maxLength:"255" maxItems:"50" example:"acme-production"`
	// Only calls of these actions.
	Action []string `query:"action,explode" minLength:"1" maxLength:"48" maxItems:"50" example:"create_issue"`
	// Only calls of these executions.
	ExecutionID []string `query:"execution_id,explode" pattern:"^[0-9a-f-]{36}$" maxItems:"50" example:"0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11"`
	// Only calls that these users, API keys or parts of the service asked for, by their ids.
	PrincipalID []string `query:"principal_id,explode" minLength:"1" maxLength:"100" maxItems:"50" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// Only calls about which this was decided.
	Effect []gateway.Effect `query:"effect,explode" maxItems:"10" example:"deny"`
	// Only calls that ended like this.
	Outcome []gateway.Outcome `query:"outcome,explode" maxItems:"10" example:"failed"`
	// Only calls of these levels of risk.
	Risk []risk.Level `query:"risk,explode" maxItems:"10" example:"critical"`
	// Only calls at this time or later.
	After patch.Optional[httpapi.Time] `query:"after" example:"2026-11-02T09:30:00.000Z"`
	// Only calls before this time.
	Before patch.Optional[httpapi.Time] `query:"before" example:"2026-11-03T09:30:00.000Z"`
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]calllog.Call, error) {
	f := &calllog.Filter{ConfigKeys: in.Provider, ConnectionIDs: in.ConnectionID, Actions: in.Action,
		ExecutionIDs: in.ExecutionID, PrincipalIDs: in.PrincipalID, Effects: in.Effect, Outcomes: in.Outcome,
		Risks: in.Risk}
	if t := in.After.Pointer(); t != nil {
		f.After = time.Time(*t)
	}
	if t := in.Before.Pointer(); t != nil {
		f.Before = time.Time(*t)
	}
	return h.log.List(ctx, access.From(ctx).Environment, f, p)
}

type itemInput struct {
	// The id of the decision.
	ID string `path:"id" example:"0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11"`
}

type itemOutput struct{ Body decision }

func (h *handlers) get(ctx context.Context, in *itemInput) (*itemOutput, error) {
	c, err := h.log.Get(ctx, access.From(ctx).Environment, in.ID)
	if err != nil {
		return nil, err
	}
	return &itemOutput{view(ctx, &c)}, nil
}

// decision is the wire form of a call.
type decision struct {
	// The id of the decision, which is that of the call.
	ID string `json:"decision_id" example:"0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11"`
	// The execution that the call belongs to.
	ExecutionID string `json:"execution_id" example:"0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11"`
	// When the call was asked for.
	Time httpapi.Time `json:"time" example:"2026-11-28T09:30:00.000Z"`
	// The caller.
	Principal principal `json:"principal"`
	// By which way it was asked for.
	Via gateway.Via `json:"via" example:"execute"`
	// The key of the provider configuration.
	Provider string `json:"provider" example:"github"`
	// The id of the connection.
	ConnectionID string `json:"connection_id" example:"acme-production"`
	// The name of the action.
	Action string `json:"action" example:"create_issue"`
	// The version of the action.
	Version string `json:"version" example:"5a1f0c9e"`
	// The method of the action's request.
	Method string `json:"method" example:"POST"`
	// The path of the action's request, with the names of its inputs.
	PathTemplate string `json:"path_template" example:"/repos/{owner}/{repo}/issues"`
	// How much harm the action can do.
	Risk risk.Level `json:"risk" example:"medium"`
	// The kind of operation.
	Operation risk.Operation `json:"operation" example:"create"`
	// Further properties of the action.
	Flags []risk.Flag `json:"flags" example:"[\"notifies_people\"]"`
	// The decision.
	Effect gateway.Effect `json:"effect" example:"allow"`
	// The code of the rule that decided; `default` without one.
	Code string `json:"code" example:"default"`
	// The reason that the rule gives; empty without one.
	Reason string `json:"reason" example:""`
	// The rules that matched.
	Rules []apperr.CallRule `json:"rules"`
	// How the call ended.
	Outcome gateway.Outcome `json:"outcome" example:"succeeded"`
	// The code of the error; empty for a call that did not fail.
	ErrorCode string `json:"error_code" example:""`
	// The status of the provider's last response; `null` without one.
	UpstreamStatus *int64 `json:"upstream_status" nullable:"true" example:"201"`
	// How many requests were made.
	Attempts int64 `json:"attempts" example:"1"`
	// The durations of the parts of the call.
	Timing timing `json:"timing"`
	// The id of the request to the gateway.
	RequestID string `json:"request_id"`
}

// principal is the caller.
type principal struct {
	// The kind.
	Type access.Kind `json:"type" example:"api_key"`
	// The id.
	ID string `json:"id" example:"key_06dyxk8z3pk6n5q1v7wc4t2m9r"`
	// The name at that time.
	Name string `json:"name" example:"billing service"`
}

// timing is what the parts of a call took, in milliseconds.
type timing struct {
	// The time in which the rules were asked.
	PolicyMS float64 `json:"policy_ms" example:"0.02"`
	// The time until the credentials could be used.
	CredentialMS float64 `json:"credential_ms" example:"0.04"`
	// The time in which requests to the provider were in progress.
	UpstreamMS float64 `json:"upstream_ms" example:"181.4"`
	// The whole time.
	TotalMS float64 `json:"total_ms" example:"182.3"`
}

func view(_ context.Context, c *calllog.Call) decision {
	ms := func(micros int64) float64 { return float64(micros) / 1000 }
	out := decision{ID: c.ID, ExecutionID: c.ExecutionID, Time: httpapi.Time(c.Time),
		Principal: principal{c.PrincipalType, c.PrincipalID, c.PrincipalName}, Via: c.Via, Provider: c.ConfigKey,
		ConnectionID: c.ConnectionID, Action: c.Action, Version: c.Version, Method: c.Method, PathTemplate: c.PathTemplate,
		Risk: c.Risk, Operation: c.Operation, Flags: c.Flags, Effect: c.Effect, Code: c.Code, Reason: c.Reason,
		Rules: c.Rules, Outcome: c.Outcome, ErrorCode: c.ErrorCode, Attempts: c.Attempts, RequestID: c.RequestID,
		Timing: timing{ms(c.Timing.Policy), ms(c.Timing.Credentials), ms(c.Timing.Upstream), ms(c.Timing.Total)}}
	if c.UpstreamStatus != 0 {
		out.UpstreamStatus = &c.UpstreamStatus
	}
	return out
}
