// Package calllog keeps one row for each governed call to a provider: who asked, what was decided, and what happened.
// See README.md.
package calllog

import (
	"context"
	"fmt"
	"time"

	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/page"
	"sallyport/internal/providers/risk"
)

// Call is a call as it is stored.
type Call struct {
	// ID is a UUIDv7. ExecutionID is the id of the execution that the call belongs to.
	ID, ExecutionID string
	Environment     id.Environment
	Time            time.Time
	// PrincipalType, PrincipalID and PrincipalName are those of the caller, as they were then.
	PrincipalType access.Kind
	PrincipalID   string
	PrincipalName string
	Via           gateway.Via
	// ConfigKey is the key of the provider configuration, and Provider the slug of its provider.
	ConfigKey, Provider string
	ConnectionID        string
	ConnectionUUID      string
	Action, Version     string
	// Method and PathTemplate are those of the action's request.
	Method, PathTemplate string
	Risk                 risk.Level
	Operation            risk.Operation
	Flags                []risk.Flag
	Effect               gateway.Effect
	// Code is that of the rule that decided, and Reason what it says.
	Code, Reason string
	Rules        []apperr.CallRule
	Outcome      gateway.Outcome
	// ErrorCode is that of the error; empty for a call that did not fail.
	ErrorCode string
	// UpstreamStatus is the status of the last response; 0 without one.
	UpstreamStatus int64
	Attempts       int64
	Timing         Timing
	RequestID      string
}

// Timing is what the stages took, in microseconds.
type Timing struct {
	Policy      int64 `json:"policy"`
	Credentials int64 `json:"credentials"`
	Upstream    int64 `json:"upstream"`
	Total       int64 `json:"total"`
}

// columns binds the columns of a row.
func columns(c *Call) db.Columns {
	return db.Columns{
		db.Col("id", &c.ID),
		db.Col("environment_id", &c.Environment),
		db.Col("execution_id", &c.ExecutionID),
		db.Col("time_ms", db.Millis(&c.Time)),
		db.Col("principal_type", &c.PrincipalType),
		db.Col("principal_id", &c.PrincipalID),
		db.Col("principal_name", &c.PrincipalName),
		db.Col("via", &c.Via),
		db.Col("provider_config_key", &c.ConfigKey),
		db.Col("provider", &c.Provider),
		db.Col("connection_id", &c.ConnectionID),
		db.Col("connection_uuid", &c.ConnectionUUID),
		db.Col("action", &c.Action),
		db.Col("version", &c.Version),
		db.Col("method", &c.Method),
		db.Col("path_template", &c.PathTemplate),
		db.Col("risk", &c.Risk),
		db.Col("operation", &c.Operation),
		db.Col("flags", db.JSON(&c.Flags)),
		db.Col("effect", &c.Effect),
		db.Col("code", &c.Code),
		db.Col("reason", &c.Reason),
		db.Col("rules", db.JSON(&c.Rules)),
		db.Col("outcome", &c.Outcome),
		db.Col("error_code", &c.ErrorCode),
		db.Col("upstream_status", &c.UpstreamStatus),
		db.Col("attempts", &c.Attempts),
		db.Col("timing", db.JSON(&c.Timing)),
		db.Col("request_id", &c.RequestID),
	}
}

// storeCalls stores calls, those that have ended in place of their intents.
var storeCalls = &db.MultiRow{ //nolint:gochecknoglobals // a constant statement
	Before: "INSERT INTO calls (" + columns(new(Call)).Names() + ")",
	Types: []string{"text", "text", "text", "bigint", "text", "text", "text", "text", "text", "text", "text", "text",
		"text", "text", "text", "text", "text", "text", "text", "text", "text", "text", "text", "text", "text", "bigint",
		"bigint", "text", "text"},
	After: `ON CONFLICT (id) DO UPDATE SET outcome = excluded.outcome, error_code = excluded.error_code,
		upstream_status = excluded.upstream_status, attempts = excluded.attempts, timing = excluded.timing`,
}

// rowOf returns the row of a call as it is at this moment.
func rowOf(c *gateway.Call) *Call {
	r, d, p := &c.Request, &c.Decision, &c.Request.Principal
	out := &Call{ID: c.ID, ExecutionID: c.ExecutionID(), Environment: c.Environment(), Time: c.Time, PrincipalType: p.Kind,
		PrincipalID: p.ID, PrincipalName: p.Name, Via: r.Via, ConfigKey: r.ConfigKey,
		Provider: c.Target.Provider.Definition.Slug, ConnectionID: c.Connected.ConnectionID,
		ConnectionUUID: c.Connected.UUID, Action: c.Target.Name, Version: c.Target.Version, Method: c.Target.Method,
		PathTemplate: c.Target.Path, Risk: c.Risk.Level, Operation: c.Risk.Operation, Flags: c.Risk.Flags,
		Effect: d.Effect, Code: d.Code, Reason: d.Reason, Rules: d.Rules, Outcome: c.Outcome,
		Attempts: int64(len(c.Attempts)), RequestID: p.RequestID, Timing: Timing{Policy: c.Timing.Policy.Microseconds(),
			Credentials: c.Timing.Credentials.Microseconds(), Upstream: c.Timing.Upstream.Microseconds(),
			Total: c.Timing.Total.Microseconds()}}
	if out.Flags == nil {
		out.Flags = []risk.Flag{}
	}
	if out.Rules == nil {
		out.Rules = []apperr.CallRule{}
	}
	if n := len(c.Attempts); n > 0 {
		out.UpstreamStatus = int64(c.Attempts[n-1].Status)
	}
	if c.Failure != nil {
		out.ErrorCode = string(c.Failure.Code)
	}
	return out
}

// Filter narrows a list. A call must match one value of each field; an empty field does not restrict.
type Filter struct {
	ConfigKeys, ConnectionIDs, Actions, ExecutionIDs, PrincipalIDs []string

	Effects  []gateway.Effect
	Outcomes []gateway.Outcome
	Risks    []risk.Level
	// After and Before restrict the time of the call; zero for none.
	After, Before time.Time
}

// List returns a page of the calls of an environment, and one row more if another page follows. It takes turns among
// the lists of the environment.
func (l *Log) List(ctx context.Context, env id.Environment, f *Filter, p page.Request) ([]Call, error) {
	w := new(db.Where).And("environment_id = ?", string(env))
	db.AnyOf(w, "provider_config_key", f.ConfigKeys)
	db.AnyOf(w, "connection_id", f.ConnectionIDs)
	db.AnyOf(w, "action", f.Actions)
	db.AnyOf(w, "execution_id", f.ExecutionIDs)
	db.AnyOf(w, "principal_id", f.PrincipalIDs)
	db.AnyOf(w, "effect", f.Effects)
	db.AnyOf(w, "outcome", f.Outcomes)
	db.AnyOf(w, "risk", f.Risks)
	if !f.After.IsZero() {
		w.And("id >= ?", id.FirstUUID(f.After))
	}
	if !f.Before.IsZero() {
		w.And("id < ?", id.FirstUUID(f.Before))
	}
	tail := w.Page("id", p)
	list, err := db.Listed(ctx, l.cfg.DB, string(env), func(ctx context.Context, q db.Querier) ([]Call, error) {
		return db.All(ctx, q, columns, "FROM calls", w, tail)
	})
	if err != nil {
		return nil, fmt.Errorf("list calls: %w", err)
	}
	return list, nil
}

// Get returns a call of an environment, or not_found.
func (l *Log) Get(ctx context.Context, env id.Environment, callID string) (Call, error) {
	if !id.IsUUID(callID) {
		return Call{}, apperr.NotFound("decision")
	}
	c, found, err := db.One(ctx, l.cfg.DB.Read(), columns, "FROM calls",
		new(db.Where).And("environment_id = ?", string(env)).And("id = ?", callID), "")
	switch {
	case err != nil:
		return Call{}, fmt.Errorf("read a call: %w", err)
	case !found:
		return Call{}, apperr.NotFound("decision")
	}
	return c, nil
}
