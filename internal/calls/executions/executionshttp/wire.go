package executionshttp

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"sallyport/internal/calls/executions"
	"sallyport/internal/calls/gateway"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/httpapi/oas"
	"sallyport/internal/providers/risk"
)

// value is any value of JSON in a response, byte for byte as it was stored.
type value json.RawMessage

// Schema returns the schema of any value.
func (value) Schema(oas.Registry) *oas.Schema { return &oas.Schema{} }

// MarshalJSON returns the value.
func (v value) MarshalJSON() ([]byte, error) {
	if v == nil {
		return []byte("null"), nil
	}
	return v, nil
}

// execution is the wire form of an execution.
type execution struct {
	// The id of the execution; empty for a dry run, which is not stored.
	ID string `json:"execution_id" example:"0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11"`
	// The state:
	// - `running`: it is being carried out.
	// - `succeeded`: the provider has done it, and `output` is what it returned.
	// - `failed`: `error` says why.
	// - `denied`: a rule of the environment denies it.
	// - `dry_run`: `request` is what would be sent.
	Status status `json:"status" example:"succeeded"`
	// The key of the provider configuration.
	Provider string `json:"provider" example:"github"`
	// The id of the connection.
	ConnectionID string `json:"connection_id" example:"acme-production"`
	// The name of the action.
	Action string `json:"action" example:"create_issue"`
	// The version of the action that was run.
	Version string `json:"version" example:"5a1f0c9e"`
	// The body of the provider's response: JSON as it is, another text as an object of content_type and text, other bytes
	// as one of content_type and base64, and `null` for nothing.
	Output value `json:"output"`
	// Whether output is only the beginning of what the provider returned.
	OutputTruncated bool `json:"output_truncated" example:"false"`
	// Whether the output can be read later.
	OutputStored bool `json:"output_stored" example:"true"`
	// Where the whole output can be downloaded until output_expires_at; absent where output has all of it.
	OutputURL string `json:"output_url,omitempty" example:"/api/v1/actions/executions/0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11/output"`
	// When the stored output is deleted; `null` if it is not stored.
	OutputExpiresAt *httpapi.Time `json:"output_expires_at" nullable:"true" example:"2026-12-05T09:30:00.000Z"`
	// The provider's response; `null` without one.
	Upstream httpapi.OrNull[apperr.CallUpstream] `json:"upstream"`
	// The risk of the action as it was decided on.
	Risk executionRisk `json:"risk"`
	// The decision of the environment's rules; `null` before they were asked.
	Policy httpapi.OrNull[apperr.CallPolicy] `json:"policy"`
	// The requests that were made.
	Attempts []apperr.CallAttempt `json:"attempts"`
	// The durations of the parts of the call.
	Timing timing `json:"timing"`
	// The error; `null` for an execution that has not failed.
	Error httpapi.OrNull[failure] `json:"error"`
	// Whether the response is that of an earlier request with the same idempotency key.
	IdempotentReplay bool `json:"idempotent_replay" example:"false"`
	// The input, without secrets and the content of files; absent in lists and in responses to the request that had it.
	Input value `json:"input,omitempty"`
	// The caller's own object; `null` without one.
	Metadata value `json:"metadata"`
	// The caller's statement about the execution; `null` for nothing.
	Context httpapi.OrNull[callContext] `json:"context"`
	// The request that would be sent; absent unless this is a dry run.
	Request *rendered `json:"request,omitempty"`
	// When it was asked for.
	CreatedAt httpapi.Time `json:"created_at" example:"2026-11-28T09:30:00.000Z"`
	// When it ended; `null` before.
	FinishedAt *httpapi.Time `json:"finished_at" nullable:"true" example:"2026-11-28T09:30:00.182Z"`
}

// status is the wire form of a status.
type status string

const dryRun status = "dry_run"

// Schema returns the schema with the statuses.
func (status) Schema(oas.Registry) *oas.Schema {
	return oas.Enum([]status{"running", "succeeded", "failed", "denied", dryRun})
}

// executionRisk is the wire form of a risk.
type executionRisk struct {
	// How much harm the action can do.
	Level risk.Level `json:"level" example:"medium"`
	// The kind of operation.
	Operation risk.Operation `json:"operation" example:"create"`
	// Further properties of the action.
	Flags []risk.Flag `json:"flags" example:"[\"notifies_people\"]"`
	// Why, the reason that decided first.
	Reasons []string `json:"reasons"`
}

// timing is the wire form of a timing, in milliseconds.
type timing struct {
	// The time in which the rules were asked.
	PolicyMS float64 `json:"policy_ms" example:"0.02"`
	// The time until the credentials could be used, with the renewal of an expired token.
	CredentialMS float64 `json:"credential_ms" example:"0.04"`
	// The time in which requests to the provider were in progress.
	UpstreamMS float64 `json:"upstream_ms" example:"181.4"`
	// The whole time, waits included.
	TotalMS float64 `json:"total_ms" example:"182.3"`
}

// failure is the wire form of the error of an execution.
type failure struct {
	// The error code.
	Code string `json:"code" example:"provider_error"`
	// A human-readable message.
	Message string `json:"message" example:"The provider refuses the request"`
	// Where it failed.
	Source apperr.Source `json:"source" enum:"gateway,policy,provider,network" example:"provider"`
	// Whether the same call may succeed later.
	Retryable bool `json:"retryable" example:"false"`
	// After how many milliseconds it may; absent if that is not known.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty" example:"1500"`
	// Whether the provider may have acted.
	Effect apperr.Effect `json:"effect" enum:"none,unknown" example:"none"`
}

// rendered is the wire form of a request that would be sent.
type rendered struct {
	// The method.
	Method string `json:"method" example:"POST"`
	// The URL, without credentials.
	URL string `json:"url" example:"https://api.github.com/repos/acme/website/issues"`
	// The headers, without credentials.
	Headers map[string]string `json:"headers"`
	// The beginning of the body; empty for one that is not text.
	Body string `json:"body" example:"{\"title\":\"The search is slow\"}"`
	// The size of the whole body in bytes.
	BodySize int64 `json:"body_size" example:"30"`
}

func viewOf(_ context.Context, e *executions.Execution) execution { return view(e) }

func view(e *executions.Execution) execution {
	s := &e.State
	out := execution{ID: e.ID, Status: status(e.Status), Provider: e.ConfigKey, ConnectionID: e.ConnectionID,
		Action: e.Action, Version: e.Version, Output: value(e.Output), OutputTruncated: s.Truncated,
		OutputStored: !e.OutputUntil.IsZero(), Risk: viewRisk(s.Risk.Level,
			s.Risk.Operation, s.Risk.Flags, s.Risk.Reasons), Attempts: s.Attempts, Metadata: value(s.Metadata),
		CreatedAt: httpapi.Time(e.CreatedAt),
		Timing:    timing{s.Timing.Policy, s.Timing.Credential, s.Timing.Upstream, s.Timing.Total}, Input: value(e.Input)}
	if out.Attempts == nil {
		out.Attempts = []apperr.CallAttempt{}
	}
	if !e.OutputUntil.IsZero() {
		out.OutputExpiresAt = new(httpapi.Time(e.OutputUntil))
		if s.Large {
			out.OutputURL = httpapi.Prefix + executionsPath + "/" + e.ID + "/output"
		}
	}
	if !e.FinishedAt.IsZero() {
		out.FinishedAt = new(httpapi.Time(e.FinishedAt))
	}
	out.Upstream.Value, out.Policy.Value = s.Upstream, s.Policy
	if f := s.Error; f != nil {
		out.Error.Value = &failure{string(f.Code), f.Message, f.Source, f.Retryable, f.RetryAfterMS, f.Effect}
	}
	if c := s.Context; c != nil {
		out.Context.Value = &callContext{c.AgentID, c.User, c.Reason}
	}
	return out
}

func viewRisk(level risk.Level, operation risk.Operation, flags []risk.Flag, reasons []string) executionRisk {
	return executionRisk{level, operation, append([]risk.Flag{}, flags...), append([]string{}, reasons...)}
}

func viewDryRun(e *executions.Execution, r *gateway.Rendered) execution {
	out := view(e)
	out.ID, out.Status, out.Input = "", dryRun, nil
	if p := out.Policy.Value; p != nil {
		p.DecisionID = "" // nothing is recorded
	}
	out.Request = &rendered{r.Method, r.URL, r.Headers, r.Body, r.Size}
	return out
}

func (h *handlers) output(ctx context.Context, in *itemInput) (httpapi.Responder, error) {
	body, err := h.svc.Output(ctx, executions.ReaderOf(access.From(ctx)), in.ID)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, w http.ResponseWriter) {
		// A provider's content must not run in a browser.
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Disposition", "attachment")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(body) // the client is gone when this fails
	}, nil
}
