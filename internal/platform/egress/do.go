package egress

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	// drainBytes is how much of a truncated response is read in order to keep its connection.
	drainBytes = 64 << 10
	// firstRead is the buffer for a body of unknown length; maxFirstRead limits the one for a body of announced length.
	firstRead, maxFirstRead = 512, 64 << 10
)

// Request is a request whose body is in memory.
type Request struct {
	// Method is required.
	Method string
	// URL comes from ParseTarget. It is not modified.
	URL *url.URL
	// Header is sent unchanged and not modified; Host in it is ignored. A missing User-Agent is added, which costs a
	// copy.
	Header http.Header
	// Head and Body, one after the other, are the body, so that requests that differ in the beginning share the rest. They
	// must not change after Do was called: a write may outlast a cancelled exchange.
	Head, Body []byte
	// Timeout limits the whole exchange, from name resolution to the last byte of the body; 0 means 15 s.
	Timeout time.Duration
	// MaxResponseBytes is how much of the response body is kept.
	MaxResponseBytes int64
	// Begun, if set, is called before anything is done, with a function that ends the exchange: Do then returns an error
	// with CodeCanceled. It costs less than a context for each request. The function may be called at any time, also after
	// Do has returned.
	Begun func(interrupt func())
	// Permit, if set, is asked when the connection is there, before the first byte of the request is sent. If it returns
	// false, nothing is sent, and Do returns an error with CodeCanceled. It must not block.
	Permit func() bool
}

// Response is a response of any status, redirects included.
type Response struct {
	Status int
	Header http.Header
	// Body is the first MaxResponseBytes of the body as sent, not decompressed.
	Body []byte
	// Truncated reports whether the body was longer.
	Truncated bool
	Timings   Timings
}

// Do sends the request and reads the response. When the response breaks off it returns both: the error, and a Response
// with status, headers and as much of the body as arrived.
func (c *Client) Do(ctx context.Context, r Request) (Response, *Error) {
	if out, err, ok := c.doDirect(ctx, &r); ok {
		return out, err
	}
	q := http.Request{Method: r.Method, URL: r.URL, Header: r.Header}
	if r.URL != nil {
		q.Host = r.URL.Host
	}
	resp, x, err := c.start(ctx, &q, r.Body, nil, Bounds{Timeout: r.Timeout, MaxResponseBytes: Unlimited,
		head: r.Head, Permit: r.Permit, begun: r.Begun})
	if x == nil {
		return Response{}, err
	}
	out := Response{Status: resp.StatusCode, Header: resp.Header}
	if err == nil {
		out.Body, out.Truncated, err = readBody(resp, max(0, r.MaxResponseBytes))
	}
	if err == nil && out.Truncated && resp.ContentLength <= r.MaxResponseBytes+drainBytes {
		// The wanted part has arrived: an error in the rest costs only the connection.
		_, _ = io.CopyN(io.Discard, resp.Body, drainBytes)
	}
	_ = resp.Body.Close() // the exchange is over; its errors came from Read
	out.Timings = x.trace.timings()
	return out, err
}

// readBody reads up to limit bytes, and one more to see whether there are more. It allocates memory as bytes arrive,
// not as the peer announces them.
func readBody(resp *http.Response, limit int64) (body []byte, truncated bool, _ *Error) {
	if resp.Body == http.NoBody || resp.ContentLength == 0 {
		return nil, false, nil
	}
	size := min(firstRead, limit)
	if resp.ContentLength > 0 {
		size = min(resp.ContentLength, maxFirstRead, limit)
	}
	buf := make([]byte, 0, size+1)
	for int64(len(buf)) <= limit {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(2*int64(cap(buf)), limit+1))
			copy(grown, buf)
			buf = grown
		}
		n, err := resp.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		var failure *Error
		switch {
		case int64(len(buf)) > limit:
			return buf[:limit:limit], true, nil
		case errors.Is(err, io.EOF):
			return buf, false, nil
		case errors.As(err, &failure):
			return buf, false, failure
		}
	}
	return buf, false, nil
}

// inMemory returns a body that net/http recognises as being in memory, which it sends in one write with the headers.
// Without Request.GetBody it never sends it twice.
// With a head there is one write for each.
func inMemory(head, body []byte) io.ReadCloser {
	if len(head) == 0 {
		return io.NopCloser(bytes.NewReader(body))
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(head), bytes.NewReader(body)))
}
