package gateway

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"sallyport/internal/platform/access"
	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/cache"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/platform/id"
	"sallyport/internal/platform/turnstile"
	"sallyport/internal/providers/catalog"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/rendering"
	"sallyport/internal/providers/schemas"
)

// Catalog finds actions. *catalog.Service implements it.
type Catalog interface {
	Find(ctx context.Context, env id.Environment, key, name string) (*catalog.Action, error)
	// Knows returns provider_not_found unless the environment has a provider configuration of the key.
	Knows(ctx context.Context, env id.Environment, key string) error
}

// Connections makes requests with the credentials of connections. *connections.Signer implements it.
type Connections interface {
	Find(ctx context.Context, v access.View, providerConfigKey, connectionID string) (*connections.Connection, error)
	Open(ctx context.Context, actor access.Principal, c *connections.Connection) (*connections.Session, error)
	// Look says what is known of a connection before a call, without an effect.
	Look(ctx context.Context, actor access.Principal, c *connections.Connection) (*connections.Readiness, error)
}

// Config holds what a Pipeline is made from. A stage that is nil lets every call pass.
type Config struct {
	Catalog     Catalog
	Connections Connections
	Client      *egress.Client
	Clock       clock.Clock
	Logger      *slog.Logger
	Recorder    Recorder
	Policy      Policy
	Approvals   Approvals
	Budgets     Budgets
	Redactor    Redactor
	Agents      Agents
	Objectives  Objectives
}

const (
	// places is how many calls a node makes at a time, and placesEach how many of one environment: each holds a request
	// of a caller, its input and a response in memory.
	places, placesEach = 2048, 512
	// placeWait is how long a call waits for a place.
	placeWait = time.Second
)

// Pipeline makes calls. It is safe for concurrent use.
type Pipeline struct {
	cfg     Config
	gate    *turnstile.Gate
	schemas cache.Cache[schemaKey, *schemas.Schema]
	metrics metrics
}

// schemaKey names the schema of an action of a version of a provider.
type schemaKey struct{ provider, version, action string }

// maxSchemas is how many compiled schemas are kept.
const maxSchemas = 4096

// New returns a Pipeline.
func New(cfg Config) *Pipeline {
	if cfg.Policy == nil {
		cfg.Policy = open{}
	}
	if cfg.Approvals == nil {
		cfg.Approvals = open{}
	}
	if cfg.Budgets == nil {
		cfg.Budgets = open{}
	}
	if cfg.Redactor == nil {
		cfg.Redactor = open{}
	}
	if cfg.Agents == nil {
		cfg.Agents = open{}
	}
	if cfg.Objectives == nil {
		cfg.Objectives = open{}
	}
	return &Pipeline{cfg: cfg, metrics: newMetrics(),
		gate:    turnstile.New(places, placesEach, placeWait, "Too many calls are in progress at this moment; retry"),
		schemas: cache.Cache[schemaKey, *schemas.Schema]{Max: maxSchemas}}
}

// Prepare makes the call of a request: it finds what the request names and checks the input. Nothing is recorded or
// sent.
//
// Errors, in this order: provider_not_found; connection_not_found, also for one that the caller does not see;
// grant_denied; action_not_found; precondition_failed for another version; validation_error with all errors of the
// input.
func (p *Pipeline) Prepare(ctx context.Context, r Request) (*Call, error) {
	c := p.begin(r)
	err := p.resolve(ctx, c)
	if err == nil {
		err = p.checkInput(ctx, c)
	}
	if err != nil {
		return nil, refused(c, err)
	}
	return c, nil
}

func (p *Pipeline) begin(r Request) *Call {
	c := &Call{ID: id.NewUUID(), Request: r, Outcome: Running, Time: p.cfg.Clock.Now()}
	c.began = c.Time
	return c
}

// resolve finds what a request names, and the risk of the action.
func (p *Pipeline) resolve(ctx context.Context, c *Call) error {
	if err := p.cfg.Agents.Identify(ctx, c); err != nil {
		return err //nolint:wrapcheck // an error of the API
	}
	r, env := &c.Request, c.Environment()
	if err := p.cfg.Catalog.Knows(ctx, env, r.ConfigKey); err != nil {
		return err //nolint:wrapcheck // an error of the API
	}
	var err error
	if c.Connected, err = p.cfg.Connections.Find(ctx, r.Principal.View(), r.ConfigKey, r.Connection); err != nil {
		return err //nolint:wrapcheck // an error of the API
	}
	target, missing := p.cfg.Catalog.Find(ctx, env, r.ConfigKey, r.Action)
	call := access.Call{Action: r.ConfigKey + "/" + r.Action}
	if missing == nil {
		call.Method, call.Risk = target.Method, string(target.Risk.Level)
	}
	if err := r.Principal.RequireCall(access.RouteActions, r.Connection, call); err != nil {
		return err //nolint:wrapcheck // an error of the API
	}
	if missing != nil {
		return missing //nolint:wrapcheck // an error of the API
	}
	c.Target, c.Risk = target, target.Risk
	if r.Version != "" && r.Version != target.Version {
		return apperr.New(apperr.CodePreconditionFailed,
			"The action has another version than the one named; look at it again")
	}
	return nil
}

// checkInput reads the input and checks it against the schema of the action.
func (p *Pipeline) checkInput(ctx context.Context, c *Call) error {
	var err error
	if c.Input, err = rendering.ParseInput(c.Request.Input); err != nil {
		return invalidInput(err)
	}
	key := schemaKey{string(c.Environment()) + "/" + c.Target.Provider.Definition.Slug, c.Target.Version, c.Target.Name}
	c.schema, err = p.schemas.Get(ctx, key, func(context.Context) (*schemas.Schema, int64, error) {
		s, err := schemas.Compile(c.Target.Input)
		return s, 0, err
	})
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	faults, err := c.schema.Check("input", c.Input.Raw())
	if errors.Is(err, schemas.ErrTooComplex) {
		return apperr.Invalid(apperr.Detail{Location: "input", Rule: "complexity",
			Message: "is too complex to be checked against the schema of the action"})
	}
	if err != nil {
		return err //nolint:wrapcheck // it says what failed
	}
	if len(faults) > 0 {
		return apperr.Invalid(faults...)
	}
	c.out, err = c.outgoing()
	return err
}

// invalidInput makes a validation error of what rendering says about an input.
func invalidInput(err error) error {
	var wrong *rendering.InputError
	if !errors.As(err, &wrong) {
		return err
	}
	at := "input"
	if wrong.Property != "" {
		at += "." + wrong.Property
	}
	return apperr.Invalid(apperr.Detail{Location: at, Message: wrong.Message, Rule: "input"})
}

// decide asks the budgets and the rules of the environment about a call, without any effect.
func (p *Pipeline) decide(ctx context.Context, c *Call) error {
	if err := p.cfg.Budgets.Admit(ctx, c); err != nil {
		return err //nolint:wrapcheck // an error of the API
	}
	began := p.cfg.Clock.Now()
	var err error
	c.Decision, err = p.cfg.Policy.Decide(ctx, c)
	c.Timing.Policy = p.cfg.Clock.Now().Sub(began)
	return err //nolint:wrapcheck // it says what failed
}

// Run makes a prepared call. It returns the error that the caller gets, which is c.Failure too; the call is recorded
// unless it was refused before the rules decided.
func (p *Pipeline) Run(ctx context.Context, c *Call) error {
	if err := p.cfg.Recorder.Ready(); err != nil {
		return refused(c, err)
	}
	leave, err := p.gate.Enter(ctx, string(c.Environment()))
	if err != nil {
		return refused(c, err)
	}
	defer leave()
	if c.Writes() {
		// The provider acts whether or not the caller waits, so the outcome is awaited and recorded.
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Request.Timeout)
	defer cancel()
	if err := p.decide(ctx, c); err != nil {
		return refused(c, err)
	}
	failure := p.carryOut(ctx, c)
	c.Ended = p.cfg.Clock.Now()
	c.Timing.Total = c.Ended.Sub(c.began)
	p.finish(c, failure)
	if c.Failure != nil {
		return c.Failure
	}
	return nil
}

// carryOut does what the decision says.
func (p *Pipeline) carryOut(ctx context.Context, c *Call) error {
	switch c.Decision.Effect {
	case Deny:
		return denied(c)
	case Approval:
		return p.cfg.Approvals.Ask(ctx, c) //nolint:wrapcheck // an error of the API
	case Allow, Transform:
	}
	if err := p.cfg.Redactor.Request(ctx, c); err != nil {
		return err //nolint:wrapcheck // an error of the API
	}
	began := p.cfg.Clock.Now()
	var err error
	c.session, err = p.cfg.Connections.Open(ctx, c.Request.Principal, c.Connected)
	c.Timing.Credentials = p.cfg.Clock.Now().Sub(began)
	if err != nil {
		return err //nolint:wrapcheck // an error of the API
	}
	if err := p.send(ctx, c); err != nil {
		return err
	}
	return p.cfg.Redactor.Response(ctx, c) //nolint:wrapcheck // an error of the API
}

// finish gives the call its outcome and records it.
func (p *Pipeline) finish(c *Call, err error) {
	c.Outcome = Succeeded
	if err != nil {
		c.Failure = refused(c, err)
		c.Outcome = Failed
		if c.Failure.Code == apperr.CodePolicyDenied {
			c.Outcome = Denied
		}
	}
	p.cfg.Budgets.Charge(c)
	p.cfg.Objectives.Observe(c)
	p.cfg.Recorder.End(c)
	p.metrics.observe(c)
}
