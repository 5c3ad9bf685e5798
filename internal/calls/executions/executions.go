// Package executions runs actions for callers and keeps what came of them: their states, results and idempotency keys.
// See README.md.
package executions

import (
	"encoding/json"
	"time"

	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/risk"
)

// Status is the state of an execution.
type Status string

// The statuses.
const (
	// Running executions are being carried out.
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed"
	// Denied executions were refused by a rule of the environment.
	Denied Status = "denied"
)

// statuses returns every status.
func statuses() []Status { return []Status{Running, Succeeded, Failed, Denied} }

// Schema returns the schema with the statuses, for the API.
func (Status) Schema(oas.Registry) *oas.Schema { return oas.Enum(statuses()) }

// Limits of an execution.
const (
	// defaultTimeout is the time of a call that names none.
	defaultTimeout = 30 * time.Second
	// keyLifetime is how long an idempotency key is remembered.
	keyLifetime = 24 * time.Hour
	// outputLifetime is how long outputs are kept, and largeOutputLifetime how long those are that were too large to be
	// returned.
	outputLifetime, largeOutputLifetime = 7 * 24 * time.Hour, 24 * time.Hour
	// MaxMetadata bounds what a caller attaches, in bytes of JSON.
	MaxMetadata = 16 << 10
	// MaxInput bounds an input, in bytes of JSON.
	MaxInput = 16 << 20
	// maxStoredInput is how much of an input is stored.
	maxStoredInput = 64 << 10
	// keep is how long executions are kept.
	keep = 30 * 24 * time.Hour
	// leaseMargin is how long after the end of its time an execution may still be stored by the process that carries it
	// out.
	leaseMargin = time.Minute
)

// Execution is an action that a caller has asked for, with what came of it.
type Execution struct {
	// ID is a UUIDv7, that of its first call.
	ID            string
	Environment   id.Environment
	PrincipalType access.Kind
	PrincipalID   string
	// ConfigKey is the key of the provider configuration, and Provider the slug of its provider.
	ConfigKey, Provider          string
	ConnectionID, ConnectionUUID string
	Action, Version              string
	Status                       Status
	// ErrorCode is that of the error; empty without one.
	ErrorCode string
	CreatedAt time.Time
	// FinishedAt and LeaseUntil are zero before the end and after it.
	FinishedAt, LeaseUntil time.Time
	State                  State
	// Input is the input without secrets; nil if it was too large to be kept.
	Input json.RawMessage
	// Output is that of the provider as a value of JSON; nil if there is none, or if it is not kept.
	Output json.RawMessage
	// OutputUntil is when Output is deleted; zero if it is not kept.
	OutputUntil time.Time

	sealedInput, sealedOutput []byte
}

// State is what is known about an execution and stored as JSON.
type State struct {
	Writes   bool                 `json:"writes,omitempty"`
	Keyed    bool                 `json:"keyed,omitempty"`
	Risk     Risk                 `json:"risk"`
	Policy   *apperr.CallPolicy   `json:"policy,omitempty"`
	Attempts []apperr.CallAttempt `json:"attempts,omitempty"`
	Upstream *apperr.CallUpstream `json:"upstream,omitempty"`
	Timing   Timing               `json:"timing"`
	Error    *Failure             `json:"error,omitempty"`
	Metadata json.RawMessage      `json:"metadata,omitempty"`
	Context  *Context             `json:"context,omitempty"`
	// Truncated says that the output is not complete, and Large that the rest of it is kept for a while.
	Truncated bool `json:"truncated,omitempty"`
	Large     bool `json:"large,omitempty"`
}

// Risk is the risk of an execution as it was decided on.
type Risk struct {
	Level      risk.Level     `json:"level"`
	Operation  risk.Operation `json:"operation"`
	Flags      []risk.Flag    `json:"flags"`
	Reasons    []string       `json:"reasons"`
	Source     risk.Source    `json:"source"`
	Confidence float64        `json:"confidence"`
}

// Timing says what the parts of an execution took, in milliseconds.
type Timing struct {
	Policy     float64 `json:"policy_ms"`
	Credential float64 `json:"credential_ms"`
	Upstream   float64 `json:"upstream_ms"`
	Total      float64 `json:"total_ms"`
}

// Failure is the error of an execution.
type Failure struct {
	Code         apperr.Code     `json:"code"`
	Message      string          `json:"message"`
	Source       apperr.Source   `json:"source"`
	Retryable    bool            `json:"retryable"`
	RetryAfterMS int64           `json:"retry_after_ms,omitempty"`
	Effect       apperr.Effect   `json:"effect"`
	Details      []apperr.Detail `json:"details,omitempty"`
}

// Context is what a caller says about an execution. It is recorded, and nothing is decided on it.
type Context struct {
	AgentID string `json:"agent_id,omitempty"`
	User    string `json:"user,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// columns binds the columns of a row.
func columns(e *Execution) db.Columns {
	return db.Columns{
		db.Col("id", &e.ID),
		db.Col("environment_id", &e.Environment),
		db.Col("principal_type", &e.PrincipalType),
		db.Col("principal_id", &e.PrincipalID),
		db.Col("provider_config_key", &e.ConfigKey),
		db.Col("provider", &e.Provider),
		db.Col("connection_id", &e.ConnectionID),
		db.Col("connection_uuid", &e.ConnectionUUID),
		db.Col("action", &e.Action),
		db.Col("version", &e.Version),
		db.Col("status", &e.Status),
		db.Col("error_code", &e.ErrorCode),
		db.Col("created_ms", db.Millis(&e.CreatedAt)),
		db.Col("finished_ms", zeroMillis{&e.FinishedAt}),
		db.Col("lease_ms", zeroMillis{&e.LeaseUntil}),
		db.Col("state", db.JSON(&e.State)),
		db.Col("input", &e.sealedInput),
		db.Col("output", &e.sealedOutput),
		db.Col("output_until_ms", zeroMillis{&e.OutputUntil}),
	}
}

const table = "executions"

func inputAD(executionID string) secretbox.AD {
	return secretbox.AD{Table: table, Column: "input", RowID: executionID}
}

func outputAD(executionID string) secretbox.AD {
	return secretbox.AD{Table: table, Column: "output", RowID: executionID}
}

// begun returns the execution of a call that has not ended.
func begun(c *gateway.Call, x *extension) *Execution {
	p := &c.Request.Principal
	e := &Execution{ID: c.ExecutionID(), Environment: c.Environment(), PrincipalType: p.Kind, PrincipalID: p.ID,
		ConfigKey: c.Request.ConfigKey, Provider: c.Target.Provider.Definition.Slug,
		ConnectionID: c.Connected.ConnectionID, ConnectionUUID: c.Connected.UUID, Action: c.Target.Name,
		Version: c.Target.Version, Status: Running, CreatedAt: c.Time, Input: x.input}
	e.LeaseUntil = c.Time.Add(c.Request.Timeout + leaseMargin)
	e.State = State{Writes: c.Writes(), Keyed: x.key != "", Metadata: x.metadata, Context: x.context,
		Attempts: c.Attempts, Risk: Risk{Level: c.Risk.Level, Operation: c.Risk.Operation, Flags: c.Risk.Flags,
			Reasons: c.Risk.Reasons, Source: c.Risk.Source, Confidence: c.Risk.Confidence}}
	if e.State.Risk.Flags == nil {
		e.State.Risk.Flags = []risk.Flag{}
	}
	if c.Decision.Effect != "" {
		e.State.Policy = c.Policy()
	}
	return e
}

// present returns the execution of a call as it is at this moment.
func present(c *gateway.Call, x *extension) *Execution {
	e := begun(c, x)
	if c.Outcome == gateway.Running {
		return e
	}
	e.LeaseUntil, e.FinishedAt = time.Time{}, c.Ended
	t := c.Timing
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	e.State.Timing = Timing{ms(t.Policy), ms(t.Credentials), ms(t.Upstream), ms(t.Total)}
	switch c.Outcome {
	case gateway.Succeeded:
		e.Status = Succeeded
		e.addResult(c, x)
		return e
	case gateway.Denied:
		e.Status = Denied
	default:
		e.Status = Failed
	}
	if f := c.Failure; f != nil {
		e.ErrorCode = string(f.Code)
		e.State.Upstream = f.Call.Upstream
		e.State.Error = &Failure{Code: f.Code, Message: f.Message, Source: f.Call.Source, Retryable: f.Call.Retryable,
			RetryAfterMS: f.RetryAfter.Milliseconds(), Effect: f.Call.Effect, Details: f.Details}
	}
	return e
}

// addResult adds the provider's response. Outputs are kept of calls that write or have a key, and large ones for a day.
func (e *Execution) addResult(c *gateway.Call, x *extension) {
	r := c.Result
	e.State.Upstream = &apperr.CallUpstream{Status: r.Status, RequestID: r.RequestID}
	e.Output, e.State.Truncated = r.Output, r.Truncated
	switch {
	case r.Full != nil:
		e.State.Large = true
		e.OutputUntil = c.Ended.Add(largeOutputLifetime)
	case c.Writes() || x.key != "":
		e.OutputUntil = c.Ended.Add(outputLifetime)
	}
}
