package gateway

import (
	"context"
	"errors"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/rendering"
)

// Checked says what would come of a call now.
type Checked struct {
	// Call has the target, the risk and the decision.
	Call *Call
	// InputGiven reports that the request had an input, and Errors is what is wrong with it.
	InputGiven bool
	Errors     []apperr.Detail
	// Readiness is what is known of the connection.
	Readiness *connections.Readiness
}

// Check says what Prepare and Run would do with a request now, as far as that is known without credentials. It has no
// effect, and nothing is recorded. A request without an input is decided on as one with an empty object, which is not
// checked against the schema.
//
// The errors are those of Prepare, without what is wrong with the input.
func (p *Pipeline) Check(ctx context.Context, r Request) (*Checked, error) {
	c := p.begin(r)
	out := &Checked{Call: c, InputGiven: len(r.Input) > 0}
	if err := p.check(ctx, out); err != nil {
		failure := refused(c, err)
		failure.Call.ExecutionID = ""
		return nil, failure
	}
	return out, nil
}

func (p *Pipeline) check(ctx context.Context, out *Checked) error {
	c := out.Call
	if err := p.resolve(ctx, c); err != nil {
		return err
	}
	if out.InputGiven {
		err := p.checkInput(ctx, c)
		var wrong *apperr.Error
		switch {
		case errors.As(err, &wrong) && wrong.Code == apperr.CodeValidation:
			out.Errors = wrong.Details
		case err != nil:
			return err
		}
	}
	if c.Input.Raw() == nil {
		var err error
		if c.Input, err = rendering.ParseInput([]byte("{}")); err != nil {
			return err //nolint:wrapcheck // it says what failed
		}
	}
	var err error
	if out.Readiness, err = p.cfg.Connections.Look(ctx, c.Request.Principal, c.Connected); err != nil {
		return err //nolint:wrapcheck // an error of the API
	}
	return p.decide(ctx, c)
}
