package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sallyport/internal/platform/apperr"
	"sallyport/internal/platform/clock"
	"sallyport/internal/platform/egress"
	"sallyport/internal/providers/connections"
	"sallyport/internal/providers/outbound"
	"sallyport/internal/providers/rendering"
)

const (
	// maxAttempts is how often a request is sent within a call, not counting the one after a renewal of the token.
	maxAttempts = 3
	// maxRedirects is how many redirects a read follows.
	maxRedirects = 3
	// maxResponse is how much of a response is read, and maxOutput how much is returned with the call.
	maxResponse, maxOutput = 10 << 20, 2 << 20
	// firstBackoff is the wait before the second attempt, where the provider names none.
	firstBackoff = 250 * time.Millisecond
)

// exchange is one request with its response.
type exchange struct {
	response outbound.Response
	// cut says that the body has more than was read.
	cut     bool
	verdict outbound.Verdict
	// from is the URL of the request.
	from *url.URL
}

// send sends the request of a call, again where that is safe, and reads the result.
func (p *Pipeline) send(ctx context.Context, c *Call) error {
	recorded, renewed := false, false
	for number := 1; ; number++ {
		if err := c.session.Acquire(ctx); err != nil {
			return waited(ctx, err)
		}
		signed, err := c.session.Prepare(ctx, c.out, nil)
		if err != nil {
			return notSendable(err)
		}
		if c.Writes() && !recorded {
			if err := p.cfg.Recorder.Begin(ctx, c); err != nil {
				return err //nolint:wrapcheck // an error of the API
			}
			recorded = true
		}
		x, failure := p.attempt(ctx, c, signed)
		if failure == nil && x.verdict.AuthFailed && !renewed {
			if renewed, err = c.session.Renew(ctx); err != nil {
				return err //nolint:wrapcheck // it says what failed
			}
			if renewed {
				number--
				continue
			}
		}
		if failure == nil {
			if failure = p.judge(c, x); failure == nil {
				c.Result = resultOf(x)
				return nil
			}
		}
		c.Attempts[len(c.Attempts)-1].Code = string(failure.Code)
		c.mayHaveActed = c.mayHaveActed || failure.Call.Effect == apperr.EffectUnknown
		wait, again := c.again(failure, number)
		if !again {
			return failure
		}
		if !p.hasTime(c, wait) {
			return noTime(failure, wait)
		}
		if err := p.sleep(ctx, wait); err != nil {
			return failure
		}
	}
}

// outgoing returns the request of the call, without credentials.
func (c *Call) outgoing() (outbound.Outgoing, error) {
	out, err := rendering.Render(c.Target.Action, c.Input)
	if err != nil {
		return out, invalidInput(err)
	}
	if key := c.Target.Idempotency; key != nil && c.Writes() {
		out.Header.Set(key.Header, c.providerKey())
	}
	if out.Header.Get("Accept") == "" {
		out.Header.Set("Accept", "application/json, */*;q=0.1")
	}
	return out, nil
}

// waited returns the error of a wait for the provider's limits.
func waited(ctx context.Context, err error) error {
	var e *apperr.Error
	if errors.As(err, &e) && e.Code == apperr.CodeRateLimited {
		return e.WithCall(apperr.Call{Source: apperr.SourceGateway, Retryable: true, Effect: apperr.EffectNone})
	}
	if ctx.Err() != nil {
		return ctx.Err() //nolint:wrapcheck // refused reads it
	}
	return err
}

// again says whether a request that failed is sent again, and after which wait. Reads are; writes only if the
// provider did nothing, or recognises the request.
func (c *Call) again(failure *apperr.Error, number int) (time.Duration, bool) {
	if number >= maxAttempts || !failure.Call.Retryable {
		return 0, false
	}
	untouched := failure.Call.Effect == apperr.EffectNone
	if c.Writes() && !untouched && c.Target.Idempotency == nil {
		return 0, false
	}
	wait := firstBackoff << (number - 1)
	wait += time.Duration(rand.Int64N(int64(wait) / 2)) //nolint:gosec // it spreads requests
	return max(wait, failure.RetryAfter), true
}

// hasTime reports whether a wait leaves time for a request.
func (p *Pipeline) hasTime(c *Call, wait time.Duration) bool { return p.left(c) > wait }

// left is how much of the call's time is left.
func (p *Pipeline) left(c *Call) time.Duration {
	return c.Request.Timeout - p.cfg.Clock.Now().Sub(c.began)
}

func (p *Pipeline) sleep(ctx context.Context, wait time.Duration) error {
	t := p.cfg.Clock.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller knows why
	}
}

// providerKey returns the key by which the provider recognises the requests of an execution. It says nothing about the
// caller's own key.
func (c *Call) providerKey() string {
	sum := sha256.Sum256([]byte("sallyport execution\n" + string(c.Environment()) + "\n" + c.ExecutionID()))
	key := sum[:16]
	key[6], key[8] = key[6]&0x0f|0x80, key[8]&0x3f|0x80 // a UUID of version 8 (RFC 9562)
	return fmt.Sprintf("%x-%x-%x-%x-%x", key[:4], key[4:6], key[6:8], key[8:10], key[10:])
}

// attempt sends one request, and those to which a read is redirected.
func (p *Pipeline) attempt(ctx context.Context, c *Call, signed *connections.Signed) (*exchange,
	*apperr.Error) {
	began := p.cfg.Clock.Now()
	c.Attempts = append(c.Attempts, apperr.CallAttempt{Number: len(c.Attempts) + 1, StartedAt: clock.Wire(began)})
	a := &c.Attempts[len(c.Attempts)-1]
	x, failure := p.exchange(c, signed)
	responded := failure == nil
	for range maxRedirects {
		next := p.redirect(c, x)
		if failure != nil || next == nil {
			break
		}
		var err error
		if signed, err = c.session.Prepare(ctx, c.out, next); err != nil {
			break // the redirect is the response
		}
		x, failure = p.exchange(c, signed)
	}
	took := p.cfg.Clock.Now().Sub(began)
	a.DurationMS = took.Milliseconds()
	c.Timing.Upstream += took
	if failure != nil {
		failure.BytesSent = failure.BytesSent || responded
		a.Sent = failure.BytesSent
		c.Sent = c.Sent || failure.BytesSent
		return nil, networkError(c, failure, ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded))
	}
	a.Status, a.Sent, c.Sent = x.response.Status, true, true
	return x, nil
}

// redirect returns where a response redirects a read; nil if it does not, or if that is not followed.
func (p *Pipeline) redirect(c *Call, x *exchange) *url.URL {
	if x == nil || c.Writes() || c.session.Provider().Outbound.FollowRedirects() != outbound.RedirectsReads ||
		c.Target.Method != http.MethodGet && c.Target.Method != http.MethodHead {
		return nil
	}
	switch x.response.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
	default:
		return nil
	}
	next, err := x.from.Parse(x.response.Header.Get("Location"))
	if err != nil || x.response.Header.Get("Location") == "" {
		return nil
	}
	return next
}

// exchange sends one request and reads the response, without the credentials in it.
func (p *Pipeline) exchange(c *Call, signed *connections.Signed) (*exchange, *egress.Error) {
	left := p.left(c)
	if left <= 0 {
		return nil, &egress.Error{Code: egress.CodeTimeout, Message: "There was no time left for the request."}
	}
	resp, err := p.cfg.Client.RoundTripper(egress.Bounds{Timeout: left, MaxResponseBytes: egress.Unlimited}).
		RoundTrip(signed.Request)
	if err != nil {
		return nil, failureOf(err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse+1))
	_ = resp.Body.Close() // what is left of the body is not wanted
	if err != nil {
		failure := failureOf(err)
		failure.BytesSent = true
		return nil, failure
	}
	x := &exchange{response: outbound.Response{Status: resp.StatusCode, Header: resp.Header, Body: body},
		from: signed.Request.URL}
	if len(body) > maxResponse {
		x.response.Body, x.cut = body[:maxResponse], true
	}
	plain, cut, err := rendering.Decompress(resp.Header, x.response.Body, x.cut, maxResponse)
	if err != nil {
		return nil, &egress.Error{Code: egress.CodeResponseInvalid, BytesSent: true,
			Message: "The provider's response has a content coding that cannot be undone."}
	}
	x.response.Body, x.cut = plain, cut
	engine := c.session.Provider().Outbound
	c.session.Observe(x.response, engine.Judge(x.response, p.cfg.Clock.Now()))
	x.response.Body = signed.Mask.Bytes(x.response.Body, x.cut)
	if len(x.response.Body) > maxResponse { // what stands for secrets can be longer than these
		x.response.Body, x.cut = x.response.Body[:maxResponse], true
	}
	x.response.Header = signed.Mask.Header(x.response.Header)
	x.verdict = engine.Judge(x.response, p.cfg.Clock.Now())
	x.verdict.Message, x.verdict.RequestID = signed.Mask.Text(x.verdict.Message), signed.Mask.Text(x.verdict.RequestID)
	return x, nil
}

func failureOf(err error) *egress.Error {
	var failure *egress.Error
	if errors.As(err, &failure) {
		of := *failure
		return &of
	}
	return &egress.Error{Code: egress.CodeResponseInvalid, BytesSent: true,
		Message: "The target's response is not valid HTTP."}
}

// judge returns the error that a response means; nil for a success.
func (p *Pipeline) judge(c *Call, x *exchange) *apperr.Error {
	status := x.response.Status
	if x.verdict.OK && (status/100 == 2 || status == http.StatusNotModified) {
		return nil
	}
	return providerError(c, x)
}

// resultOf returns what a caller gets of a response.
func resultOf(x *exchange) *Result {
	r := &Result{Status: x.response.Status, RequestID: x.verdict.RequestID,
		ContentType: x.response.Header.Get("Content-Type")}
	body := x.response.Body
	if len(body) <= maxOutput {
		r.Output, r.Truncated = output(r.ContentType, body, x.cut), x.cut
		return r
	}
	r.Truncated, r.Full = true, body
	r.Output = output(r.ContentType, body[:maxOutput], true)
	return r
}

func output(contentType string, body []byte, cut bool) json.RawMessage {
	return rendering.Output(strings.TrimSpace(contentType), body, cut)
}
