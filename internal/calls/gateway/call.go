// Package gateway is the one way to providers: every call goes through its stages, from who asks to the record of what
// happened. See README.md.
package gateway

import (
	"encoding/json"
	"net/http"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/platform/id"
	"sallyport/internal/providers/catalog"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/rendering"
	"sallyport/internal/providers/risk"
	"sallyport/internal/providers/schemas"
)

// Via says by which way a call was asked for.
type Via string

// ViaExecute is the way of actions that a caller waits for.
const ViaExecute Via = "execute"

// vias returns every way.
func vias() []Via { return []Via{ViaExecute} }

// Schema returns the schema with the ways, for the API.
func (Via) Schema(oas.Registry) *oas.Schema { return oas.Enum(vias()) }

// Effect is what the rules of an environment decide about a call.
type Effect string

// The effects.
const (
	Allow     Effect = "allow"
	Deny      Effect = "deny"
	Approval  Effect = "approval"
	Transform Effect = "transform"
)

// effects returns every effect.
func effects() []Effect { return []Effect{Allow, Deny, Approval, Transform} }

// Schema returns the schema with the effects, for the API.
func (Effect) Schema(oas.Registry) *oas.Schema { return oas.Enum(effects()) }

// Outcome is how a call ended.
type Outcome string

// The outcomes.
const (
	// Running: it has not ended yet.
	Running   Outcome = "running"
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"
	Denied    Outcome = "denied"
	// OutcomeUnknown: the process ended between the request and the response, so the provider may have acted.
	OutcomeUnknown Outcome = "outcome_unknown"
)

// outcomes returns every outcome.
func outcomes() []Outcome { return []Outcome{Running, Succeeded, Failed, Denied, OutcomeUnknown} }

// Schema returns the schema with the outcomes, for the API.
func (Outcome) Schema(oas.Registry) *oas.Schema { return oas.Enum(outcomes()) }

// Request asks for a call.
type Request struct {
	// Principal asks, in its environment. An API key sees the connections that its grants open.
	Principal access.Principal
	Via       Via
	// ConfigKey is the key of a provider configuration, and Connection the id of one of its connections.
	ConfigKey, Connection string
	// Action is the name of an action, and Version the version that the caller has seen; empty for any.
	Action, Version string
	// Input is a JSON object.
	Input json.RawMessage
	// Timeout is how long the call may take.
	Timeout time.Duration
}

// Call is a call on its way through the stages. Prepare makes it.
type Call struct {
	// ID is a UUIDv7. It is the id of the decision too, and that of the execution unless Execution is set.
	ID string
	// Execution is the id of an execution that an earlier call began; empty for the first call.
	Execution string
	// Time is when it was asked for, and Ended when it ended; zero before.
	Time, Ended time.Time
	Request     Request
	Target      *catalog.Action
	// Connected is the connection. It is shared and read-only.
	Connected *connections.Connection
	Input     rendering.Input
	Risk      risk.Risk
	Decision  Decision
	Attempts  []apperr.CallAttempt
	Timing    Timing
	Outcome   Outcome
	// Result is the provider's response to a call that succeeded.
	Result *Result
	// Failure is why the call did not succeed.
	Failure *apperr.Error
	// Sent reports that a part of a request may have reached the provider.
	Sent bool
	// Extension belongs to the caller of the pipeline, such as an execution.
	Extension any

	schema *schemas.Schema
	// out is the request, without credentials.
	out     outbound.Outgoing
	session *connections.Session
	began   time.Time
	// mayHaveActed reports that the provider may have acted on one of the attempts.
	mayHaveActed bool
}

// Ending returns a copy of a call that has ended, for the record: without the input, the request and the session, which
// take memory.
func (c *Call) Ending() *Call {
	out := *c
	out.Request.Input, out.Input, out.out, out.schema, out.session = nil, rendering.Input{}, outbound.Outgoing{}, nil, nil
	return &out
}

// Environment is the environment of the call.
func (c *Call) Environment() id.Environment { return c.Request.Principal.Environment }

// ExecutionID is the id of the call's execution.
func (c *Call) ExecutionID() string {
	if c.Execution != "" {
		return c.Execution
	}
	return c.ID
}

// Writes reports whether the call may change something at the provider, so that its intent is stored before it is sent
// and it is not sent again unless the provider did nothing. A call reads if its method is safe, or if more than words
// says so.
func (c *Call) Writes() bool {
	if c.Risk.Operation != risk.Read {
		return true
	}
	switch c.Target.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return c.Risk.Source != risk.FromDefinition && c.Risk.Source != risk.FromOperator && c.Target.Body.GraphQL == ""
}

// Decision is what the rules of the environment say about a call.
type Decision struct {
	Effect Effect
	// Code is that of the rule that decided, default if none did.
	Code string
	// Reason is a sentence for people; it may be empty.
	Reason string
	// Rules are those that matched.
	Rules []apperr.CallRule
}

// defaultCode is the code of a decision that no rule made.
const defaultCode = "default"

// Timing says what the stages of a call took.
type Timing struct {
	Policy, Credentials, Upstream, Total time.Duration
}

// Result is a provider's response.
type Result struct {
	Status    int
	RequestID string
	// Output is the body as a value of JSON. Truncated says that it has more, which is in Full as far as it was read.
	Output    json.RawMessage
	Truncated bool
	// Full and ContentType are the whole body and its type, where Output does not have all of it.
	Full        []byte
	ContentType string
}
