package apperr

import "encoding/json"

// Source says where a call to a provider failed.
type Source string

// The sources.
const (
	// SourceGateway: the gateway refused the call, or failed.
	SourceGateway Source = "gateway"
	// SourcePolicy: a rule of the environment refused it.
	SourcePolicy Source = "policy"
	// SourceProvider: the provider responded with an error.
	SourceProvider Source = "provider"
	// SourceNetwork: the provider did not respond.
	SourceNetwork Source = "network"
)

// Effect says whether a provider may have acted on a call that failed.
type Effect string

// The effects.
const (
	// EffectNone: it certainly did nothing.
	EffectNone Effect = "none"
	// EffectUnknown: it may have.
	EffectUnknown Effect = "unknown"
)

// Call is what the error of a call to a provider says in addition.
type Call struct {
	Source Source
	// Retryable is true if the same call may succeed later.
	Retryable bool
	// ExecutionID is the id of the execution; empty if there is none.
	ExecutionID string
	Effect      Effect
	Attempts    []CallAttempt
	// Upstream is the provider's response; nil without one.
	Upstream *CallUpstream
	// Policy is what the rules of the environment decided; nil before they were asked.
	Policy *CallPolicy
}

// CallAttempt is one request to a provider.
type CallAttempt struct {
	// The number of the attempt, from 1.
	Number int `json:"number" example:"1"`
	// When the attempt began.
	StartedAt string `json:"started_at" format:"date-time" example:"2026-11-28T09:30:00.000Z"`
	// How long it took, in milliseconds.
	DurationMS int64 `json:"duration_ms" example:"182"`
	// The status code of the response; absent without one.
	Status int `json:"status,omitempty" example:"503"`
	// Why there is no response, or why it is not the outcome; absent for an attempt that succeeded.
	Code string `json:"code,omitempty" example:"provider_unavailable"`
	// Whether a part of the request may have reached the provider.
	Sent bool `json:"sent" example:"true"`
}

// CallUpstream is the response of a provider.
type CallUpstream struct {
	// The status code.
	Status int `json:"status" example:"200"`
	// The provider's id of the request; absent without one.
	RequestID string `json:"request_id,omitempty" example:"req_8fA2"`
	// The provider's own message about an error; absent without one.
	Message string `json:"message,omitempty" example:"Validation Failed"`
	// Headers of the response that are about its error; absent in successful responses.
	Headers map[string]string `json:"headers,omitempty"`
	// The body of an error: JSON as it is, else an object with content_type and text or base64. At most 16 KiB.
	Body json.RawMessage `json:"body,omitempty"`
	// Whether body was cut.
	BodyTruncated bool `json:"body_truncated,omitempty"`
}

// CallPolicy is what the rules of the environment decided about a call.
type CallPolicy struct {
	// The id of the decision, which is that of the call; absent where nothing is recorded.
	DecisionID string `json:"decision_id,omitempty" example:"0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11"`
	// The decision.
	Decision string `json:"decision" example:"allow" enum:"allow,deny,approval,transform"`
	// The code of the rule that decided; `default` without one.
	Code string `json:"code" example:"default"`
	// The reason that the rule gives; absent without one.
	Reason string `json:"reason,omitempty" example:"Refunds over 100 need an approval."`
	// The rules that matched.
	Rules []CallRule `json:"rules"`
}

// CallRule names a rule.
type CallRule struct {
	// The id of the rule.
	ID string `json:"id" example:"pol_01K3V8"`
	// Its name.
	Name string `json:"name" example:"refund-cap"`
}

// WithCall returns a copy of the error with what it says about a call.
func (e *Error) WithCall(c Call) *Error {
	of := *e
	of.Call = &c
	return &of
}
