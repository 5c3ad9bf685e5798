package egress

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"sync"
	"time"
)

// maxDirect is the size of the largest request that is sent directly, in bytes. The buffers of a connection take as
// much before the peer reads any of it, so writing it does not wait for a peer that responds without reading.
const maxDirect = 32 << 10

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0) //nolint:gochecknoglobals // a constant

// direct is an exchange over HTTP/1.1 without encryption that runs on the goroutine of its caller: net/http passes each
// request to two others, which is a fifth of the cost of a delivery. The response is read by net/http's own parser.
type direct struct {
	exchange
	deadline time.Time

	mu   sync.Mutex
	over bool
	// conn is the connection in use, and cancelDial ends a dial in progress.
	conn       *directConn
	cancelDial context.CancelFunc
}

// doDirect is Do for a request that can be sent directly; ok is false, and nothing was done, for others.
func (c *Client) doDirect(ctx context.Context, r *Request) (out Response, failed *Error, ok bool) {
	if !c.isDirect(ctx, r) {
		return Response{}, nil, false
	}
	b := c.buffers.take()
	if *b, ok = appendRequest(*b, r); !ok {
		c.buffers.put(b)
		return Response{}, nil, false
	}
	x := &direct{exchange: exchange{client: c, parent: ctx, own: context.Background(), left: Unlimited}}
	x.trace = &x.first
	x.first.clock, x.first.begin = c.clock, c.clock.Now()
	x.deadline = time.Now().Add(Bounds{Timeout: r.Timeout}.timeout()) //nolint:forbidigo // deadlines are real time
	if d, has := ctx.Deadline(); has && d.Before(x.deadline) {
		x.deadline = d
	}
	if r.Begun != nil {
		r.Begun(func() {
			x.ended.Store(true)
			x.wake()
		})
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, x.wake)()
	}
	conn, failed := x.send(r, *b) //nolint:contextcheck // x has it
	c.buffers.put(b)
	if failed != nil {
		return Response{}, failed, true
	}
	out, failed = x.receive(conn, r)
	return out, failed, true
}

// isDirect reports whether the request is one that could be sent directly: small, with a body, over http, and not
// followed by hooks of the caller.
func (c *Client) isDirect(ctx context.Context, r *Request) bool {
	if size := len(r.Head) + len(r.Body); !canCheckIdle || size == 0 || size > maxDirect || r.URL == nil {
		return false
	}
	return r.URL.Scheme == "http" && c.checkParts(r.URL) == nil && c.transport.MaxConnsPerHost == 0 &&
		httptrace.ContextClientTrace(ctx) == nil
}

// send sends the request over one connection, and over another when an idle one turns out to have ended.
func (x *direct) send(r *Request, request []byte) (*directConn, *Error) {
	for attempt := 1; ; attempt++ {
		conn, reused, err := x.connect(r.URL)
		if err != nil {
			at, _, _ := x.trace.failure()
			return nil, x.newError(x.classify(err, at), false)
		}
		if r.Permit != nil && !r.Permit() {
			x.release(conn, true)
			return nil, x.newError(CodeCanceled, false)
		}
		n, err := conn.Write(request)
		conn.broken = err != nil
		switch {
		case err == nil:
			return conn, nil
		case n > 0 && !isTimeout(err):
			return conn, nil // the peer may have responded before it closed
		}
		x.release(conn, false)
		// An idle connection had ended before the first byte: nothing was sent, so this sends nothing twice.
		if n == 0 && reused && attempt < maxUnsent && !isTimeout(err) {
			continue
		}
		return nil, x.newError(x.classify(err, phaseConnected), n > 0)
	}
}

// connect returns a connection whose deadline is that of the exchange: an idle one that the peer has not ended, or a
// new one.
func (x *direct) connect(u *url.URL) (conn *directConn, reused bool, err error) {
	for conn := x.client.idle.take(u.Host); conn != nil; conn = x.client.idle.take(u.Host) {
		if err := x.use(conn); err != nil {
			x.release(conn, false)
			return nil, false, err
		}
		if conn.isQuiet() {
			x.connected(true)
			return conn, true, nil
		}
		x.release(conn, false)
	}
	conn, err = x.dial(u)
	if err != nil {
		return nil, false, err
	}
	if err := x.use(conn); err != nil {
		x.release(conn, false)
		return nil, false, err
	}
	x.connected(false)
	return conn, false, nil
}

func (x *direct) dial(u *url.URL) (*directConn, error) {
	ctx, cancel := context.WithDeadline(x.parent, x.deadline)
	defer cancel()
	x.mu.Lock()
	if x.over {
		x.mu.Unlock()
		return nil, context.Canceled
	}
	x.cancelDial = cancel
	x.mu.Unlock()
	x.trace.Context = ctx
	port := u.Port()
	if port == "" {
		port = "80"
	}
	conn, err := x.client.transport.DialContext(x.trace, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err() // the dialer has several errors for it
		}
		return nil, err
	}
	return newDirectConn(u.Host, conn), nil
}

// connected notes the moment from which the connection is there.
func (x *direct) connected(reused bool) {
	now := x.client.clock.Now()
	x.trace.mu.Lock()
	defer x.trace.mu.Unlock()
	x.trace.gotConn, x.trace.reused = now, reused
}

// use makes conn the connection of the exchange, unless that is over.
func (x *direct) use(conn *directConn) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.parent.Err(); err != nil {
		return err
	}
	if x.over {
		return context.Canceled
	}
	x.conn, x.cancelDial = conn, nil
	return conn.SetDeadline(x.deadline)
}

// release ends the use of the connection, and keeps it for others if it can be used again.
func (x *direct) release(conn *directConn, again bool) {
	x.mu.Lock()
	x.conn = nil
	x.mu.Unlock()
	if again {
		x.client.idle.put(conn)
		return
	}
	_ = conn.Close() // its error changes nothing
}

// wake ends all that the exchange waits for.
func (x *direct) wake() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if x.conn != nil {
		_ = x.conn.SetDeadline(longAgo)
	}
	if x.cancelDial != nil {
		x.cancelDial()
	}
}

// receive reads the response and ends the use of the connection.
func (x *direct) receive(conn *directConn, r *Request) (Response, *Error) {
	resp, err := x.readHeaders(conn) //nolint:bodyclose // the connection is kept or closed as a whole
	if err != nil {
		x.release(conn, false)
		at, _, _ := x.trace.failure()
		return Response{}, x.explain(x.newError(x.classify(err, at), true), err)
	}
	out := Response{Status: resp.StatusCode, Header: resp.Header}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.release(conn, false)
		failed := x.newError(CodeResponseInvalid, true)
		out.Timings = failed.Timings
		return out, failed
	}
	body := &directBody{x: x, body: resp.Body, ended: resp.Body == http.NoBody}
	if !body.ended {
		resp.Body = body
	}
	var failed *Error
	out.Body, out.Truncated, failed = readBody(resp, max(0, r.MaxResponseBytes))
	if failed == nil && out.Truncated && resp.ContentLength <= r.MaxResponseBytes+drainBytes {
		// The wanted part has arrived: an error in the rest costs only the connection.
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	}
	// A body that is left unread is never closed, which would read it: its connection is.
	x.release(conn, body.ended && !resp.Close && !conn.broken && conn.reader.Buffered() == 0)
	out.Timings = x.trace.timings()
	return out, failed
}

// readHeaders reads the headers of the response, and the informational responses before it.
func (x *direct) readHeaders(conn *directConn) (*http.Response, error) {
	conn.left = maxResponseHeaderBytes
	if _, err := conn.reader.Peek(1); err != nil {
		return nil, err
	}
	x.trace.stamp(&x.trace.firstByte, true)
	for {
		resp, err := http.ReadResponse(conn.reader, nil)
		if err != nil {
			if cause := conn.readErr; errors.Is(cause, os.ErrDeadlineExceeded) || errors.Is(cause, errHeadersTooLong) {
				return nil, cause
			}
			return nil, err
		}
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			conn.left = math.MaxInt64
			return resp, nil
		}
	}
}

// directBody is the body of a response. Its errors other than io.EOF are of type *Error.
type directBody struct {
	x     *direct
	body  io.ReadCloser
	ended bool
}

// Read implements io.Reader.
func (b *directBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.ended = true
	case err != nil:
		err = b.x.newError(b.x.classify(err, phaseResponse), true)
	}
	return n, err
}

// Close does nothing: the exchange ends with its function.
func (*directBody) Close() error { return nil }

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}
