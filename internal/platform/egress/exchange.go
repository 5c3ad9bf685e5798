package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// defaultUserAgent is sent when the request has none.
	defaultUserAgent = "sallyport"
	// maxUnsent limits how often a request moves to another connection because an idle one ended before the request's
	// first byte was sent.
	maxUnsent = 3
)

// exchange is one request and its response, from the call to the last byte of the response body. It is the body of the
// response that callers read.
type exchange struct {
	client *Client
	bounds Bounds
	// parent is the caller's context. own ends with the exchange, which cancels its connection or stream.
	parent, own context.Context //nolint:containedctx // an exchange lives as long as its contexts
	cancel      context.CancelFunc
	// timer cancels own when IdleTimeout applies; nil without it.
	timer *time.Timer

	upload *upload
	trace  *trace // of the connection in use
	first  trace
	body   io.ReadCloser
	left   int64 // bytes of the body that the caller may still read
	failed *Error
	// ended is set when the caller has ended the exchange.
	ended atomic.Bool
}

// start sends the request and returns when the headers of the response have arrived. The template and its header are
// not modified; the body is either data or u. The caller reads and closes the response's body, which is the exchange.
//
// A response that cannot be used comes with an error and an empty body. Without a response, the exchange is nil.
func (c *Client) start(ctx context.Context, template *http.Request, data []byte, u *upload, b Bounds) (
	*http.Response, *exchange, *Error,
) {
	if err := c.checkRequest(template, data != nil || u != nil); err != nil {
		u.close()
		return nil, nil, err
	}
	x := &exchange{client: c, bounds: b, parent: ctx, upload: u, left: b.maxResponseBytes()}
	if b.IdleTimeout > 0 {
		x.own, x.cancel = context.WithCancel(ctx)
		x.timer = time.AfterFunc(b.timeout(), x.cancel) //nolint:forbidigo // deadlines are real time
	} else {
		x.own, x.cancel = context.WithTimeout(ctx, b.timeout())
	}
	if u != nil {
		// A body that is still being read when the exchange ends is closed, which wakes a blocked Read.
		context.AfterFunc(x.own, u.close) //nolint:contextcheck // own derives from ctx
	}
	if b.begun != nil {
		b.begun(x.interrupt)
	}
	header := template.Header
	if _, ok := header["User-Agent"]; !ok || u != nil {
		// Writing an upload may outlast the exchange, and must not see later changes.
		header = header.Clone()
		if header == nil {
			header = http.Header{}
		}
		if !ok {
			header.Set("User-Agent", defaultUserAgent)
		}
	}
	resp, err := x.send(x.own, template, header, data) //nolint:contextcheck // own derives from ctx
	if err != nil {
		x.cancel()
		return nil, nil, err
	}
	x.body = resp.Body
	resp.Body = x
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		err = x.fail(CodeResponseInvalid)
	case !x.stopTimer():
		err = x.fail(CodeTimeout)
	case x.body == http.NoBody:
		x.cancel()
		resp.Body = http.NoBody
	}
	if err != nil {
		_ = x.body.Close() // the response is unusable
		resp.Body = http.NoBody
	}
	return resp, x, err
}

// send sends the request over one connection, and over another when an idle one turns out to have ended.
func (x *exchange) send(own context.Context, template *http.Request, header http.Header, data []byte) (
	*http.Response, *Error,
) {
	begin := x.client.clock.Now()
	x.trace = &x.first // saves an allocation in nearly every exchange
	for attempt := 1; ; attempt++ {
		x.trace.clock, x.trace.begin = x.client.clock, begin
		x.trace.permit = permit{ask: x.bounds.Permit, refuse: x.cancel}
		q := template.WithContext(x.trace.follow(own))
		q.Header = header
		q.Proto, q.ProtoMajor, q.ProtoMinor = "HTTP/1.1", 1, 1
		q.GetBody = nil // so that net/http never sends it twice
		if size := len(x.bounds.head) + len(data); size > 0 {
			q.Body, q.ContentLength = inMemory(x.bounds.head, data), int64(size)
		} else if x.upload != nil {
			q.Body = x.upload.part()
		}
		resp, err := x.roundTrip(q)
		if err == nil {
			return resp, nil
		}
		at, sent, reused := x.trace.failure()
		if x.trace.permit.refused.Load() {
			return nil, x.newError(CodeCanceled, false)
		}
		// An idle connection had ended before the first byte: nothing was sent, so this sends nothing twice.
		if reused && !sent && own.Err() == nil && attempt < maxUnsent && x.upload.rewind() {
			x.trace = &trace{}
			continue
		}
		// A cancelled exchange returns while its write may be about to start.
		sent = sent || (at >= phaseConnected && own.Err() != nil)
		return nil, x.explain(x.newError(x.classify(err, at), sent), err)
	}
}

// roundTrip passes the request to net/http. That waits for a blocked Read of the request body even when the context has
// ended, so an upload gets a goroutine of its own to be left behind.
func (x *exchange) roundTrip(q *http.Request) (*http.Response, error) {
	if x.upload == nil {
		return x.client.transport.RoundTrip(q)
	}
	type result struct {
		resp *http.Response
		err  error
	}
	done, abandoned := make(chan result), make(chan struct{})
	defer close(abandoned)
	go func() {
		resp, err := x.client.transport.RoundTrip(q)
		select {
		case done <- result{resp, err}:
		case <-abandoned:
			if err == nil {
				_ = resp.Body.Close() // no caller waits for it
			}
		}
	}()
	select {
	case r := <-done:
		return r.resp, r.err
	case <-x.own.Done():
		return nil, x.own.Err()
	}
}

// Read reads the body of the response. Its errors other than io.EOF are of type *Error.
func (x *exchange) Read(p []byte) (int, error) {
	if x.failed != nil {
		return 0, x.failed
	}
	if x.left >= 0 && int64(len(p)) > x.left {
		p = p[:x.left+1] // one more shows whether the limit is exceeded
	}
	x.restartTimer()
	n, err := x.body.Read(p)
	x.stopTimer() // if it has fired, the next Read fails
	if x.left >= 0 {
		if int64(n) > x.left {
			return int(x.left), x.fail(CodeResponseTooLarge)
		}
		x.left -= int64(n)
	}
	switch {
	case errors.Is(err, io.EOF):
		x.cancel()
	case err != nil:
		err = x.fail(x.classify(err, phaseResponse))
	}
	return n, err
}

// Close ends the exchange. A connection whose response was not read to its end is closed.
func (x *exchange) Close() error {
	x.interrupt()
	return x.body.Close()
}

// interrupt ends the exchange for the caller.
func (x *exchange) interrupt() {
	x.ended.Store(true)
	x.cancel()
}

// fail ends the exchange with an error, which every later Read returns.
func (x *exchange) fail(code string) *Error {
	x.failed = x.newError(code, true)
	x.cancel()
	return x.failed
}

// stopTimer stops the timer and reports whether it had not fired.
func (x *exchange) stopTimer() bool { return x.timer == nil || x.timer.Stop() }

func (x *exchange) restartTimer() {
	if x.timer != nil {
		x.timer.Reset(x.bounds.IdleTimeout)
	}
}
