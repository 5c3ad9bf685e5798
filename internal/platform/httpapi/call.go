package httpapi

import (
	"context"
	"io"
	"net/http"

	"sallyport/internal/platform/apperr"
)

// The challenges of a 401 ask for a bearer token (RFC 9110 section 11.6.1), or say that the token is invalid (RFC 6750
// section 3). No scheme is registered for our own header API-Key.
const (
	challenge        = `Bearer realm="sallyport"`
	challengeInvalid = challenge + `, error="invalid_token"`
)

// call is the state of a request to an operation, in addition to Huma's.
type call struct {
	// request is the request after its query was read.
	request *http.Request
	// body is the request's body, once it was read to its end.
	body []byte
	// challenge is the WWW-Authenticate of a 401.
	challenge string
	// violations are the validation errors of the query and of the body that Huma does not see.
	violations []apperr.Detail
	// rules checks the operation's inputs; nil where there is nothing to check.
	rules *rules
	// keyID is the id of the API key that the request has shown, once it is known to be valid.
	keyID string
	// misplaced is set if the credential was refused for its place, without a look-up.
	misplaced bool
	// enterLarge waits for a turn, and leaveLarge ends it; see TakeLarge. Both are nil where there is none.
	enterLarge func(ctx context.Context) (leave func(), err error)
	leaveLarge func()
	// upload is the file that the request has as its body; nil if it has none.
	upload io.Reader
	// credential returns the credential that let the request in, which few operations ask for; nil where none did.
	credential func() Credential
}

type callKey struct{}

func withCall(r *http.Request, c *call) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callKey{}, c))
}

// callFrom returns the call of the context, or an empty call outside of operations.
func callFrom(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// RequestFrom returns the request of an operation. Its query has been read, and its body is not for the caller to read.
// It is nil outside of operations.
func RequestFrom(ctx context.Context) *http.Request { return callFrom(ctx).request }

// TakeLarge waits for a turn to respond with much: a large body, or many rows. The turn ends when the response has been
// written, so that only a few large responses are in memory at a time, regardless of who asks for them. An
// operation calls it before it reads what makes the response large. Outside of operations it does nothing.
//
// Errors: unavailable if no turn comes in time.
func TakeLarge(ctx context.Context) error {
	c := callFrom(ctx)
	if c.enterLarge == nil || c.leaveLarge != nil {
		return nil
	}
	leave, err := c.enterLarge(ctx)
	c.leaveLarge = leave
	return err
}

// endLarge ends the turn of TakeLarge.
func (c *call) endLarge() {
	if c.leaveLarge != nil {
		c.leaveLarge()
	}
}

// check returns the validation errors that Huma did not see, or nil. It runs before every handler.
func (c *call) check(ctx context.Context, input any) error {
	var found []apperr.Detail
	if c.rules != nil {
		found = c.rules.check(ctx, input, len(c.violations) > 0)
	}
	if details := c.details(nil, found); len(details) > 0 {
		return apperr.Invalid(details...)
	}
	return nil
}

// checkRefused returns the validation errors of a request that Huma refused.
func (c *call) checkRefused(errs []error) []apperr.Detail {
	var found []apperr.Detail
	if c.rules != nil {
		found = c.rules.checkRefused(c.request, c.body)
	}
	return c.details(errs, found)
}

// details returns the errors of the call, those that Huma found, and those that the rules found.
func (c *call) details(errs []error, found []apperr.Detail) []apperr.Detail {
	var list detailList
	for _, d := range c.violations {
		list.add(d)
	}
	list.addErrors(errs)
	list.add(found...)
	return list.details
}
