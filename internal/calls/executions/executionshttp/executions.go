// Package executionshttp serves executions of actions over HTTP.
package executionshttp

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"sallyport/internal/calls/executions"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/httpapi"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/idempotency"
	"sallyport/internal/platform/page"
	"sallyport/internal/platform/patch"
)

const (
	tag            = "Actions"
	executePath    = "/actions/execute"
	checkPath      = "/actions/{provider}/{action_name}/policy-check"
	executionsPath = "/actions/executions"
	executionPath  = executionsPath + "/{id}"
	outputPath     = executionPath + "/output"
)

type handlers struct{ svc *executions.Service }

// mount adds the operations on executions to the API.
func mount(api *httpapi.API, svc *executions.Service) {
	h := &handlers{svc}
	op := func(o httpapi.Operation) httpapi.Operation {
		o.Tag, o.Environment, o.Route, o.Permission = tag, true, access.RouteActions, access.ActionsExecute
		if o.Status = http.StatusOK; o.Method == http.MethodGet {
			o.Permission = access.ExecutionsRead
		}
		return o
	}
	httpapi.Register(api, op(httpapi.Operation{
		ID: "execute-action", Method: http.MethodPost, Path: executePath, Summary: "Run an action",
		Description: "Runs an action with the credentials of a connection and waits for the outcome. The input is checked " +
			"against the action's `input_schema` first; all errors come in one response. `output` is the provider's " +
			"response. An error says in `source` where the call failed, in `effect` whether the provider may have acted, " +
			"and in `retryable` whether the same call may succeed later.\n\nReads are sent up to three times; a call that " +
			"writes only where the provider certainly did nothing, or recognises it by a key of the gateway. With an " +
			"idempotency key, in the header `Idempotency-Key` or in the body, the action takes effect once: for 24 hours " +
			"the same request returns what came of the first, with `idempotent_replay`. Keys belong to the caller and the " +
			"action.",
		MaxBodyBytes: executions.MaxInput, NoIdempotencyKey: true,
		Errors: []apperr.Code{apperr.CodeProviderNotFound, apperr.CodeConnectionNotFound, apperr.CodeActionNotFound,
			apperr.CodeConnectionNotReady, apperr.CodeConnectionOwned, apperr.CodePreconditionFailed, apperr.CodePolicyDenied,
			apperr.CodeProviderError, apperr.CodeProviderRateLimited, apperr.CodeProviderUnavailable,
			apperr.CodeProviderUnreachable, apperr.CodeProviderTLSError, apperr.CodeProviderTimeout,
			apperr.CodeIdempotencyMismatch, apperr.CodeIdempotencyInProgress, apperr.CodeIdempotencyOutcomeUnknown},
		Messages: messages(),
		Example: `{"provider":"github","connection_id":"acme-production","action":"create_issue","input":{"owner":"acme",` +
			`"repo":"website","title":"The search is slow"}}`,
	}), h.execute)
	httpapi.Register(api, op(httpapi.Operation{
		ID: "check-action", Method: http.MethodPost, Path: checkPath, Summary: "Check an action",
		Description: "Says what `POST /actions/execute` would do with a call now: the decision of the environment's rules, " +
			"whether the input fits, whether the connection can be used, and which scopes it does not have. Nothing is " +
			"sent, changed or recorded. The action would be run if `decision` is `allow` or `transform`, `input_valid` is " +
			"not `false`, and `connection.ready` is `true`. A call that the caller's grants do not permit is an error here " +
			"too.",
		MaxBodyBytes: executions.MaxInput, NoIdempotencyKey: true,
		Errors: []apperr.Code{apperr.CodeProviderNotFound, apperr.CodeConnectionNotFound, apperr.CodeActionNotFound,
			apperr.CodePreconditionFailed},
		Messages: checkMessages(),
		Example: `{"connection_id":"acme-production","input":{"owner":"acme","repo":"website","title":"The search is ` +
			`slow"}}`,
	}), h.check)
	httpapi.RegisterList(api, op(httpapi.Operation{
		ID: "list-executions", Method: http.MethodGet, Path: executionsPath, Summary: "List executions",
		Description: "Lists executions, newest first, without their inputs and outputs. An API key sees " +
			"its own. Executions are kept for 30 days.",
	}), httpapi.List[listInput, executions.Execution, execution]{Rows: h.list, View: viewOf,
		Key: func(e *executions.Execution) string { return e.ID }, IsKey: id.IsUUID})
	httpapi.Register(api, op(httpapi.Operation{
		ID: "get-execution", Method: http.MethodGet, Path: executionPath, Summary: "Get an execution",
		Description: "Returns an execution in its present state, with its input and, while that is kept, its output. " +
			"Texts of the input whose names say that they are secret are redacted. Outputs are kept for 7 days of actions " +
			"that write and of those with an idempotency key.",
	}), h.get)
	httpapi.RegisterStream(api, op(httpapi.Operation{
		ID: "get-execution-output", Method: http.MethodGet, Path: outputPath, Summary: "Download the output of an execution",
		Description: "Returns the bytes of the output of an execution as the provider sent them. It is meant for outputs " +
			"over 2 MiB, of which `output` has only the beginning; these are kept for 24 hours, up to 10 MiB.",
		Download: []string{"application/octet-stream"}, Missing: []string{"output"},
	}), h.output)
}

// messages are the beginnings of the messages of errors.
func messages() map[apperr.Code][]string {
	return map[apperr.Code][]string{
		apperr.CodeConnectionNotReady: {"The connection has no credentials", "The connection is disabled",
			"The connection waits for a person to connect an account", "The connection has the status needs_reauth",
			"The provider has no API that can be called here", "No request can be made from the connection's settings"},
		apperr.CodePreconditionFailed: {"The action has another version than the one named; look at it again"},
		apperr.CodeGrantDenied: {"The API key has no grant for the route actions that permits this action on this " +
			"connection"},
		apperr.CodeProviderError: {"The provider refuses the request", "The provider refuses the connection's credentials",
			"The provider wants a scope that the connection does not have",
			"The provider redirects the request, and that is not followed"},
		apperr.CodeProviderUnreachable: {"The provider did not respond", "The provider's response is not valid HTTP",
			"The target's address is not allowed"},
		apperr.CodeProviderTimeout: {"The provider did not respond in time", "The call was not complete in its time"},
		apperr.CodeRateLimited:     {"The provider's rate limit allows no further request now"},
		apperr.CodeUnavailable: {"Too many calls are in progress at this moment; retry",
			"The call was cancelled before it was complete"},
		apperr.CodeIdempotencyMismatch: {
			"The Idempotency-Key was sent before with another connection, version or input"},
		apperr.CodeIdempotencyOutcomeUnknown: {"The outcome of the first request with this Idempotency-Key was lost with " +
			"the process that made it", "The execution of the first request with this Idempotency-Key is not kept any more"},
	}
}

// checkMessages are the beginnings of the messages of errors of a check.
func checkMessages() map[apperr.Code][]string {
	all := messages()
	return map[apperr.Code][]string{apperr.CodePreconditionFailed: all[apperr.CodePreconditionFailed],
		apperr.CodeGrantDenied: all[apperr.CodeGrantDenied]}
}

type executeInput struct {
	// Makes the request one that takes effect once, for 24 hours. The same as `idempotency_key`.
	Key  []string `header:"Idempotency-Key" maxItems:"1" example:"0199b3f2-order-1042"`
	Body executeBody
}

// executeBody asks for an execution.
type executeBody struct {
	// The key of the provider configuration, such as the slug of a provider.
	Provider string `json:"provider" minLength:"1" maxLength:"63" example:"github"`
	// The id of the connection.
	ConnectionID string `json:"connection_id" minLength:"1" maxLength:"255" example:"acme-production"`
	// The name of the action.
	Action string `json:"action" minLength:"1" maxLength:"48" example:"create_issue"`
	// The input, as the action's `input_schema` has it. Files are objects of `base64`, `filename` and `content_type`.
	// Default: an object without members.
	Input httpapi.JSON `json:"input,omitempty"`
	// The version of the action that the caller has seen; if it has another one, nothing is done. Default: any version.
	Version string `json:"version,omitempty" maxLength:"200" example:"5a1f0c9e"`
	// Makes the request one that takes effect once, for 24 hours. The same as the header `Idempotency-Key`.
	IdempotencyKey string `json:"idempotency_key,omitempty" maxLength:"255" example:"0199b3f2-order-1042"`
	// Whether to return the request that would be sent, without its credentials, instead of sending it. Default `false`.
	DryRun bool `json:"dry_run,omitempty" example:"false"`
	// How long the call may take, with all attempts and waits, in milliseconds. Default 30000.
	TimeoutMS int64 `json:"timeout_ms,omitempty" minimum:"1000" maximum:"120000" example:"30000"`
	// An object of your own that is stored with the execution: at most 16 KiB.
	Metadata httpapi.JSON `json:"metadata,omitempty"`
	// A statement of the caller about the execution. It is recorded, and nothing is decided on it.
	Context *callContext `json:"context,omitempty"`
}

// callContext is what a caller says about an execution.
type callContext struct {
	// The agent on whose behalf the call is made.
	AgentID string `json:"agent_id,omitempty" maxLength:"255" example:"support-agent"`
	// The person on whose behalf the call is made.
	User string `json:"user,omitempty" maxLength:"255" example:"customer-1042"`
	// Why the call is made.
	Reason string `json:"reason,omitempty" maxLength:"1000" example:"The customer asked for it."`
}

// Check checks what the schema accepts.
func (in *executeInput) Check(_ context.Context, v *apperr.Violations) {
	for _, key := range append(in.Key, in.Body.IdempotencyKey) {
		if key != "" && !idempotency.ValidKey(key) {
			v.Add("header.Idempotency-Key", "pattern", "must be 1 to "+strconv.Itoa(idempotency.MaxKeyLength)+
				" printable ASCII characters")
		}
	}
	if len(in.Key) > 0 && in.Body.IdempotencyKey != "" && in.Key[0] != in.Body.IdempotencyKey {
		v.Add("body.idempotency_key", "coherent", "must be the same as the header Idempotency-Key")
	}
	if m := in.Body.Metadata.Bytes(); len(m) > 0 {
		switch {
		case m[0] != '{':
			v.Add("body.metadata", "type", "must be an object")
		case len(m) > executions.MaxMetadata:
			v.Add("body.metadata", "max_length", "must have at most 16 KiB")
		}
	}
	if in.Body.DryRun && in.key() != "" {
		v.Add("body.dry_run", "coherent", "must not be true together with an idempotency key")
	}
}

func (in *executeInput) key() string {
	if len(in.Key) > 0 {
		return in.Key[0]
	}
	return in.Body.IdempotencyKey
}

func (in *executeInput) request() *executions.Request {
	b := &in.Body
	r := &executions.Request{ConfigKey: b.Provider, Connection: b.ConnectionID, Action: b.Action, Version: b.Version,
		Input: b.Input.Bytes(), Key: in.key(), Timeout: time.Duration(b.TimeoutMS) * time.Millisecond,
		Metadata: b.Metadata.Bytes()}
	if len(r.Input) == 0 {
		r.Input = []byte("{}")
	}
	if c := b.Context; c != nil {
		r.Context = &executions.Context{AgentID: c.AgentID, User: c.User, Reason: c.Reason}
	}
	return r
}

type executeOutput struct {
	// Whether an earlier request with the same key has run the action.
	Replayed string `header:"Idempotent-Replayed"`
	Body     execution
}

func (h *handlers) execute(ctx context.Context, in *executeInput) (*executeOutput, error) {
	actor := access.From(ctx)
	if in.Body.DryRun {
		e, rendered, err := h.svc.DryRun(ctx, actor, in.request())
		if err != nil {
			return nil, err
		}
		return &executeOutput{Body: viewDryRun(e, rendered)}, nil
	}
	e, replayed, err := h.svc.Execute(ctx, actor, in.request())
	if err != nil {
		return nil, err
	}
	out := &executeOutput{Body: view(e)}
	out.Body.Input = nil // the caller has it
	if out.Body.IdempotentReplay = replayed; replayed {
		out.Replayed = "true"
	}
	return out, nil
}

type listInput struct {
	page.Query
	// Only executions at these provider configurations.
	Provider []string `query:"provider,explode" minLength:"1" maxLength:"63" maxItems:"50" example:"github"`
	// Only executions with these connections.
	ConnectionID []string `query:"connection_id,explode" minLength:"1" maxLength:"255" maxItems:"50" example:"acme-production"`
	// Only executions of these actions.
	Action []string `query:"action,explode" minLength:"1" maxLength:"48" maxItems:"50" example:"create_issue"`
	// Only executions in one of these states.
	Status []executions.Status `query:"status,explode" maxItems:"10" example:"failed"`
	// Only executions whose error has one of these codes.
	ErrorCode []string `query:"error_code,explode" pattern:"^[a-z][a-z0-9_]{0,63}$" maxItems:"50" example:"provider_error"`
	// Only executions that were asked for at this time or later.
	CreatedAfter patch.Optional[httpapi.Time] `query:"created_after" example:"2026-11-02T09:30:00.000Z"`
	// Only executions that were asked for before this time.
	CreatedBefore patch.Optional[httpapi.Time] `query:"created_before" example:"2026-11-03T09:30:00.000Z"`
}

func (h *handlers) list(ctx context.Context, in *listInput, p page.Request) ([]executions.Execution, error) {
	f := &executions.Filter{ConfigKeys: in.Provider, ConnectionIDs: in.ConnectionID, Actions: in.Action,
		Statuses: in.Status, ErrorCodes: in.ErrorCode}
	if t := in.CreatedAfter.Pointer(); t != nil {
		f.After = time.Time(*t)
	}
	if t := in.CreatedBefore.Pointer(); t != nil {
		f.Before = time.Time(*t)
	}
	return h.svc.List(ctx, executions.ReaderOf(access.From(ctx)), f, p)
}

type itemInput struct {
	// The id of the execution.
	ID string `path:"id" example:"0199b3f2-7a1c-7c3e-9d55-0a4f6b8d2e11"`
}

type itemOutput struct{ Body execution }

func (h *handlers) get(ctx context.Context, in *itemInput) (*itemOutput, error) {
	e, err := h.svc.Get(ctx, executions.ReaderOf(access.From(ctx)), in.ID)
	if err != nil {
		return nil, err
	}
	return &itemOutput{view(e)}, nil
}
