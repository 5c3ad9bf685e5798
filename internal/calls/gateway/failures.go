package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/db"
	"sallyport/internal/platform/egress"
	"sallyport/internal/providers/outbound"
)

// refused returns the error of a call with what it says about the call.
func refused(c *Call, err error) *apperr.Error {
	var e *apperr.Error
	switch {
	case errors.As(err, &e):
	case db.IsUnavailable(err):
		e = apperr.Unavailable(err)
	case errors.Is(err, context.DeadlineExceeded):
		e = apperr.Wrap(apperr.CodeProviderTimeout, "The call was not complete in its time", err)
	case errors.Is(err, context.Canceled):
		e = apperr.Wrap(apperr.CodeUnavailable, "The call was cancelled before it was complete", err)
	default:
		e = apperr.Wrap(apperr.CodeInternal, "An unexpected error occurred", err)
	}
	of := apperr.Call{Source: apperr.SourceGateway, Effect: apperr.EffectNone, Attempts: c.Attempts,
		Retryable: e.RetryAfter > 0 || e.Code == apperr.CodeUnavailable}
	if e.Call != nil {
		of = *e.Call
		of.Attempts = c.Attempts
	} else if c.Sent && c.Writes() {
		of.Effect = apperr.EffectUnknown
	}
	if c.mayHaveActed { // on an earlier attempt than the one that the error is about
		of.Effect = apperr.EffectUnknown
	}
	if c.Decision.Effect != "" {
		of.ExecutionID = c.ExecutionID()
		of.Policy = c.Policy()
	}
	return e.WithCall(of)
}

// Policy returns what callers see of the decision about the call.
func (c *Call) Policy() *apperr.CallPolicy {
	d := &c.Decision
	return &apperr.CallPolicy{DecisionID: c.ID, Decision: string(d.Effect), Code: d.Code, Reason: d.Reason,
		Rules: append([]apperr.CallRule{}, d.Rules...)}
}

// denied is the error of a call that a rule denies.
func denied(c *Call) error {
	message := "A rule of the environment denies the call"
	if c.Decision.Reason != "" {
		message += ": " + c.Decision.Reason
	}
	return apperr.New(apperr.CodePolicyDenied, message).WithCall(apperr.Call{Source: apperr.SourcePolicy,
		Effect: apperr.EffectNone})
}

func errNoApprovals() error {
	return apperr.New(apperr.CodePolicyDenied, "A rule of the environment wants an approval, and no one can give it here").
		WithCall(apperr.Call{Source: apperr.SourcePolicy, Effect: apperr.EffectNone})
}

// notSendable is the error of a call of which no request can be made.
func notSendable(err error) error {
	var config *outbound.ConfigError
	if !errors.As(err, &config) {
		return err
	}
	for _, p := range config.Problems {
		switch p.Field {
		case "path", "query", "header", "method":
			return apperr.Invalid(apperr.Detail{Location: "input", Rule: "input",
				Message: "makes a request whose " + p.Field + " " + p.Message})
		}
	}
	return apperr.Wrap(apperr.CodeConnectionNotReady, "No request can be made from the connection's settings: "+
		err.Error(), err)
}

// networkError is the error of a call without a response.
func networkError(c *Call, e *egress.Error, timedOut bool) *apperr.Error {
	code, message := apperr.CodeProviderUnreachable, "The provider did not respond: "+strings.TrimSuffix(e.Message, ".")
	switch e.Code {
	case egress.CodeTimeout:
		code, message = apperr.CodeProviderTimeout, "The provider did not respond in time"
	case egress.CodeTLSFailed:
		code, message = apperr.CodeProviderTLSError, "No secure connection to the provider could be made"
	case egress.CodeTargetRefused:
		code, message = apperr.CodeProviderUnreachable, e.Message
	case egress.CodeResponseInvalid:
		message = "The provider's response is not valid HTTP"
	default:
	}
	if timedOut {
		code, message = apperr.CodeProviderTimeout, "The provider did not respond in time"
	}
	return apperr.Wrap(code, message, e).WithCall(apperr.Call{Source: apperr.SourceNetwork,
		Effect: effectOf(c, e.BytesSent), Retryable: !e.Permanent})
}

// effectOf says whether the provider may have acted on the call.
func effectOf(c *Call, sent bool) apperr.Effect {
	if sent && c.Writes() {
		return apperr.EffectUnknown
	}
	return apperr.EffectNone
}

// maxErrorBody is how much of the body of an error is returned.
const maxErrorBody = 16 << 10

// providerError is the error of a response that is one.
func providerError(c *Call, x *exchange) *apperr.Error {
	v := &x.verdict
	up := &apperr.CallUpstream{Status: x.response.Status, RequestID: v.RequestID, Message: v.Message,
		Headers: shownHeaders(x.response.Header)}
	body, cut := x.response.Body, x.cut
	if len(body) > maxErrorBody {
		body, cut = body[:maxErrorBody], true
	}
	up.Body, up.BodyTruncated = output(x.response.Header.Get("Content-Type"), body, cut), cut
	of := apperr.Call{Source: apperr.SourceProvider, Effect: apperr.EffectNone, Upstream: up, Retryable: v.Retryable}
	var e *apperr.Error
	said := ""
	if v.Message != "" {
		said = `; it says: "` + v.Message + `"`
	}
	switch status := x.response.Status; {
	case v.Limited:
		e = apperr.New(apperr.CodeProviderRateLimited, "The provider limits the rate of requests"+said)
		if v.Wait > 0 {
			e = e.RetryIn(v.Wait)
		}
	case status >= http.StatusInternalServerError:
		e = apperr.New(apperr.CodeProviderUnavailable, "The provider responded with an error of its own"+said)
		of.Effect, of.Retryable = effectOf(c, true), true
		if v.Wait > 0 {
			e = e.RetryIn(v.Wait)
		}
	case v.ScopeMissing:
		e = apperr.New(apperr.CodeProviderError, "The provider wants a scope that the connection does not have"+said)
	case v.AuthFailed:
		e = apperr.New(apperr.CodeProviderError, "The provider refuses the connection's credentials"+said)
	case status/100 == 3:
		e = apperr.New(apperr.CodeProviderError, "The provider redirects the request, and that is not followed"+said)
	default:
		e = apperr.New(apperr.CodeProviderError, "The provider refuses the request"+said)
	}
	return e.WithCall(of)
}

// shownHeaders returns the headers of a response that say something about its error.
func shownHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"Content-Type", "Date", "Location", "Retry-After", "Ratelimit-Limit",
		"Ratelimit-Remaining", "Ratelimit-Reset", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset",
		"Www-Authenticate", "X-Request-Id", "Request-Id"} {
		if value := h.Get(name); value != "" {
			out[http.CanonicalHeaderKey(name)] = value[:min(len(value), maxHeader)]
		}
	}
	return out
}

// maxHeader is how much of a header is shown.
const maxHeader = 500

// noTime is the error of a wait for which there is no time.
func noTime(e *apperr.Error, wait time.Duration) *apperr.Error {
	if wait > 0 && e.RetryAfter == 0 {
		return e.RetryIn(wait)
	}
	return e
}
