package executions

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"sallyport/internal/calls/gateway"
	"sallyport/internal/identity/installation"
	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/secretbox"
	"sallyport/internal/providers/connecting"
)

// Pipeline makes calls. *gateway.Pipeline implements it.
type Pipeline interface {
	Prepare(ctx context.Context, r gateway.Request) (*gateway.Call, error)
	Run(ctx context.Context, c *gateway.Call) error
	Render(ctx context.Context, c *gateway.Call) (*gateway.Rendered, error)
	Check(ctx context.Context, r gateway.Request) (*gateway.Checked, error)
}

// Calls records that calls have ended in a way that no one knows. *calllog.Log implements it.
type Calls interface {
	MarkUnknown(ctx context.Context, tx db.Querier, callIDs []string) error
}

// Config holds what a Service is made from.
type Config struct {
	DB     *db.DB
	Clock  clock.Clock
	Box    *secretbox.Box
	Pepper installation.Pepper
	Logger *slog.Logger
	// Pipeline returns the pipeline, which records executions with its calls and so is made after the service.
	Pipeline func() Pipeline
	// Calls returns the log of calls, for the same reason.
	Calls func() Calls
}

// Service runs actions. It is safe for concurrent use.
type Service struct{ cfg Config }

// New returns a Service.
func New(cfg Config) *Service { return &Service{cfg} }

// Request asks for an execution.
type Request struct {
	// ConfigKey is the key of a provider configuration, and Connection the id of one of its connections.
	ConfigKey, Connection string
	// Action is the name of an action, and Version the version that the caller has seen; empty for any.
	Action, Version string
	Input           json.RawMessage
	// Key makes the request one that takes effect once; empty for none.
	Key      string
	Timeout  time.Duration
	Metadata json.RawMessage
	Context  *Context
}

// extension is what the rows of an execution have in addition to those of its calls.
type extension struct {
	key      string
	keyHash  string
	metadata json.RawMessage
	context  *Context
	input    json.RawMessage
}

func (s *Service) prepare(ctx context.Context, actor access.Principal, r *Request) (*gateway.Call, *extension, error) {
	timeout := r.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	c, err := s.cfg.Pipeline().Prepare(ctx, gateway.Request{Principal: actor, Via: gateway.ViaExecute,
		ConfigKey: r.ConfigKey, Connection: r.Connection, Action: r.Action, Version: r.Version, Input: r.Input,
		Timeout: timeout})
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // an error of the API
	}
	x := &extension{key: r.Key, metadata: r.Metadata, context: r.Context, input: shownInput(c.Input)}
	c.Extension = x
	return c, x, nil
}

// Execute runs an action and waits for the outcome. The second result is true if an earlier request with the same key
// has run it. An error of the call says so with its execution, which is stored as well.
func (s *Service) Execute(ctx context.Context, actor access.Principal, r *Request) (*Execution, bool, error) {
	c, x, err := s.prepare(ctx, actor, r)
	if err != nil {
		return nil, false, err
	}
	if x.key != "" {
		earlier, err := s.claim(ctx, c, x)
		if err != nil {
			return nil, false, err
		}
		if earlier != nil {
			done, err := earlier.replay()
			return done, true, err
		}
		ctx = context.WithoutCancel(ctx) // the next request with the key gets the outcome
	}
	err = s.cfg.Pipeline().Run(ctx, c)
	if x.key != "" && err != nil && !c.Sent {
		if failure := s.release(context.WithoutCancel(ctx), c, x); failure != nil {
			return nil, false, errors.Join(err, failure)
		}
	}
	if err != nil {
		return nil, false, err //nolint:wrapcheck // an error of the API
	}
	return present(c, x), false, nil
}

// DryRun returns the request that an execution would send, without its credentials, and what the rules of the
// environment decide about it. It sends the provider nothing and records nothing.
func (s *Service) DryRun(ctx context.Context, actor access.Principal, r *Request) (*Execution,
	*gateway.Rendered, error) {
	c, x, err := s.prepare(ctx, actor, r)
	if err != nil {
		return nil, nil, err
	}
	rendered, err := s.cfg.Pipeline().Render(ctx, c)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // an error of the API
	}
	return begun(c, x), rendered, nil
}

// Checked says what would come of an execution now.
type Checked struct {
	*gateway.Checked
	// MissingScopes are those that the provider has not granted and the action needs; empty also if it is not known what
	// was granted.
	MissingScopes []string
}

// Check says what Execute would do with a request now, without an effect.
func (s *Service) Check(ctx context.Context, actor access.Principal, r *Request) (*Checked, error) {
	c, err := s.cfg.Pipeline().Check(ctx, gateway.Request{Principal: actor, Via: gateway.ViaExecute,
		ConfigKey: r.ConfigKey, Connection: r.Connection, Action: r.Action, Version: r.Version, Input: r.Input})
	if err != nil {
		return nil, err //nolint:wrapcheck // an error of the API
	}
	return &Checked{c, missingScopes(c.Call.Target.Scopes, c.Readiness.Granted)}, nil
}

// missingScopes returns what was not granted of the list of which the least is missing: one of the lists is enough.
func missingScopes(lists [][]string, granted []string) []string {
	var least []string
	for i, list := range lists {
		missing := connecting.NotGranted(list, granted)
		if i == 0 || len(missing) < len(least) {
			least = missing
		}
	}
	return least
}

// replay returns the outcome of an execution to a later request with its key.
func (e *Execution) replay() (*Execution, error) {
	switch {
	case e.Status == Running:
		return nil, apperr.New(apperr.CodeIdempotencyInProgress,
			"The first request with this Idempotency-Key is still in progress").RetryIn(time.Second)
	case e.ErrorCode == string(apperr.CodeOutcomeUnknown):
		return nil, apperr.New(apperr.CodeIdempotencyOutcomeUnknown, "The outcome of the first request with this "+
			"Idempotency-Key was lost with the process that made it; check its effect before you send the request with another "+
			"key").WithCall(e.call())
	case e.State.Error != nil:
		return nil, e.failure()
	}
	return e, nil
}

// failure returns the error of an execution that has failed.
func (e *Execution) failure() error {
	f := e.State.Error
	failure := apperr.New(f.Code, f.Message).WithCall(e.call())
	failure.Details = f.Details
	if f.RetryAfterMS > 0 {
		failure = failure.RetryIn(time.Duration(f.RetryAfterMS) * time.Millisecond)
	}
	return failure
}

func (e *Execution) call() apperr.Call {
	f := e.State.Error
	return apperr.Call{Source: f.Source, Retryable: f.Retryable, ExecutionID: e.ID, Effect: f.Effect,
		Attempts: e.State.Attempts, Upstream: e.State.Upstream, Policy: e.State.Policy}
}
