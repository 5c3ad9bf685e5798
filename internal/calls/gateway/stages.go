package gateway

import "context"

// Policy decides whether a call may be made. It has no effect of its own, so that a check can ask it too.
type Policy interface {
	Decide(ctx context.Context, c *Call) (Decision, error)
}

// Recorder stores calls.
type Recorder interface {
	// Ready returns unavailable while so many calls wait to be stored that no further ones should be made.
	Ready() error
	// Begin stores the intent of a call that writes. It returns when that is durable, and only then the first byte is
	// sent. An error ends the call.
	Begin(ctx context.Context, c *Call) error
	// End stores how a call ended. It does not wait for the database, and takes calls whose Begin was not called as well.
	End(c *Call)
}

// Budgets limits what calls may cost.
type Budgets interface {
	// Admit refuses a call for which nothing is left.
	Admit(ctx context.Context, c *Call) error
	// Charge counts what a call has cost.
	Charge(c *Call)
}

// Redactor removes what rules of the environment keep from providers, and from callers.
type Redactor interface {
	// Request changes the input before it is sent, and Response the result before it is returned.
	Request(ctx context.Context, c *Call) error
	Response(ctx context.Context, c *Call) error
}

// Agents knows the agents that ask for calls.
type Agents interface {
	// Identify refuses a call of an agent that may make none.
	Identify(ctx context.Context, c *Call) error
}

// Objectives learns how calls ended, for objectives of service.
type Objectives interface {
	Observe(c *Call)
}

// Approvals asks people about a call for which a decision wants that.
type Approvals interface {
	// Ask returns the error with which the call waits for them.
	Ask(ctx context.Context, c *Call) error
}

// open lets every call pass. It stands for each stage that nothing else fills.
type open struct{}

func (open) Decide(context.Context, *Call) (Decision, error) {
	return Decision{Effect: Allow, Code: defaultCode}, nil
}
func (open) Admit(context.Context, *Call) error    { return nil }
func (open) Charge(*Call)                          {}
func (open) Request(context.Context, *Call) error  { return nil }
func (open) Response(context.Context, *Call) error { return nil }
func (open) Identify(context.Context, *Call) error { return nil }
func (open) Observe(*Call)                         {}
func (open) Ask(context.Context, *Call) error      { return errNoApprovals() }
