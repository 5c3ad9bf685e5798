package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"sallyport/internal/platform/apperr"
)

// The challenges of a 401: a bearer token is what a request without a usable credential should bring (RFC 9110 section
// 11.6.1), and one that was brought and refused is invalid (RFC 6750 section 3). API-Key is a header of our own, for
// which no scheme is registered.
const (
	challenge        = `Bearer realm="sallyport"`
	challengeInvalid = challenge + `, error="invalid_token"`
)

// call is what is known of a request to an operation beside what Huma makes of it.
type call struct {
	// challenge is the WWW-Authenticate of a 401.
	challenge string
	// faults are those of the query and of the body that Huma does not see.
	faults []apperr.Detail
	// rules are asked once the request is refused.
	rules []func(*apperr.Faults)
	// keyID is the API key that the request has shown, once it is known to hold.
	keyID string
	// credential makes what let the request in, which few operations ask for; nil where nothing did.
	credential func() Credential
}

type callKey struct{}

func withCall(r *http.Request, c *call) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callKey{}, c))
}

// callFrom returns the call of the context. Outside of operations it is an empty one.
func callFrom(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// refused returns the faults that Huma did not see as an error, or nil. It stands before every handler.
func refused(ctx context.Context) error {
	c := callFrom(ctx)
	if len(c.faults) == 0 {
		return nil
	}
	return apperr.Invalid(c.details(nil)...)
}

// details returns the faults of the call, those that Huma found, and those against the rules.
func (c *call) details(errs []error) []apperr.Detail {
	var list detailList
	for _, d := range c.faults {
		list.add(d)
	}
	list.addErrors(errs)
	for _, rule := range c.rules {
		var f apperr.Faults
		rule(&f)
		if err := f.Err(); err != nil {
			list.addErrors([]error{err})
		}
	}
	return list.details
}

// OnRefusal has rules add the faults they find in a request that is refused before its handler runs. It is for the
// Resolve method of a body whose rules the handler asks, among those that need more than the body: they are not run
// twice, and the faults that the body shows by itself come in the answer that tells those of its shape.
func OnRefusal(ctx huma.Context, rules func(*apperr.Faults)) {
	c := callFrom(ctx.Context())
	c.rules = append(c.rules, rules)
}
